#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_switch
version_added: 0.2.0
short_description: Change an engine instance on its host, and go back where that fails
author: gpufleet contributors (@gpufleet)
description:
  - Takes a definition, which role P(gpufleet.inference.engine_service#role) has its plan make, and makes it the running one. Stops what ran
    before, waits until its GPUs and port are free, puts files and units there, starts them and asks for a real answer.
  - Where that fails the definition before is put in force again and must answer. The result says what failed where, with the journal's last
    lines, and whether the one before answers.
  - The work runs in a transient systemd unit C(gpufleet-switch-NAME), so that it survives a lost connection; the next run attaches to it.
  - Ends nobody's process but those of the instance's own units.
options:
  state:
    description:
      - V(present) switches to O(definition). V(started) puts it there without a stop, and starts what does not run. V(restarted) stops and
        starts. V(absent) stops, disables and removes; the state folder stays.
    type: str
    choices: [present, started, restarted, absent]
    default: present
  name:
    description: Name of the instance.
    type: str
    required: true
  definition:
    description: C(schemas/engine_definition.schema.json). Secret texts in it are taken out before anything is logged.
    type: dict
  secrets:
    description: Path to text of secret files. Filled in by the action.
    type: dict
    default: {}
  timeout:
    description: Seconds to wait for the work. When they are over the task fails and the work goes on; a re-run attaches to it.
    type: int
    default: 14400
  step:
    description: Set by the action of this module.
    type: str
    choices: [plan, start, poll]
    default: plan
extends_documentation_fragment:
  - gpufleet.inference._attributes
attributes:
  check_mode:
    support: full
    details: Says that it would change the instance; what differs is the plan's matter.
  diff_mode:
    support: none
  idempotent:
    support: none
    details: It does what it is asked. Whether there is anything to do, M(gpufleet.inference.stack_check) says.
  async:
    description: Not needed, the work has its own unit.
    support: none
"""

EXAMPLES = r"""
- name: Take an instance away
  gpufleet.inference.engine_switch:
    name: chat
    state: absent
  become: true
"""

RETURN = r"""
answer:
  description: What the instance answered.
  returned: when it was asked
  type: dict
ended:
  description: Process ids of what the instance before had left behind on its GPUs or its port, and that were ended.
  returned: when something was
  type: list
  elements: int
stage:
  description: Where it failed.
  returned: failure
  type: str
previous_answers:
  description: Whether the definition before is in force again and answers.
  returned: failure
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _engine_switch
from ..module_utils._engine_gate import LAUNCHER, PROGRAM
from ..module_utils._engine_job import KIND
from ..module_utils._errors import HostError, WorkError
from ..module_utils._files import write_text
from ..module_utils._job import Job
from ..module_utils._seconds import check_seconds


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": list(_engine_switch.ACTIONS), "default": "present"},
            "name": {"type": "str", "required": True},
            "definition": {"type": "dict"},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
            "timeout": {"type": "int", "default": 14400},
            "step": {"type": "str", "choices": ["plan", "start", "poll"], "default": "plan"},
        },
        supports_check_mode=True,
    )
    options = module.params
    if options["state"] != "absent" and not options["definition"]:
        module.fail_json(msg=f"definition is missing; state {options['state']} needs the one that the plan made")
    job = Job(KIND, options["name"])
    asked = {"action": options["state"], "name": options["name"], "definition": options["definition"]}
    try:
        check_seconds(options, "timeout")
        if options["step"] == "plan":
            module.exit_json(changed=True, unit=job.unit)
        if options["step"] == "poll":
            module.exit_json(changed=False, **job.status())
        write_text(PROGRAM, LAUNCHER, mode=0o755)
        began = job.start(asked, options["secrets"], f"engine instance {options['name']}")
        module.exit_json(changed=True, attached=not began, unit=job.unit)
    except WorkError as exc:
        module.fail_json(msg=str(exc), reason=exc.reason)
    except HostError as exc:
        module.fail_json(msg=str(exc))


if __name__ == "__main__":
    main()
