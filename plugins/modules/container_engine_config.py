#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The host's half; the action plugin of the same name reads, parses and merges on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: container_engine_config
version_added: 0.1.0
short_description: NVIDIA's container runtime in the configuration of Docker, containerd or CRI-O
author: gpufleet contributors (@gpufleet)
description:
  - Merges NVIDIA's runtime, and CDI where the engine must be told, into the engine's own configuration. Every foreign key stays, in
    its place.
  - "Compares what the files mean: another formatting or a comment is no change."
  - "Before anything is written the engine itself judges a staged copy (C(dockerd --validate), C(containerd config dump), C(crio config)).
    Then come backups, the files, the engine's account of them, and a reload or restart. If the engine does not come up, the old files go
    back and the engine is started with them."
  - "Whether a reload or a restart is needed is derived from what runs: the runtimes and CDI directories that the Docker daemon reports,
    the start of containerd and CRI-O against the last change of their files. A run that was killed between write and restart is healed
    by the next one."
options:
  engine:
    description: Which engine. It must be installed.
    type: str
    required: true
    choices: [docker, containerd, crio]
  state:
    description:
      - V(absent) takes NVIDIA's runtime out again, and the switch of CDI in Docker where this module set it and no other vendor's CDI
        specification is there by now (Docker itself obeys at its next start). All else stays.
    type: str
    choices: [present, absent]
    default: present
  default_runtime:
    description:
      - V(keep) leaves the engine's default runtime as it is, V(nvidia) makes NVIDIA's the default, V(engine) makes sure that it is not.
    type: str
    choices: [keep, nvidia, engine]
    default: keep
  cdi:
    description: Switch on CDI in releases that have it but off (Docker 25.0 to 28.2, containerd 1.7).
    type: bool
    default: true
  user:
    description: Configure the rootless Docker of this user instead of the host's.
    type: str
    default: ""
  restart:
    description:
      - What happens when the running engine needs a restart. V(safe) restarts only where no container stops by it (live-restore, no
        container, containerd, CRI-O) and reports RV(restart_needed) otherwise; V(always) restarts; V(never) reports.
      - A reload, where it is enough, is always made.
    type: str
    choices: [safe, always, never]
    default: safe
  start_timeout:
    description: Seconds that the engine may take to come up again.
    type: float
    default: 60
  job:
    description: Internal; filled by the action plugin.
    type: dict
    suboptions:
      engine:
        description: Internal; the engine.
        type: str
      unit:
        description: Internal; its systemd unit.
        type: str
      files:
        description: Internal; what to write.
        type: list
        elements: dict
        suboptions:
          path:
            description: Internal; where.
            type: path
          text:
            description: Internal; content, which may hold credentials.
            type: str
          seen:
            description: Internal; digest of what was read there.
            type: str
      stage:
        description: Internal; files of the staged copy.
        type: dict
      validate:
        description: Internal; command that judges the staged copy.
        type: list
        elements: str
      dump:
        description: Internal; command by which the engine accounts for its files.
        type: list
        elements: str
      action:
        description: Internal; reload or restart.
        type: str
      user:
        description: Internal; user of a rootless engine.
        type: str
      cdi_switch:
        description: Internal; whether CDI is switched V(on) or V(off) in these files.
        type: str
extends_documentation_fragment:
  - gpufleet.inference._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows the names of what changes, not values, which may be credentials.
  idempotent:
    support: full
  async:
    description: A restart that nobody watches cannot be undone.
    support: none
requirements:
  - "tomlkit (on the controller, only to write containerd's and CRI-O's TOML)"
seealso:
  - module: gpufleet.inference.container_info
"""

EXAMPLES = r"""
- name: NVIDIA's runtime in Docker, without stopping any container
  gpufleet.inference.container_engine_config:
    engine: docker
  become: true
  register: docker

- name: And in containerd, as the default
  gpufleet.inference.container_engine_config:
    engine: containerd
    default_runtime: nvidia
  become: true
"""

RETURN = r"""
files:
  description: Files that were written (in check mode, would be), with the names of the keys that changed.
  returned: success
  type: dict
  sample: {"/etc/docker/daemon.json": ["runtimes.nvidia", "features.cdi"]}
backups:
  description: Copies of the old files, mode 0600, the newest five of each file.
  returned: when something was written
  type: list
  elements: str
service_action:
  description: V(none), V(reload) or V(restart), as done (in check mode, as it would be).
  returned: success
  type: str
restart_needed:
  description: The engine needs a restart that O(restart) does not allow.
  returned: success
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._engine_apply import Job, apply
from ..module_utils._errors import HostError
from ..module_utils._seconds import check_seconds


def main() -> None:
    job_spec = {
        "engine": {"type": "str"},
        "unit": {"type": "str"},
        "files": {
            "type": "list",
            "elements": "dict",
            "options": {"path": {"type": "path"}, "text": {"type": "str", "no_log": True}, "seen": {"type": "str"}},
        },
        "stage": {"type": "dict"},
        "validate": {"type": "list", "elements": "str"},
        "dump": {"type": "list", "elements": "str"},
        "action": {"type": "str"},
        "user": {"type": "str"},
        "cdi_switch": {"type": "str"},
    }
    module = AnsibleModule(
        argument_spec={
            "engine": {"type": "str", "required": True, "choices": ["docker", "containerd", "crio"]},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "default_runtime": {"type": "str", "choices": ["keep", "nvidia", "engine"], "default": "keep"},
            "cdi": {"type": "bool", "default": True},
            "user": {"type": "str", "default": ""},
            "restart": {"type": "str", "choices": ["safe", "always", "never"], "default": "safe"},
            "start_timeout": {"type": "float", "default": 60},
            "job": {"type": "dict", "options": job_spec},
        },
        supports_check_mode=True,
    )
    job = module.params["job"]
    if job is None:
        module.fail_json(msg="container_engine_config is run by its action plugin; call it as gpufleet.inference.container_engine_config")
    try:
        check_seconds(module.params, "start_timeout")
        outcome = apply(Job(timeout=module.params["start_timeout"], **job))
    except HostError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=True, backups=outcome.backups, service_action=outcome.action)


if __name__ == "__main__":
    main()
