"""The lab as an Ansible inventory."""

from __future__ import annotations

import json
from typing import Any

from .hosts import Fleet
from .repository import HOST_URL


def build(fleet: Fleet) -> dict[str, Any]:
    hosts: dict[str, Any] = {}
    for host in fleet.known().values():
        hosts[host.name] = {"ansible_host": host.address}
        if host.profile:
            hosts[host.name]["simulated_gpu_profile"] = host.profile
    shared = {
        "ansible_user": "ops",
        "ansible_ssh_private_key_file": str(fleet.key),
        "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
        # Logs each module start; becomes /usr/bin/python3.
        "ansible_python_interpreter": "/opt/lab/bin/python3",
        "lab_name": fleet.settings.name,
        "lab_repository": HOST_URL,
    }
    return {"all": {"children": {"lab": {"hosts": hosts, "vars": shared}}}}


def write(fleet: Fleet) -> str:
    """`.lab/NAME/inventory.yml` (JSON is YAML), replaced whole; its path."""
    path = fleet.settings.state / "inventory.yml"
    part = path.with_suffix(".part")
    part.write_text("---\n" + json.dumps(build(fleet), indent=2) + "\n")
    part.replace(path)
    return str(path)
