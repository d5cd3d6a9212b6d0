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
      - V(absent) purges O(names), the recorded holds and the repository that was configured here.
    type: str
    choices: [present, absent]
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
  optional:
    description: Packages that come along where a repository offers them, such as kernel headers. They are neither held nor recorded.
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
  hold:
    description: Whether the set is held afterwards.
    type: bool
    default: true
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
  allow_downgrade:
    description: Whether packages may move to a lower version.
    type: bool
    default: false
  from_url:
    description: Only versions from this repository count. Empty takes them from any.
    type: str
    default: ""
  repository_url:
    description: Repository to configure first, a flat APT repository or an RPM repository. Empty leaves the host's sources as they are.
    type: str
    default: ""
  repository_key:
    description: Its OpenPGP public key, ASCII-armoured.
    type: str
    default: ""
  repository_key_url:
    description: Where the host fetches that key if O(repository_key) is empty.
    type: str
    default: ""
  module_stream:
    description:
      - dnf module stream that the packages belong to, C(nvidia-driver:580-open); it is enabled in the same transaction, whatever stream of
        the module was enabled before. Empty leaves streams as they are.
      - With O(state=absent), a stream that was enabled here, to be forgotten.
    type: str
    default: ""
  transaction_timeout:
    description: Seconds that the download or the transaction may take. DKMS builds take minutes.
    type: int
    default: 1800
extends_documentation_fragment:
  - gpufleet.inference._attributes
attributes:
  check_mode:
    support: partial
    details: A repository that is not configured yet cannot be asked; then only the names are known.
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
reason:
  description:
    - A word for the cause of a failure. V(not_available), V(unresolvable), V(would_remove), V(foreign_hold), V(foreign_broken),
      V(repository_unreachable), V(repository_signature), V(repository_inconsistent), V(disk_full), V(locked), V(no_versionlock)
      and V(no_dnf) have changed no package; after V(dpkg_failed), V(killed), V(timeout), V(hung) and V(failed) the next run goes on from
      where this one stopped.
  returned: failure
  type: str
  sample: not_available
"""

import contextlib
import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ..module_utils._apt import PackageError
from ..module_utils._driver_record import read_record, update_record
from ..module_utils._driver_repository import Repository, fetch_key, remove_repository
from ..module_utils._driver_resolve import Request
from ..module_utils._driver_transaction import Done, change_holds, change_packages, remove_packages
from ..module_utils._errors import HostError
from ..module_utils._package_manager import PackageManager, package_manager

UNFINISHED = ("dpkg_failed", "killed", "timeout", "hung", "failed")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "names": {"type": "list", "elements": "str", "default": []},
            "same_version": {"type": "list", "elements": "str", "default": []},
            "members": {"type": "list", "elements": "str", "default": []},
            "not_members": {"type": "list", "elements": "str", "default": []},
            "optional": {"type": "list", "elements": "str", "default": []},
            "branch": {"type": "int"},
            "version": {"type": "str", "default": ""},
            "source": {"type": "str", "choices": ["nvidia", "distribution"], "default": "nvidia"},
            "hold": {"type": "bool", "default": True},
            "hold_add": {"type": "list", "elements": "str", "default": []},
            "hold_remove": {"type": "list", "elements": "str", "default": []},
            "allow_downgrade": {"type": "bool", "default": False},
            "from_url": {"type": "str", "default": ""},
            "repository_url": {"type": "str", "default": ""},
            "repository_key": {"type": "str", "default": "", "no_log": False},
            "repository_key_url": {"type": "str", "default": "", "no_log": False},
            "module_stream": {"type": "str", "default": ""},
            "transaction_timeout": {"type": "int", "default": 1800},
        },
        supports_check_mode=True,
    )
    if os.geteuid() != 0:
        module.fail_json(msg="packages are changed by root only; run the task with become: true", reason="failed")
    try:
        done = _run(module)
    except PackageError as exc:
        module.fail_json(msg=str(exc), reason=exc.reason)
    except HostError as exc:
        module.fail_json(msg=str(exc), reason="failed")
    module.exit_json(changed=done.changed, version=done.version, packages=done.after, previous=done.before, diff=_diff(done))


def _run(module: AnsibleModule) -> Done:
    options, check = module.params, module.check_mode
    apt = package_manager(options["transaction_timeout"], options["module_stream"])
    if options["hold"] and options["names"] and options["state"] == "present":
        apt.check_holds()
    if options["state"] == "absent":
        done = remove_packages(apt, options["names"], check)
        gone = [] if check else remove_repository()
        return done._replace(changed=done.changed or bool(gone))
    if not options["names"]:
        return Done(change_holds(apt, options["hold_add"], options["hold_remove"], check), "", {}, {})
    if options["repository_url"] and check:
        return Done(True, options["version"], {}, dict.fromkeys(options["names"], options["version"]))
    with _stream_recorded("" if check else options["module_stream"]):
        if options["repository_url"]:
            return _with_repository(apt, options)
        return change_packages(apt, _request(options), options["source"], options["hold"], check)


@contextlib.contextmanager
def _stream_recorded(stream: str) -> t.Iterator[None]:
    """A stream that we enable is ours from the moment on at which it may be; where nothing was changed it is not."""
    before = read_record().get("module_stream")
    if stream:
        update_record({"module_stream": stream})
    try:
        yield
    except PackageError as exc:
        if stream and exc.reason not in UNFINISHED:
            update_record({"module_stream": before})
        raise


def _with_repository(apt: PackageManager, options: dict) -> Done:
    key = options["repository_key"] or fetch_key(options["repository_key_url"], open_url)
    repository = Repository(options["repository_url"], key, apt)
    configured = repository.configure(apt)
    try:
        done = change_packages(apt, _request(options), options["source"], options["hold"], False)
    except PackageError as exc:
        # Resolvable or nothing changes; once packages began to move, they need their repository.
        if exc.reason not in UNFINISHED:
            repository.restore()
        raise
    return done._replace(changed=done.changed or configured)


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
    )


def _diff(done: Done) -> dict:
    def lines(packages: dict) -> str:
        return "".join(f"{name} {version}\n" for name, version in sorted(packages.items()))

    return {"before_header": "driver packages", "after_header": "driver packages", "before": lines(done.before), "after": lines(done.after)}


if __name__ == "__main__":
    main()
