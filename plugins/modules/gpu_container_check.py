#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_container_check
version_added: 0.1.0
short_description: Do containers see exactly the GPUs that they were given?
author: gpufleet contributors (@gpufleet)
description:
  - Starts a container with some or all GPUs, selected by UUID, and compares what NVML shows in it with what NVML shows on the host.
    A GPU that is missing fails the check, and so does one that was not given.
  - "Without an image no container is started: the CDI specification is checked for the GPUs, and every device node, file and hook that it
    names is looked for on the host."
options:
  engine:
    description: Client to use. Empty takes podman, else docker.
    type: str
    choices: ["", podman, docker]
    default: ""
  image:
    description: An image that is on the host and can run O(command), such as a CUDA base image. Empty makes it a dry run.
    type: str
    default: ""
  gpus:
    description: UUIDs of GPUs or MIG devices. Empty gives all that NVML shows on the host.
    type: list
    elements: str
    default: []
  method:
    description:
      - V(cdi) passes C(--device nvidia.com/gpu=UUID), V(runtime) uses the C(nvidia) runtime and C(NVIDIA_VISIBLE_DEVICES), as Docker
        before 25 needs it.
    type: str
    choices: [cdi, runtime]
    default: cdi
  arguments:
    description: Further arguments of C(run), such as V(--userns=keep-id).
    type: list
    elements: str
    default: []
  command:
    description: What lists GPUs in the container, in the format of C(nvidia-smi -L).
    type: list
    elements: str
    default: [nvidia-smi, -L]
  run_timeout:
    description: Seconds that the container, and each question on the host, may take.
    type: float
    default: 60
extends_documentation_fragment:
  - gpufleet.inference._attributes
attributes:
  check_mode:
    support: full
    details: Makes the dry run only.
  diff_mode:
    support: none
  idempotent:
    support: full
    details: The container is removed; nothing is left.
notes:
  - No image is pulled; give it one that is there.
"""

EXAMPLES = r"""
- name: Every GPU, in a container of podman
  gpufleet.inference.gpu_container_check:
    image: docker.io/nvidia/cuda:13.0.2-base-ubuntu24.04
  become: true

- name: One GPU only, on a host that shares the others
  gpufleet.inference.gpu_container_check:
    engine: docker
    image: registry.example.com/cuda-base:13
    gpus: [GPU-7d64b5b9-3a5c-4a6e-8f4b-1c2d3e4f5a6b]
  become: true

- name: Without an image
  gpufleet.inference.gpu_container_check:
  become: true
"""

RETURN = r"""
outside:
  description: UUIDs that NVML shows on the host.
  returned: always
  type: list
  elements: str
inside:
  description: UUIDs that NVML shows in the container (dry run, that CDI would give).
  returned: always
  type: list
  elements: str
method:
  description: V(cdi), V(runtime) or V(dry_run).
  returned: always
  type: str
problems:
  description: What is wrong; empty if all is well. The task fails if it is not.
  returned: always
  type: list
  elements: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._container_check import compare, dry_run, engines_here, gpus_outside, in_container
from ..module_utils._errors import HostError
from ..module_utils._seconds import check_seconds


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "engine": {"type": "str", "choices": ["", "podman", "docker"], "default": ""},
            "image": {"type": "str", "default": ""},
            "gpus": {"type": "list", "elements": "str", "default": []},
            "method": {"type": "str", "choices": ["cdi", "runtime"], "default": "cdi"},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "command": {"type": "list", "elements": "str", "default": ["nvidia-smi", "-L"]},
            "run_timeout": {"type": "float", "default": 60},
        },
        supports_check_mode=True,
    )
    try:
        result = _check(module.params, module.check_mode)
    except HostError as exc:
        module.fail_json(msg=str(exc))
    if result["problems"]:
        module.fail_json(msg="GPUs in containers are not as they should be: " + "; ".join(result["problems"]), **result)
    module.exit_json(changed=False, **result)


def _check(params: t.Mapping[str, t.Any], dry: bool) -> dict[str, t.Any]:
    check_seconds(params, "run_timeout")
    timeout = params["run_timeout"]
    outside = gpus_outside(timeout)
    wanted = params["gpus"] or outside
    problems: list[str] = []
    if dry or not params["image"]:
        method = "dry_run"
        inside, problems = dry_run(wanted, timeout)
    else:
        method = params["method"]
        engine = params["engine"] or next(iter(engines_here()), "")
        if not engine:
            raise HostError("neither podman nor docker is on this host; leave image empty for a dry run")
        inside = in_container(engine, params["image"], method, wanted, params["arguments"], params["command"], timeout)
    return {"outside": outside, "inside": inside, "method": method, "problems": problems + compare(outside, wanted, inside)}


if __name__ == "__main__":
    main()
