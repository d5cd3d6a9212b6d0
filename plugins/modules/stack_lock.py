#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is a virtual module: it is implemented by the action plugin of the same name, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: stack_lock
version_added: 0.1.0
short_description: Resolve and write the stack lock of a fleet
author: gpufleet contributors (@gpufleet)
description:
  - Runs in a play on localhost after the facts of the hosts were read with M(gpufleet.inference.stack_check) or
    M(gpufleet.inference.gpu_info) in the same run. Chooses for each hardware group (same GPU products, system and machine architecture)
    the newest combination that the compatibility matrix supports, and writes it to a file on the controller.
  - The driver is the newest release without open advisory of a supported branch that drives B(all) GPUs of a host; the CUDA toolkit the
    newest that this driver runs in full and that knows these GPUs; engines the newest final release that runs on both.
  - What is asked for by name or version must pass the gate, else the hosts of that group stay unresolved.
  - Writing a lock that says the same as the file changes nothing.
options:
  path:
    description: The lock file on the controller, usually C(stack.lock.yml). Relative to the directory that ansible-playbook runs in.
    type: path
    required: true
  hosts:
    description: Names of the hosts. A host without facts, GPU, or a row in the matrix is reported as unresolved.
    type: list
    elements: str
    required: true
  channel:
    description:
      - Which driver branches come first. V(lts) takes long-term support branches, V(production) these and production branches, V(newest)
        also new feature branches. Where nothing of a channel drives the GPUs, the next wider one is used.
    type: str
    choices: [lts, production, newest]
    default: lts
  stack:
    description: Name of a row of C(stacks) in the matrix, whose driver, CUDA toolkit and container toolkit are taken.
    type: str
  driver:
    description: Parts that are fixed, C(branch) (number), C(version) (text), C(kernel_modules) (open or proprietary), C(source).
    type: dict
    default: {}
  cuda:
    description: C(toolkits), a list whose first entry is the CUDA toolkit version to take.
    type: dict
    default: {}
  container_toolkit:
    description: C(version) of the container toolkit to take.
    type: dict
    default: {}
  engines:
    description: Engines to resolve, as a list of names or a mapping of name to version. Without it all engines of the matrix.
    type: raw
  matrix_overlay:
    description: YAML files on the controller with rows over the matrix.
    type: list
    elements: path
    default: []
  allow:
    description: Findings that the site accepts, as in M(gpufleet.inference.stack_check). With it a stack out of support can be locked.
    type: list
    elements: dict
    default: []
  unknown:
    description: What the gate does where it cannot decide.
    type: str
    choices: [warn, block]
    default: block
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
    description: It runs in seconds on the controller.
    support: none
"""

EXAMPLES = r"""
- name: Write the lock for all GPU hosts
  gpufleet.inference.stack_lock:
    path: stack.lock.yml
    hosts: "{{ groups['gpu_hosts'] }}"

- name: Stay on the oldest branch in support, one engine at a fixed version
  gpufleet.inference.stack_lock:
    path: stack.lock.yml
    hosts: "{{ groups['gpu_hosts'] }}"
    stack: lts-580
    engines: {vllm: 0.33.0}
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
lock:
  description: The document, see C(schemas/stack_lock.schema.json).
  returned: success
  type: dict
unresolved:
  description: Host name to the reason why it is in no group.
  returned: success
  type: dict
  sample: {gpu7: it has no GPU}
"""
