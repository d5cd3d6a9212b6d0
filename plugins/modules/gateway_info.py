#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gateway_info
version_added: 0.1.0
short_description: A gateway as it is
author: gpufleet contributors (@gpufleet)
description:
  - Reads HAProxy's version, configuration, unit, the servers as the running process sees them, and the maintenance marks of this host.
  - Is the host's half of the gate of the role P(gpufleet.inference.gpu_gateway#role). Of files with keys it reads hashes only.
options: {}
extends_documentation_fragment:
  - gpufleet.inference._attributes
  - gpufleet.inference._attributes.info_module
"""

EXAMPLES = r"""
- name: Look at the gateway
  gpufleet.inference.gateway_info:
  register: gateway
  become: true
"""

RETURN = r"""
gateway_info:
  description: The answer.
  returned: success
  type: dict
  contains:
    version:
      description: Of HAProxy, null where it is not installed.
      type: str
    config:
      description: Text of its configuration, null where there is none.
      type: str
    loaded:
      description: Identity of the files that the running process was made with.
      type: str
    servers:
      description: C(backend), C(server), C(operation), C(admin) and C(weight) of each, as in C(show servers state).
      type: list
      elements: dict
    marks:
      description: Server to its maintenance mark.
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import HostError
from ..module_utils._gateway_info import collect


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    try:
        info = collect()
    except HostError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, gateway_info=info)


if __name__ == "__main__":
    main()
