"""The lab as an Ansible inventory."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

from .hosts import Fleet
from .server import PORT


def build(fleet: Fleet) -> dict[str, Any]:
    hosts: dict[str, Any] = {}
    for host in fleet.known().values():
        hosts[host.name] = {"ansible_host": host.address}
        if host.profile:
            hosts[host.name]["simulated_gpu_profile"] = host.profile
    gateway = ""
    for host in fleet.known().values():
        gateway = str(next(ipaddress.ip_network(f"{host.address}/24", strict=False).hosts()))
    shared = {
        "ansible_user": "ops",
        "ansible_ssh_private_key_file": str(fleet.key),
        "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
        # Logs each module start; becomes /usr/bin/python3.
        "ansible_python_interpreter": "/opt/lab/bin/python3",
        "lab_name": fleet.settings.name,
        "lab_repository": f"http://{gateway}:{PORT}",
    }
    return {"all": {"children": {"lab": {"hosts": hosts, "vars": shared}}}}


def write(fleet: Fleet) -> str:
    """`.lab/NAME/inventory.yml` (JSON is YAML), replaced whole; its path."""
    path = fleet.settings.state / "inventory.yml"
    part = path.with_suffix(".part")
    part.write_text("---\n" + json.dumps(build(fleet), indent=2) + "\n")
    part.replace(path)
    return str(path)
