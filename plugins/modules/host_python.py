#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_python
version_added: 0.1.0
short_description: Put nvidia-ml-py on a host without pip
author: gpufleet contributors (@gpufleet)
description:
  - Copies a wheel of C(nvidia-ml-py) from the controller and unpacks it under C(/opt/gpufleet/python), where the modules of this collection
    look for NVML's Python binding first. The host needs neither pip nor a route out, and its own Python environment is left alone.
  - Each file is checked against the wheel's own RECORD; the new directory takes the place of the old one by rename.
options:
  state:
    description: V(absent) removes the directory.
    type: str
    choices: [present, absent]
    default: present
  wheel:
    description: Path of the wheel on the controller; required for O(state=present).
    type: path
  path:
    description: Directory on the host.
    type: path
    default: /opt/gpufleet/python
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
    description: Supports being used with the C(async) keyword.
    details: The wheel's copy on the host goes with the task.
    support: none
"""

EXAMPLES = r"""
- name: nvidia-ml-py from a wheel on the controller
  gpufleet.inference.host_python:
    wheel: /srv/wheels/nvidia_ml_py-13.615.71-py3-none-any.whl
  become: true
"""

RETURN = r"""
version:
  description: Version that is there now (in check mode, would be); empty when absent.
  returned: success
  type: str
  sample: 13.615.71
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import HostError
from ..module_utils._paths import PYTHON_DIR
from ..module_utils._wheel import installed_version, remove, unpack, wheel_identity

DISTRIBUTION = "nvidia-ml-py"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "wheel": {"type": "path"},
            "path": {"type": "path", "default": PYTHON_DIR},
        },
        required_if=[("state", "present", ("wheel",))],
        supports_check_mode=True,
    )
    directory = module.params["path"]
    before = installed_version(directory, DISTRIBUTION) or ""
    try:
        after = _wanted(module.params["wheel"]) if module.params["state"] == "present" else ""
        changed = before != after or (not after and os.path.isdir(directory))
        if changed and not module.check_mode:
            if after:
                unpack(module.params["wheel"], directory)
            else:
                remove(directory)
    except HostError as exc:
        module.fail_json(msg=str(exc))
    diff = {"before_header": directory, "after_header": directory, "before": f"{before}\n", "after": f"{after}\n"}
    module.exit_json(changed=changed, version=after, diff=diff)


def _wanted(wheel: str) -> str:
    distribution, version = wheel_identity(wheel)
    if distribution.lower().replace("_", "-") != DISTRIBUTION:
        raise HostError(f"wheel is {wheel}, which holds {distribution}; expected {DISTRIBUTION}, NVIDIA's own binding")
    return version


if __name__ == "__main__":
    main()
