#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: container_info
version_added: 0.1.0
short_description: Container toolkit, engines and CDI of a host, with the text of their configuration
author: gpufleet contributors (@gpufleet)
description:
  - Reads Docker, containerd, CRI-O and Podman, what the running daemons say of themselves, CDI specifications with the device nodes and
    files that they speak of, the toolkit's configuration, and package sources of the toolkit.
  - Is the host's half of the gate of the role P(gpufleet.inference.nvidia_container_toolkit#role). Texts are parsed on the controller,
    since hosts with Python 3.9 or 3.10 have no TOML parser and no host must have a YAML parser.
  - "The answer holds whole configuration files, which may contain credentials (registries, proxies): it is never stored as a fact."
options:
  rootless_users:
    description: Users whose rootless Docker is read too.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - gpufleet.inference._attributes
  - gpufleet.inference._attributes.info_module
"""

EXAMPLES = r"""
- name: Look at the container engines
  gpufleet.inference.container_info:
  register: containers
  no_log: true
"""

RETURN = r"""
container_info:
  description: The answer; for the keys see C(docs/containers.md).
  returned: success
  type: dict
  contains:
    engines:
      description: Engine → C(binary), C(version), C(unit), C(files), C(running).
      type: dict
    cdi:
      description: CDI specifications, paths that they name with what is there, missing links in /dev/char.
      type: dict
    toolkit:
      description: Version of C(nvidia-ctk), its C(config.toml), refresh units, record of this collection.
      type: dict
    sources:
      description: Package source files that name a repository of the toolkit.
      type: list
      elements: dict
    versionlock:
      description: Path and text of the list of dnf's versionlock plugin, none where there is no such plugin.
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._container_info import collect
from ..module_utils._errors import HostError


def main() -> None:
    module = AnsibleModule(
        argument_spec={"rootless_users": {"type": "list", "elements": "str", "default": []}},
        supports_check_mode=True,
    )
    try:
        info = collect(module.params["rootless_users"])
    except HostError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, container_info=info)


if __name__ == "__main__":
    main()
