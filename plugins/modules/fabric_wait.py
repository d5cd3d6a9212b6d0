#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_wait
version_added: 0.1.0
short_description: Wait until the GPUs' NVLink fabric is ready
author: gpufleet contributors (@gpufleet)
description:
  - After a boot or a start of the fabric manager the GPUs take a while to join their fabric; CUDA does not start on them before.
  - Ready means that the fabric manager (IMEX on the compute trays of a rack) is active and that NVML tells the fabric state COMPLETED with
    status SUCCESS for each GPU, or, where a GPU has no such state (NVLink 3 and older), that all of its links are up. It is
    C(fabric.ready) of M(gpufleet.inference.gpu_info).
  - Waits no longer than O(timeout) and changes nothing. That time ran out is no failure, but RV(ready=false).
options:
  timeout:
    description: Seconds to wait.
    type: int
    default: 300
extends_documentation_fragment:
  - gpufleet.inference._nvml
  - gpufleet.inference._attributes
  - gpufleet.inference._attributes.info_module
  - gpufleet.inference._attributes.actiongroup_gpu
seealso:
  - module: gpufleet.inference.gpu_info
"""

EXAMPLES = r"""
- name: Wait for the fabric
  gpufleet.inference.fabric_wait:
    timeout: 120
  become: true
  register: fabric
  failed_when: not fabric.ready
"""

RETURN = r"""
ready:
  description: Whether the fabric is ready; also V(true) on a machine that has none.
  returned: success
  type: bool
reason:
  description: What was missing in the end, empty if nothing was.
  returned: success
  type: str
waited:
  description: Seconds.
  returned: success
  type: float
"""

import time
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import HostError
from ..module_utils._gpu_info import collect
from ..module_utils._nvml_args import NVML_ARGS, nvml_options
from ..module_utils._reader import Reader
from ..module_utils._seconds import check_seconds

PAUSE = 2.0
TELLING = ("ok", "lost", "error")
"""States in which NVML says something about the fabric; nothing gets better by waiting in the others."""


def main() -> None:
    spec: dict[str, dict[str, t.Any]] = {"timeout": {"type": "int", "default": 300}, **NVML_ARGS}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    params = module.params
    begin = time.monotonic()
    try:
        check_seconds(params, "timeout", least=0)
        options = nvml_options(params)
        while True:
            info = collect(Reader(sysfs=params["sysfs_root"], procfs=params["procfs_root"]), options)
            fabric, waited = info["fabric"], time.monotonic() - begin
            if fabric["ready"] or waited + PAUSE > params["timeout"] or info["state"] not in TELLING:
                break
            time.sleep(PAUSE)
    except HostError as exc:
        module.fail_json(msg=str(exc))
    ready = fabric["ready"] is True
    module.exit_json(changed=False, ready=ready, reason="" if ready else fabric["reason"] or info["reason"], waited=round(waited, 1))


if __name__ == "__main__":
    main()
