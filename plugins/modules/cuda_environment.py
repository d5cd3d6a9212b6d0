#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_environment
version_added: 0.1.0
short_description: Choose the default CUDA toolkit, and how shells and the loader find it
author: gpufleet contributors (@gpufleet)
description:
  - Makes C(/usr/local/cuda) lead to the default toolkit through the alternatives system, as NVIDIA's packages do, set by hand, so that a
    toolkit that is installed later does not take it over.
  - Writes or removes the files for login shells and for the loader, and runs C(ldconfig) when the loader's files changed.
  - Asks the compiler of each toolkit for its version, and fails if it is not the toolkit's.
  - V(absent) brings the link back to what it was before the first change, removes the files and, last of all, the record
    C(/var/lib/gpufleet/cuda.json).
options:
  state:
    description: Whether the environment is ours.
    type: str
    choices: [present, absent]
    default: present
  default:
    description: Folder of the default toolkit. Empty leaves the link alone.
    type: str
    default: ""
  toolkits:
    description: Folder of each wanted toolkit, with its version.
    type: dict
    default: {}
  files:
    description: Path of each file of ours, with its content; empty content removes it.
    type: dict
    default: {}
extends_documentation_fragment:
  - gpufleet.inference._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
  async:
    description: A change that runs in the background cannot be verified by its role.
    support: none
"""

EXAMPLES = r"""
- name: CUDA 12.8 is the default, 13.0 is there as well
  gpufleet.inference.cuda_environment:
    default: /usr/local/cuda-12.8
    toolkits:
      /usr/local/cuda-12.8: 12.8.1
      /usr/local/cuda-13.0: 13.0.2
  become: true
"""

RETURN = r"""
link:
  description: State of C(/usr/local/cuda) afterwards.
  returned: success
  type: dict
  sample: {mode: manual, target: /usr/local/cuda-12.8, alternatives: [/usr/local/cuda-12.8]}
"""

import contextlib
import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _cuda_environment as environment
from ..module_utils._cuda_record import read_record
from ..module_utils._errors import HostError
from ..module_utils._files import remove, write_text
from ..module_utils._paths import CUDA_COMPAT_LD, CUDA_LD, CUDA_PROFILE, CUDA_RECORD, VAR_DIR
from ..module_utils._subprocess import run

FILES = (CUDA_PROFILE, CUDA_LD, CUDA_COMPAT_LD)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "default": {"type": "str", "default": ""},
            "toolkits": {"type": "dict", "default": {}},
            "files": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    options, check = module.params, module.check_mode
    try:
        unknown = sorted(set(options["files"]) - set(FILES))
        if unknown:
            raise HostError(f"files names {', '.join(unknown)}; this module writes only {', '.join(FILES)}")
        if options["state"] == "absent":
            changed, diff = _absent(check)
        else:
            changed, diff = _present(options, check)
        link = environment.link_now()
    except HostError as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename or 'the host'}: {exc.strerror or exc}")
    module.exit_json(changed=changed, link=link, diff=diff)


def _present(options: dict, check: bool) -> tuple:
    changed = False if check else environment.forget_others(options["toolkits"])
    if options["default"]:
        changed |= environment.set_default(options["default"], list(options["toolkits"]), check)
    rewritten, diff = _files(options["files"], check)
    if not check:
        for folder, version in options["toolkits"].items():
            _compiler(folder, version)
    return changed or rewritten, diff


def _absent(check: bool) -> tuple:
    changed = environment.restore_link(check)
    rewritten, diff = _files(dict.fromkeys(FILES, ""), check)
    recorded = read_record()
    if recorded["packages"] or recorded.get("runfiles"):  # still needed to take those away
        return changed or rewritten, diff
    gone = remove(CUDA_RECORD, check=check)
    if not check:
        with contextlib.suppress(OSError):
            os.rmdir(VAR_DIR)  # when nothing else of this collection is on the host
    return changed or rewritten or gone.changed, diff


def _files(files: dict, check: bool) -> tuple:
    written = {path: write_text(path, text, check=check) if text else remove(path, check=check) for path, text in sorted(files.items())}
    changed = [path for path, outcome in written.items() if outcome.changed]
    if any(path.startswith("/etc/ld.so.conf.d/") for path in changed) and not check:
        result = run(["ldconfig"], timeout=120)
        if not result.success:
            raise HostError(f"ldconfig: {result.err.strip() or result.state}")
    return bool(changed), [written[path].diff for path in changed]


def _compiler(folder: str, version: str) -> None:
    release = environment.nvcc_release(folder)
    if release != ".".join(str(version).split(".")[:2]):
        raise HostError(f"{folder} should be CUDA {version}, but its compiler says it is of release {release}")


if __name__ == "__main__":
    main()
