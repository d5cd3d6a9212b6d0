#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gateway_config
version_added: 0.1.0
short_description: Give a gateway its configuration
author: gpufleet contributors (@gpufleet)
description:
  - Renders HAProxy's configuration on the controller, has HAProxy check it on the host, puts it in place and has it taken without a loss of
    connections. Where the new process does not come up, the files from before come back and the module fails with HAProxy's last lines.
  - Is the work of the role P(gpufleet.inference.gpu_gateway#role), whose variables without their prefix are O(gateway).
options:
  state:
    description: V(absent) brings back what was there before.
    type: str
    choices: [present, absent]
    default: present
  gateway:
    description: The gateway; keys as in C(schemas/gateway.schema.json). Only the controller reads it.
    type: dict
    default: {}
  matrix_overlay:
    description: Files with the site's own matrix rows. Only the controller reads them.
    type: list
    elements: path
    default: []
  files:
    description: What the controller made of O(gateway). Not for playbooks.
    type: dict
    default: {}
  identity:
    description: Hash of O(files). Not for playbooks.
    type: str
    default: ""
extends_documentation_fragment:
  - gpufleet.inference._attributes
attributes:
  check_mode:
    support: none
    details: The role's check says what would change.
  diff_mode:
    support: none
    details: The role's check shows it, without keys.
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: A gateway for one server
  gpufleet.inference.gateway_config:
    gateway:
      keys:
        - name: team-a
          key: "{{ vault_team_a }}"
      backends:
        - host: gpu-01
          instance: chat
          address: 10.0.0.11
          port: 8000
          engine: vllm
          models: [llama-3.1-8b]
  become: true
"""

RETURN = r"""
done:
  description: What was done, as text.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import HostError
from ..module_utils._gateway_host import absent, present


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "gateway": {"type": "dict", "default": {}, "no_log": True},
            "matrix_overlay": {"type": "list", "elements": "path", "default": []},
            "files": {"type": "dict", "default": {}, "no_log": True},
            "identity": {"type": "str", "default": ""},
        }
    )
    try:
        if module.params["state"] == "absent":
            done = absent()
        elif not module.params["files"]:
            raise HostError("gateway_config has no files: it works through its action plugin, which renders them on the controller")
        else:
            files = {path: (str(item["text"]), int(item["mode"])) for path, item in module.params["files"].items()}
            done = present(files, module.params["identity"])
    except HostError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=bool(done), done=done)


if __name__ == "__main__":
    main()
