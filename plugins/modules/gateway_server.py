#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gateway_server
version_added: 0.1.0
short_description: Take a host's engines out of a gateway, or back in
author: gpufleet contributors (@gpufleet)
description:
  - Runs on a gateway of role P(gpufleet.inference.gpu_gateway#role); a drain is done when every gateway has acknowledged it.
  - The desired state lies in C(/etc/gpufleet/gateway_marks.json) and holds from the first moment of each new HAProxy, also after a restart
    or a kill. HAProxy is told by its socket and read back.
  - Refuses, with the numbers, what would leave a model and pool below its floor or touch more than O(domains_max) failure domains at once.
  - A mark of another owner, or a state that somebody set at HAProxy's socket, is reported and never lifted. A mark of the same owner is its
    own, also of a run that was killed.
options:
  host:
    description: Inventory name of the GPU host; all its instances behind this gateway are meant.
    type: str
    required: true
  state:
    description: V(drain) takes no new requests and lets those at work end; V(maint) is also asked for no health; V(ready) lifts the mark.
    type: str
    choices: [drain, maint, ready]
    required: true
  owner:
    description: Who does it, the same in each run.
    type: str
    default: rollout
  reason:
    description: Why, for people. Needed unless O(state=ready).
    type: str
    default: ""
  run_id:
    description: Which run.
    type: str
    default: ""
  domains_max:
    description: Failure domains of one model and pool that may be out at once.
    type: int
    default: 1
  wait:
    description: Seconds to wait for the requests at work, after a drain; 0 does not wait.
    type: int
    default: 0
extends_documentation_fragment:
  - gpufleet.inference._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: No new requests for gpu-07, on every gateway
  gpufleet.inference.gateway_server:
    host: gpu-07
    state: drain
    reason: driver 580.159
    run_id: "{{ run }}"
    wait: 300
  delegate_to: "{{ item }}"
  loop: "{{ groups['gateways'] }}"
  become: true
"""

RETURN = r"""
servers:
  description: Servers that are in the asked state by our mark.
  returned: success
  type: list
  elements: str
foreign:
  description: Servers that somebody else keeps out, with who, since when and why; they were left as they are.
  returned: success
  type: dict
adopted:
  description: Servers whose mark an earlier run of the same owner left.
  returned: success
  type: list
  elements: str
running:
  description: Whether HAProxy runs here; if not, the marks hold from its next start.
  returned: success
  type: bool
sessions:
  description: Requests that the servers still work on.
  returned: success
  type: int
"""

import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _gateway_paths as paths
from ..module_utils._errors import HostError
from ..module_utils._gateway_server import Where, Wish, sessions, settle

WHERE = Where(paths.MARKS, paths.POOLS, paths.SOCKET, paths.MARKS_LOCK)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["drain", "maint", "ready"], "required": True},
            "owner": {"type": "str", "default": "rollout"},
            "reason": {"type": "str", "default": ""},
            "run_id": {"type": "str", "default": ""},
            "domains_max": {"type": "int", "default": 1},
            "wait": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    options = dict(module.params)
    wait = options.pop("wait")
    if options["state"] != "ready" and not options["reason"].strip():
        module.fail_json(msg="reason is empty; expected why the host leaves, for whoever finds it out of service")
    try:
        outcome = settle(Wish(**options), WHERE, module.check_mode)
        left = sessions(WHERE.socket, outcome.servers) if outcome.running else 0
        deadline = time.monotonic() + wait
        while left and options["state"] != "ready" and not module.check_mode and time.monotonic() < deadline:
            time.sleep(0.5)
            left = sessions(WHERE.socket, outcome.servers)
    except HostError as exc:
        module.fail_json(msg=str(exc))
    for server, who in outcome.foreign.items():
        module.warn(f"{server} is left as it is: {who}")
    module.exit_json(
        changed=outcome.changed,
        servers=outcome.servers,
        foreign=outcome.foreign,
        adopted=outcome.adopted,
        running=outcome.running,
        sessions=left,
    )


if __name__ == "__main__":
    main()
