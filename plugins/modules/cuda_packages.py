#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_packages
version_added: 0.1.0
short_description: Install, change or remove exact CUDA toolkits and libraries as packages
author: gpufleet contributors (@gpufleet)
description:
  - Makes the CUDA packages of a host what is asked for, in one transaction. Every part of a toolkit is named with the version of that very
    release; NVIDIA's metapackages alone would bring the newest parts of their minor.
  - If anything does not resolve, would install or change a driver package, would remove a package of others or move a hold of others,
    nothing is changed.
  - C(/var/lib/gpufleet/cuda.json) records which packages and holds are ours. What is recorded and not asked for any more is removed in the
    same transaction; packages of others are left alone.
  - Used by role P(gpufleet.inference.cuda_toolkit#role), which plans what to ask for. Needs apt, or dnf on systems of the Red Hat family.
options:
  state:
    description: V(absent) purges what is recorded, and its dependencies that nothing else needs.
    type: str
    choices: [present, absent]
    default: present
  packages:
    description: Packages that are asked for, beside which none of ours stays.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the package.
        type: str
        required: true
      version:
        description: Version of the software, C(12.8.1), without packaging revision. Empty takes what is installed, else the newest.
        type: str
        default: ""
      cuda_major:
        description: Only builds for this CUDA major count (C(2.29.7-1+cuda13.0)); 0 where the package's name says it.
        type: int
        default: 0
extends_documentation_fragment:
  - gpufleet.inference._attributes
  - gpufleet.inference._repository
attributes:
  check_mode:
    support: partial
    details: A repository that is not configured yet cannot be asked; then only the names are known.
  diff_mode:
    support: full
  idempotent:
    support: full
  async:
    description: A change that runs in the background cannot be verified by its role.
    support: none
"""

EXAMPLES = r"""
- name: Two toolkits side by side, and cuDNN for one of them
  gpufleet.inference.cuda_packages:
    packages:
      - {name: cuda-toolkit-12-8, version: 12.8.1}
      - {name: cuda-toolkit-13-0, version: 13.0.2}
      - {name: libcudnn9-cuda-12, version: 9.20.0.48}
  become: true
"""

RETURN = r"""
packages:
  description: Packages of the set and their exact versions afterwards.
  returned: success
  type: dict
  sample: {cuda-toolkit-12-8: 12.8.1-1}
previous:
  description: Packages of the set and their versions before.
  returned: success
  type: dict
reason:
  description:
    - A word for the cause of a failure. After V(not_available), V(unresolvable), V(would_install_driver), V(would_remove), V(foreign_hold),
      V(foreign_broken), V(repository_unreachable), V(repository_signature), V(repository_key), V(repository_inconsistent), V(disk_full),
      V(locked) and V(no_dnf) no package has changed; after V(dpkg_failed), V(killed), V(timeout), V(hung) and V(failed) the next run
      goes on from where this one stopped.
  returned: failure
  type: str
  sample: would_install_driver
finding:
  description: The failure as a finding (C(schemas/finding.schema.json)).
  returned: failure
  type: dict
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ..module_utils._cuda_environment import remember_link
from ..module_utils._cuda_record import read_record, update_record
from ..module_utils._cuda_resolve import CudaRequest, Wanted
from ..module_utils._cuda_transaction import change, remove
from ..module_utils._driver_repository import configure_and, remove_repository, repository_of
from ..module_utils._driver_steps import Done
from ..module_utils._errors import HostError
from ..module_utils._package_answers import PackageError
from ..module_utils._package_failure import UNFINISHED, failure
from ..module_utils._package_manager import PackageManager, package_manager
from ..module_utils._repository_args import REPOSITORY_OPTIONS
from ..module_utils._seconds import check_seconds


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **REPOSITORY_OPTIONS,
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "packages": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "version": {"type": "str", "default": ""},
                    "cuda_major": {"type": "int", "default": 0},
                },
            },
        },
        supports_check_mode=True,
    )
    try:
        if os.geteuid() != 0:
            raise PackageError("failed", "packages are changed by root only; run the task with become: true")
        check_seconds(module.params, "transaction_timeout", "lock_timeout")
        done = _run(module)
    except HostError as exc:
        module.fail_json(**failure("cuda", exc))
    module.exit_json(changed=done.changed, packages=done.after, previous=done.before, diff=_diff(done))


def _run(module: AnsibleModule) -> Done:
    options, check = module.params, module.check_mode
    apt = package_manager(options["transaction_timeout"], lock_timeout=options["lock_timeout"])
    if options["state"] == "absent":
        done = remove(apt, check)
        if options["repository_remove"] and not check:
            done = done._replace(changed=bool(remove_repository()) or done.changed)
        return done
    request = CudaRequest(
        wanted=tuple(Wanted(**one) for one in options["packages"]), from_url=options["from_url"], downgrade=options["allow_downgrade"]
    )
    if not check:
        remember_link()
    if not options["repository_url"]:
        return change(apt, request, options["hold"], check)
    if check:
        return Done(True, "", {}, {one.name: one.version for one in request.wanted})
    return _with_repository(apt, request, options)


def _with_repository(apt: PackageManager, request: CudaRequest, options: dict) -> Done:
    repository = repository_of(options, open_url, apt)
    done = configure_and(repository, apt, lambda: change(apt, request, options["hold"], False), UNFINISHED)
    if repository.changed and not read_record().get("repository"):
        update_record({"repository": True})
    return done


def _diff(done: Done) -> dict:
    def lines(packages: dict) -> str:
        return "".join(f"{name} {version}\n" for name, version in sorted(packages.items()))

    return {"before_header": "CUDA packages", "after_header": "CUDA packages", "before": lines(done.before), "after": lines(done.after)}


if __name__ == "__main__":
    main()
