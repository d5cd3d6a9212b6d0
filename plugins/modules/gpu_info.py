#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
version_added: 0.1.0
short_description: Everything about a GPU host in one call
author: gpufleet contributors (@gpufleet)
description:
  - "Returns one document about a host: the machine and its operating system, NVIDIA devices on the PCI bus, the driver as installed and
    as loaded, every GPU through NVML, fabric, CUDA, containers, systemd units, who else manages the host, files of this collection."
  - Never fails because something is missing, broken or hanging. What is wrong has the name of a state in RV(gpu_info.state), what could
    not be read is in RV(gpu_info.unread).
  - NVML is used in a process of its own that gets O(nvml_timeout) seconds. A driver that hangs gives the state V(hung), also in all later
    calls, which then return at once, until that process is gone.
  - Works without privileges as far as the kernel lets it, and says what needed root.
options:
  expected_gpus:
    description:
      - Number of GPUs that this host must have. If fewer are on the PCI bus the state is V(lost), or V(no_gpu) if there is none.
    type: int
  details:
    description:
      - Read also what costs milliseconds per GPU and only diagnosis needs, which otherwise is null. These are clocks, throttle reasons,
        performance state, power draw and enforced limit, memory temperature and thresholds, ECC counters and default, PCIe generation and
        replay counter, InfoROM version, BAR1 memory, MIG capacity.
    type: bool
    default: false
extends_documentation_fragment:
  - gpufleet.inference._nvml
  - gpufleet.inference._attributes
  - gpufleet.inference._attributes.info_module
  - gpufleet.inference._attributes.actiongroup_gpu
notes:
  - "Needs no Python library on the host. Facts from NVML need C(nvidia-ml-py), which the role P(gpufleet.inference.gpu_preflight#role)
    puts there; without it the state is V(no_pynvml)."
  - The document is described by C(schemas/gpu_info.schema.json) of this collection, the states by C(docs/states.md).
seealso:
  - module: gpufleet.inference.stack_check
"""

EXAMPLES = r"""
- name: Look at a host
  gpufleet.inference.gpu_info:
  register: host

- name: What is wrong with it
  ansible.builtin.debug:
    msg: "{{ host.gpu_info.state }}: {{ host.gpu_info.reason }}"

- name: A machine that must have eight GPUs
  gpufleet.inference.gpu_info:
    expected_gpus: 8
  register: dgx
  failed_when: dgx.gpu_info.state != 'ok'
"""

RETURN = r"""
gpu_info:
  description: The document. Keys that are listed here are the ones most often asked for, all are in C(schemas/gpu_info.schema.json).
  returned: success
  type: dict
  contains:
    schema:
      description: Number of the document's schema.
      type: int
      sample: 1
    state:
      description:
        - State of the GPU stack, V(ok), V(no_gpu), V(no_driver), V(module_not_loaded), V(mismatch), V(hung), V(lost), V(no_library),
          V(no_pynvml), V(impostor_pynvml) or V(error).
        - The first that holds, from what is missing at the bottom of the stack to what is wrong on top.
      type: str
      sample: ok
    reason:
      description: One sentence about the state, empty when it is V(ok).
      type: str
    unread:
      description: What could not be read, why, and whether root could.
      type: list
      elements: dict
    gpus:
      description:
        - One entry per physical GPU in PCI order. C(product) and C(architecture) come from NVML and are null where it does not answer;
          roles of this collection then fill them from the PCI ids in the matrix.
        - Power in milliwatt, memory in bytes, temperature in degree Celsius, clocks in MHz.
      type: list
      elements: dict
    counts:
      description: Number of GPUs by PCI, by NVML, and as expected.
      type: dict
    fingerprint:
      description: A hash of what does not change by itself, as a whole and per part, to see drift.
      type: dict
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import HostError
from ..module_utils._gpu_info import collect
from ..module_utils._nvml_args import NVML_ARGS, nvml_options
from ..module_utils._reader import Reader


def main() -> None:
    spec: dict[str, dict[str, t.Any]] = {"expected_gpus": {"type": "int"}, "details": {"type": "bool", "default": False}, **NVML_ARGS}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    params = module.params
    try:
        expected = params["expected_gpus"]
        if expected is not None and expected < 0:
            raise HostError(f"expected_gpus is {expected}, expected a number of GPUs, 0 or more")
        reader = Reader(sysfs=params["sysfs_root"], procfs=params["procfs_root"])
        info = collect(reader, nvml_options(params), expected, params["details"])
    except HostError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, gpu_info=info)


if __name__ == "__main__":
    main()
