#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is a virtual module: it is implemented by the action plugin of the same name, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: stack_check
version_added: 0.1.0
short_description: Stop on incompatible GPU stacks, and say what a role would change
author: gpufleet contributors (@gpufleet)
description:
  - Reads the facts of a host with M(gpufleet.inference.gpu_info) (once per host and run), evaluates the compatibility matrix of this
    collection over them on the controller, and compares the desired state of one component with the actual state.
  - Fails with B(all) findings at once if one of them blocks. Never changes anything on the host.
  - In check mode it reports C(changed) with the plan as diff, and remembers what the plan would make true, so that later checks of the
    same run see a host on which the earlier roles had been applied.
options:
  component:
    description:
      - Whose plan is made. V(host) checks the host as a whole, the others are used by the role of the same component.
    type: str
    required: true
    choices: [host, driver, cuda, power, container_toolkit, engines, gateway]
  desired:
    description: Desired state of the component; the role's own variables, documented with the role.
    type: dict
    default: {}
  stack:
    description:
      - "The stack that is asked for, beyond what is on the host: C(driver) with C(branch), C(version), C(kernel_modules), C(source);
        C(cuda) with C(toolkits); C(cudnn); C(nccl); C(container_toolkit) with C(version); C(engines), a list with C(name), C(engine),
        C(version), C(runtime), C(image), C(model), C(python)."
      - A key that is missing means what is on the host.
    type: dict
    default: {}
  lock:
    description: Path of a C(stack.lock.yml) on the controller. The host's group in it fills versions that O(desired) leaves open.
    type: path
  unknown:
    description: What happens where the gate cannot decide (unknown GPU, image, operating system).
    type: str
    choices: [warn, block]
    default: block
  allow:
    description:
      - "Findings that the site accepts: C(id), optionally C(subject), C(reason) and C(expires) (YYYY-MM-DD). They are reported with
        severity V(info) until that day, and with their own severity afterwards."
    type: list
    elements: dict
    default: []
  matrix_overlay:
    description: YAML files on the controller with rows that add to, replace or remove rows of the matrix, and with the site's policies.
    type: list
    elements: path
    default: []
  disruption_max:
    description:
      - "Highest class of disruption that may be planned: V(none), V(engine_restart), V(host_service_restart), V(gpu_reload), V(reboot)."
      - Empty means V(none) where a process uses a GPU or an inference service runs, and no limit on an idle host.
    type: str
  take_over:
    description: Components that are changed although somebody else manages them on this host (GPU Operator, a foreign power unit, …).
    type: list
    elements: str
    default: []
  refresh:
    description: Read the facts again even if this run has them.
    type: bool
    default: false
  verify:
    description: Used at the end of converge. What is still different from the desired state becomes a blocking finding.
    type: bool
    default: false
  report_only:
    description: Report blocking findings without failing.
    type: bool
    default: false
  expected_gpus:
    description: Number of GPUs that this host must have; 0 does not check it.
    type: int
    default: 0
extends_documentation_fragment:
  - gpufleet.inference._nvml
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
    details: A gate that runs in the background stops nothing.
    support: none
seealso:
  - module: gpufleet.inference.gpu_info
"""

EXAMPLES = r"""
- name: Would vLLM 0.33.0 run here?
  gpufleet.inference.stack_check:
    component: host
    stack:
      engines:
        - {name: chat, engine: vllm, version: 0.33.0, runtime: venv, python: "3.12"}

- name: Accept an end-of-life driver branch until the maintenance window
  gpufleet.inference.stack_check:
    component: host
    allow:
      - {id: driver.branch_eol, reason: replaced in the December window, expires: 2026-12-20}
"""

RETURN = r"""
findings:
  description: All findings, blocking ones first (C(schemas/finding.schema.json)).
  returned: always
  type: list
  elements: dict
changes:
  description: Differences between desired and actual state (C(schemas/change.schema.json)).
  returned: always
  type: list
  elements: dict
converge:
  description: Whether the role has something to do now (changes, nothing blocks, not check mode).
  returned: always
  type: bool
disruption:
  description: Highest class of disruption among the changes.
  returned: always
  type: str
  sample: none
decision:
  description: V(nothing), V(converge), V(reload) or V(reboot).
  returned: always
  type: str
predicted:
  description: Part of the facts as they would be after the plan.
  returned: always
  type: dict
details:
  description: What the role's own tasks need; private to the role.
  returned: always
  type: dict
host:
  description: What a table shows of the host (C(state), C(gpus), C(driver), C(cuda), C(power_limit), C(fingerprint)).
  returned: always
  type: dict
ansible_facts:
  description: The fact C(gpufleet) with the C(gpu_info) document.
  returned: when facts were collected or predicted
  type: dict
"""
