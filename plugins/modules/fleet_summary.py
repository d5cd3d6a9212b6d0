#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is a virtual module: it is implemented by the action plugin of the same name, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_summary
version_added: 0.1.0
short_description: Sum up what the checks of a run found, host by host
author: gpufleet contributors (@gpufleet)
description:
  - Runs in a play on localhost after the hosts' plays. Reads the registered results of M(gpufleet.inference.stack_check) of each host,
    also of hosts that were stopped or never reached, and prints a table.
options:
  hosts:
    description: Names of the hosts.
    type: list
    elements: str
    required: true
  plans:
    description: Component to the name of the variable that its check was registered as, in the order of the run.
    type: dict
    required: true
  end_marker:
    description: Name of a variable that only hosts that reached the end of the run have.
    type: str
    required: true
  show:
    description: Print the table.
    type: bool
    default: true
extends_documentation_fragment:
  - gpufleet.inference._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    details: It changes nothing.
    support: N/A
  idempotent:
    support: full
  async:
    description: Supports being used with the C(async) keyword.
    details: It runs on the controller, in an instant.
    support: none
"""

EXAMPLES = r"""
- name: Sum up
  gpufleet.inference.fleet_summary:
    hosts: "{{ groups['gpu_hosts'] }}"
    plans: {host: __gpu_preflight_plan, driver: __nvidia_driver_plan, power: __gpu_power_plan}
    end_marker: __gpu_stack_end
"""

RETURN = r"""
rows:
  description: One entry a host with C(host), C(status), C(gpus), C(driver), C(cuda), C(power_limit), C(findings), C(fingerprint).
  returned: success
  type: list
  elements: dict
summary:
  description: Number of hosts by status and of findings by severity.
  returned: success
  type: dict
table:
  description: The table as text.
  returned: success
  type: str
time:
  description: When it was made (UTC, ISO 8601).
  returned: success
  type: str
"""
