#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_runfile
version_added: 0.1.0
short_description: Install the NVIDIA driver from its .run file, or remove it
author: gpufleet contributors (@gpufleet)
description:
  - Fetches the file on the host (an interrupted download is resumed, the system log tells how far it is), compares its checksum, and only
    then runs it.
  - The installer runs in the transient systemd unit C(gpufleet-driver-runfile.service). It goes on when the run that started it dies, and
    the next run waits for it instead of starting another one.
  - The installer builds the kernel modules before it removes an older driver, so a build that fails leaves that driver as it was. The error
    names what is installed then, with the end of C(/var/log/nvidia-installer.log).
  - V(absent) runs the driver's own C(nvidia-uninstall), which knows what it put there; loaded modules stay loaded.
  - Which options an installer has is known to role P(gpufleet.inference.nvidia_driver#role), not to this module.
options:
  state:
    description: V(fetched) only makes sure that the verified file is on the host, before something else has to go.
    type: str
    choices: [present, fetched, absent]
    default: present
  version:
    description: Version of the driver in the file, C(580.105.08). Needed unless O(state=absent).
    type: str
  url:
    description: Where the file is (http, https or file). Needed unless O(state=absent).
    type: str
  sha256:
    description: Its SHA-256, 64 hexadecimal digits. Needed unless O(unverified=true).
    type: str
    default: ""
  unverified:
    description: Whether a file without checksum may be run as root.
    type: bool
    default: false
  arguments:
    description: Arguments of the installer.
    type: list
    elements: str
    default: []
  tmpdir:
    description: Where the file unpacks itself and builds. Needs about 2 GiB; must not be mounted C(noexec).
    type: path
    default: /var/lib/gpufleet/driver-runfile/tmp
  kernel_modules:
    description:
      - Which kernel modules the O(arguments) ask for. Another kind at the same version is a new installation.
      - Unless V(none), a compiler, make and dkms are looked for before anything is changed.
    type: str
    choices: [open, proprietary, none]
    default: open
  persistenced_unit:
    description: Write a unit for the persistence daemon, of which a .run file has a sample only. One that is there is left as it is.
    type: bool
    default: false
  timeout:
    description: Seconds that the installer may take.
    type: int
    default: 3600
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
- name: Driver 580.105.08 from its .run file
  gpufleet.inference.driver_runfile:
    version: 580.105.08
    url: http://mirror.example/NVIDIA-Linux-x86_64-580.105.08.run
    sha256: "{{ driver_sha256 }}"
    arguments: [--silent, --dkms, --kernel-module-type=open, --no-opengl-files]
  become: true
"""

RETURN = r"""
version:
  description: The driver of a .run file that is installed afterwards, null where there is none.
  returned: success
  type: str
reason:
  description:
    - A word for the cause, V(unreachable), V(checksum), V(disk_full), V(tools_missing), V(installer_failed), V(uninstaller_failed),
      V(uninstaller_missing), V(failed).
  returned: failure
  type: str
"""

import contextlib
import os
import re
import shutil

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ..module_utils._driver_record import read_record
from ..module_utils._driver_runfile import FOLDER, TMPDIR, UNIT, install, installed_version, missing_tools, uninstall, write_persistenced
from ..module_utils._errors import HostError
from ..module_utils._runfile import RunfileError, fetch
from ..module_utils._seconds import check_seconds
from ..module_utils._transient import has_result

# The file, and what it unpacks and builds next to it.
SPACE = 4


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "fetched", "absent"], "default": "present"},
            "version": {"type": "str"},
            "url": {"type": "str"},
            "sha256": {"type": "str", "default": ""},
            "unverified": {"type": "bool", "default": False},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "tmpdir": {"type": "path", "default": TMPDIR},
            "kernel_modules": {"type": "str", "choices": ["open", "proprietary", "none"], "default": "open"},
            "persistenced_unit": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 3600},
        },
        required_if=[("state", "present", ("url", "version")), ("state", "fetched", ("url", "version"))],
        supports_check_mode=True,
    )
    _check_options(module)
    try:
        check_seconds(module.params, "timeout")
        changed = uninstall(module.check_mode) if module.params["state"] == "absent" else _present(module)
        version = installed_version()
    except HostError as exc:
        module.fail_json(msg=str(exc), reason=exc.reason if isinstance(exc, RunfileError) else "failed")
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename or 'the host'}: {exc.strerror or exc}", reason="failed")
    module.exit_json(changed=changed, version=version)


def _check_options(module: AnsibleModule) -> None:
    options = module.params
    if os.geteuid() != 0:
        module.fail_json(msg="a driver is installed by root only; run the task with become: true", reason="failed")
    if options["state"] == "absent":
        return
    if not re.fullmatch(r"\d{3,}(\.\d+){1,2}", options["version"]):
        module.fail_json(msg=f"version is {options['version']!r}; expected an exact version such as 580.105.08", reason="failed")
    if not re.fullmatch(r"[0-9a-fA-F]{64}", options["sha256"]) and not (options["unverified"] and options["sha256"] == ""):
        expected = "64 hexadecimal digits, or unverified: true and nothing"
        module.fail_json(msg=f"sha256 is {options['sha256']!r}; expected {expected}", reason="checksum")


def _present(module: AnsibleModule) -> bool:
    options = module.params
    if options["state"] == "present" and _is_installed(options):
        return options["persistenced_unit"] and write_persistenced(module.check_mode)
    if module.check_mode:
        return True
    missing = missing_tools() if options["kernel_modules"] != "none" else []
    if missing:
        packages = "packages gcc, make, binutils and dkms have them"
        raise RunfileError("tools_missing", f"the installer builds kernel modules, but the host has no {', '.join(missing)}; {packages}")
    path = f"{FOLDER}/{os.path.basename(options['url'])}"
    there = os.path.exists(path)
    fetch(open_url, options["url"], path, options["sha256"], SPACE, module.log)
    if options["state"] == "fetched":
        return not there
    try:
        install(path, _entry(options), options["arguments"], options["tmpdir"], options["timeout"])
    finally:
        if not has_result(UNIT):
            shutil.rmtree(FOLDER, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.rmdir(options["tmpdir"])
    if options["persistenced_unit"]:
        write_persistenced()
    return True


def _is_installed(options: dict) -> bool:
    record = read_record()
    ours = record.get("runfile") or {}
    same = all(ours.get(key) == options[key] for key in ("version", "kernel_modules"))
    return same and not record.get("runfile_pending") and installed_version() == options["version"]


def _entry(options: dict) -> dict:
    return {"version": options["version"], "sha256": options["sha256"].lower(), "kernel_modules": options["kernel_modules"]}


if __name__ == "__main__":
    main()
