#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_reload
version_added: 0.1.0
short_description: Replace the loaded NVIDIA kernel modules without a reboot
author: gpufleet contributors (@gpufleet)
description:
  - Unloads the kernel modules of the NVIDIA driver and loads those that are installed, where nothing but known services is in the way.
  - Before anything is stopped, the holders are looked at. A process that belongs to none of the units that this module may stop, a kernel
    module that is not NVIDIA's, the text console, a unit that systemd would stop along, each makes it refuse, with names, and nothing is
    touched.
  - Stopped are C(nvidia-persistenced), DCGM and its exporter, the units of this collection, and O(units), as far as they run. Exactly
    those run again afterwards, also when the reload failed in between. What is to run again is in C(/run/gpufleet/driver_reload.json), so
    that the next call brings it back if this one is killed.
  - An unload that fails is RV(outcome=unload_failed) and no failure of the module; what went is loaded again as far as the kernel takes it,
    and the reason stays noted for this boot. Then only a reboot helps.
  - While a process hangs in the driver no module is loaded or unloaded.
  - Whether a reload is the right thing at all, and that it is not done on NVSwitch or IMEX machines, is decided by the role
    P(gpufleet.inference.nvidia_driver#role).
options:
  version:
    description: Version of the installed module, which must be the loaded one afterwards.
    type: str
    required: true
  force:
    description: Reload also if that version is loaded already, for another kind of modules or other parameters.
    type: bool
    default: false
  load:
    description: Modules to load besides C(nvidia) and those that were loaded before.
    type: list
    elements: str
    default: []
  units:
    description: More units that may be stopped and started again.
    type: list
    elements: str
    default: []
  timeout:
    description: Seconds for each step; stopping or starting one unit, unloading or loading one module.
    type: int
    default: 90
extends_documentation_fragment:
  - gpufleet.inference._attributes
attributes:
  check_mode:
    support: full
    details: Looks at the holders and says whether it would reload.
  diff_mode:
    support: none
  idempotent:
    support: full
    details: With O(force=true) each call reloads.
"""

EXAMPLES = r"""
- name: Bring the installed modules to life
  gpufleet.inference.driver_reload:
    version: 580.159.04
    units: [vllm.service]
  become: true
  register: reload

- name: Say what was in the way
  ansible.builtin.debug:
    msg: "{{ reload.reason }}"
  when: reload.outcome in ['refused', 'unload_failed']
"""

RETURN = r"""
outcome:
  description:
    - V(unchanged), V(reloaded), V(restored) (only units of an earlier call were started), V(refused) (nothing was touched),
      V(unload_failed).
    - In a failure V(hung), V(load_failed) or V(start_failed).
  returned: always
  type: str
reason:
  description: What was in the way, with the names of all holders; empty if nothing was.
  returned: always
  type: str
stopped:
  description: Units that were stopped.
  returned: always
  type: list
  elements: str
started:
  description: Units that were started.
  returned: always
  type: list
  elements: str
unloaded:
  description: Modules that were unloaded.
  returned: always
  type: list
  elements: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._driver_reload import Reload
from ..module_utils._driver_reload_host import Host
from ..module_utils._errors import HostError
from ..module_utils._seconds import check_seconds


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "required": True},
            "force": {"type": "bool", "default": False},
            "load": {"type": "list", "elements": "str", "default": []},
            "units": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 90},
        },
        supports_check_mode=True,
    )
    options = module.params
    try:
        check_seconds(options, "timeout")
        reload = Reload(Host(options["timeout"]), options["version"], options["force"], options["load"], options["units"])
        out = reload.plan() if module.check_mode else reload.run()
    except HostError as exc:
        module.fail_json(msg=str(exc))
    result: dict[str, t.Any] = {"changed": out.changed, "outcome": out.state, "reason": out.reason}
    result.update(stopped=out.stopped, started=out.started, unloaded=out.unloaded)
    if out.failed:
        module.fail_json(msg=f"driver_reload: {out.state}: {out.reason}", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
