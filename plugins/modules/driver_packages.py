#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_packages
version_added: 0.1.0
short_description: Install, change or remove the NVIDIA driver's packages as one set
author: gpufleet contributors (@gpufleet)
description:
  - Resolves a driver branch or version to exact package versions, one driver version for the whole set, and carries it out as one
    transaction. If anything does not resolve, would remove a package of others or move a hold of others, nothing is changed.
  - Files are downloaded before the transaction begins. While it runs, maintainer scripts start and restart no service.
  - C(/var/lib/gpufleet/driver.json) records which packages and holds are ours and the set before; an interrupted transaction is
    finished by the next run.
  - Used by role P(gpufleet.inference.nvidia_driver#role), which plans what to ask for. Needs apt, or dnf on systems of the Red Hat family.
options:
  state:
    description:
      - V(present) makes the set what is asked for.
      - V(rolled_back) brings back exactly the set before the last change of the driver's version, from its kept files, in one transaction
        and without a repository. Once that is done there is nothing to do any more.
      - V(absent) purges O(names), and takes the recorded holds and the kept files.
    type: str
    choices: [present, rolled_back, absent]
    default: present
  names:
    description: Packages that are asked for. Empty only changes holds (O(hold_add), O(hold_remove)).
    type: list
    elements: str
    default: []
  same_version:
    description: Those of O(names) that carry the driver's own version.
    type: list
    elements: str
    default: []
  members:
    description: Glob patterns of every package that moves with the driver.
    type: list
    elements: str
    default: []
  not_members:
    description: Exceptions from O(members).
    type: list
    elements: str
    default: []
  offered:
    description: Packages that become part of the set where a repository offers them in the driver's version.
    type: list
    elements: str
    default: []
  optional:
    description: Packages that come along where a repository offers them, such as kernel headers. They are neither held nor recorded.
    type: list
    elements: str
    default: []
  unwanted:
    description: Packages that leave in the same transaction where they are installed, such as kernel modules of the other kind.
    type: list
    elements: str
    default: []
  branch:
    description: Driver branch; without O(version) its newest version that the repository offers for all of the set.
    type: int
  version:
    description: Exact driver version, C(580.159.04). Packaging revisions are found by the module.
    type: str
    default: ""
  source:
    description: Recorded as where the packages came from.
    type: str
    choices: [nvidia, distribution]
    default: nvidia
  hold_add:
    description: Packages to hold while none moves.
    type: list
    elements: str
    default: []
  hold_remove:
    description: Packages whose hold is lifted, if it is ours, while none moves.
    type: list
    elements: str
    default: []
  rollback:
    description:
      - Whether the package files of the present set are kept before it goes, for O(state=rolled_back).
      - V(best_effort) notes in C(driver.json) why, where they cannot be had; V(required) then changes nothing; V(none) keeps none.
    type: str
    choices: [best_effort, required, none]
    default: best_effort
  remove_runfile:
    description: Remove the driver of a .run file (C(nvidia-uninstall)) once all packages are on the host, right before they are installed.
    type: bool
    default: false
  module_stream:
    description:
      - dnf module stream that the packages belong to, C(nvidia-driver:580-open); it is enabled in the same transaction, whatever stream of
        the module was enabled before. Empty leaves streams as they are.
      - With O(state=absent), a stream that was enabled here, to be forgotten.
    type: str
    default: ""
extends_documentation_fragment:
  - gpufleet.inference._attributes
  - gpufleet.inference._repository
attributes:
  check_mode:
    support: partial
    details:
      - A repository that is not configured yet cannot be asked, and package lists are not renewed; then only the names are known, and a
        warning says why.
  diff_mode:
    support: full
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Driver 580.159.04 with open kernel modules, headless
  gpufleet.inference.driver_packages:
    names: [nvidia-driver-cuda, nvidia-kernel-open-dkms]
    same_version: [nvidia-driver-cuda, nvidia-kernel-open-dkms]
    members: ["*nvidia*", libcuda1]
    branch: 580
    version: 580.159.04
    repository_url: https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/
    repository_key_url: https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/3bf863cc.pub
  become: true
"""

RETURN = r"""
version:
  description: Driver version that was resolved; empty for O(state=absent) and where only holds change.
  returned: success
  type: str
  sample: 580.159.04
packages:
  description: Packages of the set and their exact versions afterwards.
  returned: success
  type: dict
  sample: {libnvidia-ml1: 580.159.04-1}
previous:
  description: Packages of the set and their versions before.
  returned: success
  type: dict
moves:
  description: What moves, or would, one line a package.
  returned: success
  type: list
  elements: str
  sample: ["libcuda1 570.133.20-1 → 580.178.04-1"]
download_bytes:
  description: Bytes that the transaction would fetch, in check mode and where that is known.
  returned: success
  type: int
finding:
  description: The failure as a finding (C(schemas/finding.schema.json)).
  returned: failure
  type: dict
reason:
  description:
    - A word for the cause of a failure. V(not_available), V(unresolvable), V(would_remove), V(foreign_hold), V(foreign_broken),
      V(repository_unreachable), V(repository_signature), V(repository_key), V(repository_inconsistent), V(disk_full), V(locked),
      V(no_versionlock), V(no_dnf), V(rollback_unavailable) and V(nothing_to_roll_back) have changed no package;
      after V(dpkg_failed), V(killed), V(timeout), V(hung) and V(failed) the next run goes on from where this one stopped.
  returned: failure
  type: str
  sample: not_available
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ..module_utils._dkms_log import failed_builds
from ..module_utils._driver_repository import configure_and, remove_repository, repository_of
from ..module_utils._driver_resolve import Request
from ..module_utils._driver_rollback import POLICIES, roll_back
from ..module_utils._driver_runfile import uninstall
from ..module_utils._driver_steps import Done
from ..module_utils._driver_transaction import STALE, Ground, change_holds, change_packages, driver_ground, remove_packages
from ..module_utils._errors import HostError
from ..module_utils._package_answers import PackageError
from ..module_utils._package_failure import UNFINISHED, failure
from ..module_utils._package_manager import package_manager
from ..module_utils._repository_args import REPOSITORY_OPTIONS
from ..module_utils._seconds import check_seconds


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **REPOSITORY_OPTIONS,
            "state": {"type": "str", "choices": ["present", "rolled_back", "absent"], "default": "present"},
            "names": {"type": "list", "elements": "str", "default": []},
            "same_version": {"type": "list", "elements": "str", "default": []},
            "members": {"type": "list", "elements": "str", "default": []},
            "not_members": {"type": "list", "elements": "str", "default": []},
            "offered": {"type": "list", "elements": "str", "default": []},
            "optional": {"type": "list", "elements": "str", "default": []},
            "rollback": {"type": "str", "choices": list(POLICIES), "default": "best_effort"},
            "unwanted": {"type": "list", "elements": "str", "default": []},
            "branch": {"type": "int"},
            "version": {"type": "str", "default": ""},
            "source": {"type": "str", "choices": ["nvidia", "distribution"], "default": "nvidia"},
            "hold_add": {"type": "list", "elements": "str", "default": []},
            "hold_remove": {"type": "list", "elements": "str", "default": []},
            "module_stream": {"type": "str", "default": ""},
            "remove_runfile": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        if os.geteuid() != 0:
            raise PackageError("failed", "packages are changed by root only; run the task with become: true")
        check_seconds(module.params, "transaction_timeout", "lock_timeout")
        done = _run(module)
    except HostError as exc:
        builds = failed_builds() if getattr(exc, "reason", "") == "dpkg_failed" else ""
        answer = failure("driver", exc)
        module.fail_json(**{**answer, "msg": f"{answer['msg']}{'; DKMS: ' if builds else ''}{builds}"})
    module.exit_json(
        changed=done.changed,
        version=done.version,
        packages=done.after,
        previous=done.before,
        moves=_moves(done),
        download_bytes=done.download,
        diff=_diff(done),
    )


def _run(module: AnsibleModule) -> Done:
    options, check = module.params, module.check_mode
    apt = package_manager(options["transaction_timeout"], options["module_stream"], options["lock_timeout"])
    if options["hold"] and options["names"] and options["state"] == "present":
        options["optional"] = [*options["optional"], *apt.check_holds(check)]
    if options["state"] == "absent":
        done = remove_packages(apt, options["names"], check, _ground(options))
        gone = remove_repository() if options["repository_remove"] and not check else []
        return done._replace(changed=done.changed or bool(gone))
    if options["state"] == "rolled_back":
        return roll_back(apt, options["hold"], check)
    if not options["names"]:
        return Done(change_holds(apt, options["hold_add"], options["hold_remove"], options["hold"], check), "", {}, {})
    unseen = Done(True, options["version"], {}, dict.fromkeys(options["names"], options["version"] or "the newest that fits"))
    if options["repository_url"] and check:
        return unseen

    def change() -> Done:
        return change_packages(apt, _request(options), options["source"], options["hold"], check, _ground(options), options["rollback"])

    if check:
        try:
            return change()
        except PackageError as exc:
            if exc.reason not in STALE:
                raise
            module.warn(f"{exc}. Package lists are not renewed in check mode; a run renews them before it gives up")
            return unseen
    if not options["repository_url"]:
        return change()
    return configure_and(repository_of(options, open_url, apt), apt, change, UNFINISHED)


def _ground(options: dict) -> Ground:
    ground = driver_ground()._replace(stream=options["module_stream"])
    return ground._replace(make_room=uninstall) if options["remove_runfile"] else ground


def _request(options: dict) -> Request:
    return Request(
        names=tuple(options["names"]),
        same_version=tuple(options["same_version"]),
        members=tuple(options["members"]),
        not_members=tuple(options["not_members"]),
        branch=options["branch"] or 0,
        version=options["version"],
        from_url=options["from_url"],
        downgrade=options["allow_downgrade"],
        optional=tuple(options["optional"]),
        offered=tuple(options["offered"]),
        unwanted=tuple(options["unwanted"]),
    )


def _moves(done: Done) -> list:
    """What moves, a line each: libcuda1 570.133.20-1 → 580.178.04-1."""
    return [
        f"{name} {done.before.get(name, 'absent')} → {done.after.get(name, 'absent')}"
        for name in sorted({*done.before, *done.after})
        if done.before.get(name) != done.after.get(name)
    ]


def _diff(done: Done) -> dict:
    def lines(packages: dict) -> str:
        return "".join(f"{name} {version}\n" for name, version in sorted(packages.items()))

    return {"before_header": "driver packages", "after_header": "driver packages", "before": lines(done.before), "after": lines(done.after)}


if __name__ == "__main__":
    main()
