"""The machines as an Ansible inventory, in the style of the lab's."""

from __future__ import annotations

import json

from .machine import SSH_OPTIONS, Machine
from .settings import Settings


def write(settings: Settings) -> str:
    """`.build/vm/inventory.yml` (JSON is YAML); its path."""
    machines = [Machine(settings, path.parent.name) for path in sorted(settings.state.glob("*/spec.json"))]
    hosts = {m.name: {"ansible_host": "127.0.0.1", "ansible_port": m.spec["port"]} for m in machines}
    shared = {
        "ansible_user": "ops",
        "ansible_ssh_private_key_file": str(settings.key),
        "ansible_ssh_common_args": " ".join(SSH_OPTIONS),
        "ansible_python_interpreter": "/usr/bin/python3",
        # An emulated machine is 20 to 30 times slower than its host.
        "ansible_ssh_pipelining": True,
        "ansible_ssh_timeout": 180,
        "nvml_timeout": 60,
    }
    path = settings.state / "inventory.yml"
    part = path.with_suffix(".part")
    part.write_text("---\n" + json.dumps({"all": {"children": {"vm": {"hosts": hosts, "vars": shared}}}}, indent=2) + "\n")
    part.replace(path)
    return str(path)
