#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_lock
version_added: 0.1.0
short_description: Let one run at a time change a host
author: gpufleet contributors (@gpufleet)
description:
  - Takes or releases the lock C(/run/gpufleet/run.lock) of a host. Roles of this collection hold it while they change something.
  - A lock that another run holds is respected until it expires; the module then fails and says whose it is, since when and what for.
  - A lock whose owner ran on this same controller and is dead is taken over, so that a run that was killed does not stop the next one.
  - The lock is gone after a reboot.
options:
  state:
    description:
      - V(present) takes the lock, or renews it if this run holds it.
      - V(absent) releases it. A lock of another run is left alone, without an error.
    type: str
    choices: [present, absent]
    default: present
  ttl:
    description: Seconds, 60 to 86400, after which others may take the lock if this run has neither renewed nor released it.
    type: int
    default: 3600
  what:
    description: What this run does, for people who meet the lock.
    type: str
    default: ''
  path:
    description: The lock file.
    type: path
    default: /run/gpufleet/run.lock
  run_id:
    description: Identity of the run. Filled in on the controller.
    type: str
  owner:
    description: Who runs it. Filled in on the controller.
    type: dict
    suboptions:
      controller:
        description: Host name of the controller.
        type: str
        required: true
      pid:
        description: Process ID of C(ansible-playbook) there.
        type: int
        required: true
      start_time:
        description: Start time of that process, in clock ticks since boot, which tells it from a later one with the same ID.
        type: str
        required: true
      user:
        description: User who started it.
        type: str
        required: true
  dead_run_id:
    description: Identity of a run that is known to be dead. Filled in on the controller.
    type: str
extends_documentation_fragment:
  - gpufleet.inference._attributes
attributes:
  check_mode:
    support: full
    details: In check mode nothing is changed on a host, so no lock is needed; the module does nothing.
  diff_mode:
    support: N/A
    details: The lock is no configuration.
  idempotent:
    support: full
    details: A lock that this run holds is renewed, which is not reported as a change.
"""

EXAMPLES = r"""
- name: Work on a host alone
  block:
    - name: Take the lock
      gpufleet.inference.host_lock:
        what: firmware update
        ttl: 1800
      become: true

    - name: Do it
      ansible.builtin.command: /usr/local/sbin/update-firmware
      become: true
      changed_when: true
  always:
    - name: Release the lock
      gpufleet.inference.host_lock:
        state: absent
      become: true
"""

RETURN = r"""
lock:
  description: The lock that this run holds now (C(run_lock) in C(schemas/state.schema.json)).
  returned: when O(state=present), outside check mode
  type: dict
locked_by:
  description: The lock that another run holds.
  returned: when the lock cannot be had
  type: dict
taken_over:
  description: Another run's lock that was replaced, because it had expired or its owner is dead.
  returned: when a lock was replaced
  type: dict
"""

import datetime
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import HostError
from ..module_utils._lock import Locked, acquire, release

SPEC: dict[str, dict[str, t.Any]] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "ttl": {"type": "int", "default": 3600},
    "what": {"type": "str", "default": ""},
    "path": {"type": "path", "default": "/run/gpufleet/run.lock"},
    "run_id": {"type": "str"},
    "owner": {
        "type": "dict",
        "options": {
            "controller": {"type": "str", "required": True},
            "pid": {"type": "int", "required": True},
            "start_time": {"type": "str", "required": True},
            "user": {"type": "str", "required": True},
        },
    },
    "dead_run_id": {"type": "str"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    params = module.params
    if module.check_mode:
        module.exit_json(changed=False)
    if not params["run_id"] or not params["owner"]:
        module.fail_json(msg="host_lock is called through its action plugin, which names the run; call it as a task")
    if not 60 <= params["ttl"] <= 86400:
        module.fail_json(msg=f"ttl is {params['ttl']}, expected seconds from 60 to 86400; the default is 3600")
    try:
        if params["state"] == "absent":
            module.exit_json(changed=release(params["path"], params["run_id"]))
        wanted = {"run_id": params["run_id"], "owner": params["owner"], "what": params["what"]}
        now = datetime.datetime.now(datetime.timezone.utc)
        acquired = acquire(params["path"], wanted, params["ttl"], now, params["dead_run_id"])
    except Locked as exc:
        module.fail_json(msg=str(exc), locked_by=exc.lock)
    except HostError as exc:
        module.fail_json(msg=str(exc))
    result: dict[str, t.Any] = {"changed": acquired.changed, "lock": acquired.lock}
    if acquired.previous:
        module.warn(f"the lock of run {acquired.previous['run_id']} was taken over: {acquired.why}")
        result["taken_over"] = acquired.previous
    module.exit_json(**result)


if __name__ == "__main__":
    main()
