#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_info
version_added: 0.2.0
short_description: Engine instances of a host, as recorded, as they lie there, as they run
author: gpufleet contributors (@gpufleet)
description:
  - Is the host's half of the gate of the roles P(gpufleet.inference.vllm#role), P(gpufleet.inference.sglang#role) and
    P(gpufleet.inference.trtllm#role). Systemd is asked once for all units.
  - Never fails for an odd state. What cannot be read is an entry of C(errors).
  - Holds no secret. Of a file with one it has the SHA-256.
options: {}
extends_documentation_fragment:
  - gpufleet.inference._attributes
  - gpufleet.inference._attributes.info_module
"""

EXAMPLES = r"""
- name: Which engines are on this host
  gpufleet.inference.engine_info:
  become: true
  register: engines
"""

RETURN = r"""
engine_info:
  description: The answer.
  returned: success
  type: dict
  contains:
    records:
      description:
        - Instance → C(definition_sha256), C(engine), C(version), C(model), C(gpus), C(port), C(served_name), C(runtime), C(user),
          C(program), C(state), C(since), C(failure), C(definition).
        - C(state) is V(ok), V(failed) (it does not answer, C(failure) says why), V(switching) (a change goes on, or was cut
          off where C(jobs) has none of this name) or V(unknown).
      type: dict
    units:
      description:
        - Unit → C(active_state), C(sub_state), C(result), C(exec_main_status), C(enabled), C(need_daemon_reload), C(main_pid), C(started)
          (seconds since 1970), C(restarts).
      type: dict
    files:
      description: Path → C(sha256), C(mode), C(uid), C(mtime), and C(text) of units.
      type: dict
    started_with:
      description: Running instance → SHA-256 of the definition that its processes began with, empty where it was not the recorded one.
      type: dict
    ports:
      description: Listening TCP port → C(pid), C(process), C(unit).
      type: dict
    users:
      description: Local users.
      type: list
      elements: str
    systemd:
      description: Version.
      type: int
    docker:
      description: C(program), C(version), C(cdi); none where there is no Docker.
      type: dict
    podman:
      description: C(program), C(version); none where there is no Podman.
      type: dict
    jobs:
      description: Instance → the job that changes it now.
      type: dict
    gate:
      description: C(sha256) of the installed code of gate and watch, and whether the program is C(present).
      type: dict
    errors:
      description: What could not be read → why.
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._engine_info import collect
from ..module_utils._errors import HostError


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    try:
        info = collect()
    except HostError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, engine_info=info)


if __name__ == "__main__":
    main()
