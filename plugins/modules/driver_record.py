#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_record
version_added: 0.1.0
short_description: Note what a host's next boot has to do with its driver
author: gpufleet contributors (@gpufleet)
description:
  - Keeps three notes of role P(gpufleet.inference.nvidia_driver#role) on the host, from which facts and later runs tell what is left to do.
  - C(/var/lib/gpufleet/reboot_required.json) names the reasons for a reboot; reasons of other components are kept.
  - C(/var/lib/gpufleet/driver.json) says which module files each initramfs was built with, and which reasons the host was rebooted for.
options:
  reboot_reasons:
    description:
      - Reasons of component C(driver), in place of those noted before, each with C(id) (a stable name) and C(message) (one sentence).
      - An empty list takes them away.
    type: list
    elements: dict
  run_id:
    description: Identity of the run, for O(reboot_reasons).
    type: str
    default: ""
  rebooted_for:
    description: Reasons that the host is about to be rebooted for, noted with the identity of this boot.
    type: list
    elements: str
  initramfs:
    description: Kernel release to hash of the module files that its initramfs was just built with; an empty hash forgets the kernel.
    type: dict
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
- name: Leave the reboot to the rollout
  gpufleet.inference.driver_record:
    reboot_reasons:
      - id: driver.module_stale
        message: module 570.133.20 is loaded, 580.159.04 is installed
    run_id: "{{ ansible_facts['gpufleet'].run }}"
  become: true
"""

RETURN = r"""
reboot_required:
  description: Content of C(reboot_required.json) afterwards, null where there is none.
  returned: success
  type: dict
"""

import datetime

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._driver_record import read_record, update_record
from ..module_utils._errors import HostError
from ..module_utils._files import remove
from ..module_utils._paths import REBOOT_REQUIRED
from ..module_utils._state import read_state, write_state
from ..module_utils._wait import boot_id

KIND = "reboot_required"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "reboot_reasons": {"type": "list", "elements": "dict"},
            "run_id": {"type": "str", "default": ""},
            "rebooted_for": {"type": "list", "elements": "str"},
            "initramfs": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    options = module.params
    changed = False
    try:
        if options["reboot_reasons"] is not None:
            changed |= _note_reboot(_reasons(options["reboot_reasons"]), options["run_id"], module.check_mode)
        notes = _notes(options)
        if notes:
            changed |= any(read_record().get(key) != value for key, value in notes.items()) if module.check_mode else update_record(notes)
        required = read_state(REBOOT_REQUIRED, KIND)
    except HostError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=changed, reboot_required=required)


def _notes(options: dict) -> dict:
    notes = {}
    if options["rebooted_for"] is not None:
        notes["rebooted_for"] = dict.fromkeys(options["rebooted_for"], boot_id())
    if options["initramfs"] is not None:
        marks = {**(read_record().get("initramfs") or {}), **options["initramfs"]}
        notes["initramfs"] = {release: mark for release, mark in marks.items() if mark}
    return notes


def _reasons(given: list) -> list:
    for reason in given:
        if set(reason) - {"component"} != {"id", "message"} or not all(isinstance(value, str) for value in reason.values()):
            raise HostError(f"reboot_reasons has {reason!r}; expected id and message, both text")
    return [{"id": reason["id"], "component": "driver", "message": reason["message"]} for reason in given]


def _note_reboot(reasons: list, run_id: str, check: bool) -> bool:
    before = read_state(REBOOT_REQUIRED, KIND) or {}
    others = [reason for reason in before.get("reasons", []) if reason["component"] != "driver"]
    wanted = others + reasons
    if not wanted:
        return remove(REBOOT_REQUIRED, check=check).changed
    if before.get("reasons") == wanted and before.get("boot_id") == boot_id():
        return False
    since = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    state = {
        "reasons": wanted,
        "boot_id": boot_id(),
        "run_id": run_id or before.get("run_id") or "unknown",
        "since": before.get("since") or since,
    }
    return write_state(REBOOT_REQUIRED, KIND, state, check=check).changed


if __name__ == "__main__":
    main()
