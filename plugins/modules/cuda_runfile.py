#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_runfile
version_added: 0.1.0
short_description: Install a CUDA toolkit from NVIDIA's runfile, or remove it without a trace
author: gpufleet contributors (@gpufleet)
description:
  - Fetches the runfile on the host (an interrupted download is resumed), compares its checksum, and only then runs it, with
    C(--silent --toolkit) and nothing else, so that no driver comes along.
  - Notes in C(/var/lib/gpufleet/cuda.json) what the installer put where. V(absent) removes exactly this. If the installer fails, what it
    wrote is removed at once; if it is interrupted, the next run begins anew.
  - A folder C(/usr/local/cuda-X.Y) that is there already and not ours is never touched.
options:
  state:
    description: Whether the toolkit is there.
    type: str
    choices: [present, absent]
    default: present
  version:
    description: Exact version of the toolkit, C(13.0.2).
    type: str
    required: true
  url:
    description: Where the runfile is (http, https or file on the host). Needed for O(state=present).
    type: str
  sha256:
    description: Its SHA-256, 64 hexadecimal digits. Needed for O(state=present).
    type: str
  timeout:
    description: Seconds that the installer may take.
    type: int
    default: 1800
extends_documentation_fragment:
  - gpufleet.inference._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
  async:
    description: A change that runs in the background cannot be verified by its role.
    support: none
"""

EXAMPLES = r"""
- name: CUDA 13.0.2 from its runfile
  gpufleet.inference.cuda_runfile:
    version: 13.0.2
    url: https://developer.download.nvidia.com/compute/cuda/13.0.2/local_installers/cuda_13.0.2_580.95.05_linux.run
    sha256: "{{ cuda_13_0_2_sha256 }}"
  become: true
"""

RETURN = r"""
paths:
  description: What the installer put there.
  returned: success
  type: list
  elements: str
  sample: [/etc/ld.so.conf.d/cuda-13-0.conf, /usr/local/cuda-13.0]
reason:
  description: A word for the cause, V(unreachable), V(checksum), V(disk_full), V(folder_taken), V(installer_failed), V(failed).
  returned: failure
  type: str
"""

import contextlib
import os
import re

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ..module_utils._cuda_environment import remember_link
from ..module_utils._cuda_record import read_record
from ..module_utils._cuda_runfile import SPACE, install, uninstall
from ..module_utils._errors import HostError
from ..module_utils._paths import VAR_DIR
from ..module_utils._runfile import RunfileError, discard, fetch
from ..module_utils._seconds import check_seconds
from ..module_utils._subprocess import run


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "version": {"type": "str", "required": True},
            "url": {"type": "str"},
            "sha256": {"type": "str"},
            "timeout": {"type": "int", "default": 1800},
        },
        required_if=[("state", "present", ("url", "sha256"))],
        supports_check_mode=True,
    )
    options = module.params
    if not re.fullmatch(r"\d+\.\d+\.\d+", options["version"]):
        module.fail_json(msg=f"version is {options['version']!r}; expected an exact version such as 13.0.2", reason="failed")
    if options["state"] == "present" and not re.fullmatch(r"[0-9a-fA-F]{64}", options["sha256"]):
        module.fail_json(msg=f"sha256 is {options['sha256']!r}; expected 64 hexadecimal digits", reason="checksum")
    try:
        check_seconds(options, "timeout")
        changed = _absent(module) if options["state"] == "absent" else _present(module)
        entry = (read_record().get("runfiles") or {}).get(options["version"]) or {}
    except HostError as exc:
        module.fail_json(msg=str(exc), reason=exc.reason if isinstance(exc, RunfileError) else "failed")
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename or 'the host'}: {exc.strerror or exc}", reason="failed")
    module.exit_json(changed=changed, paths=entry.get("paths", []))


def _absent(module: AnsibleModule) -> bool:
    version = module.params["version"]
    if module.check_mode:
        return version in (read_record().get("runfiles") or {})
    changed = uninstall(version)
    if changed:
        run(["ldconfig"], timeout=120)
    return changed


def _present(module: AnsibleModule) -> bool:
    options = module.params
    folder = f"/usr/local/cuda-{'.'.join(options['version'].split('.')[:2])}"
    recorded = (read_record().get("runfiles") or {}).get(options["version"])
    if recorded and os.path.isdir(folder):
        return False
    if not module.check_mode:
        path = f"{VAR_DIR}/runfiles/{os.path.basename(options['url'])}"
        fetch(open_url, options["url"], path, options["sha256"], SPACE, module.log)
        remember_link()
        try:
            install(path, options["version"], folder, options["sha256"], options["timeout"])
        finally:
            discard(path)
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(path))
    return True


if __name__ == "__main__":
    main()
