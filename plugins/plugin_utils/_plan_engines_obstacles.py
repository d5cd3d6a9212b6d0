# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has what an instance needs to start: its port, its GPUs. Pure.

Private to the collection. Asked only for instances that are to be started: what runs as asked has both.
"""

from __future__ import annotations

import typing as t

from ._contracts import Finding, named_finding
from ._engine_gpus import Device
from ._engine_instance import Instance
from ._plan_engines_facts import UNIT, Here

SOURCE = "engine_info"


def obstacles(instance: Instance, devices: t.Sequence[Device], here: Here) -> list[Finding]:
    return [*_port(instance, here), *_gpus(instance, devices, here)]


def _port(instance: Instance, here: Here) -> t.Iterator[Finding]:
    holder, name = here.holder(instance["port"]), instance["name"]
    if holder is None or _own(holder.get("unit"), name):
        return
    who = _who(holder)
    yield named_finding(
        "engine",
        "port_taken",
        "block",
        f"Port {instance['port']}, which {name} asks for, is in use by {who}.",
        SOURCE,
        subject=name,
        found=who,
        needed=f"port {instance['port']} free",
        nearest=str(_free(instance["port"], here)),
        fix=f"Stop {who}, or give {name} another port.",
    )


def _gpus(instance: Instance, devices: t.Sequence[Device], here: Here) -> t.Iterator[Finding]:
    wanted = {device.uuid for device in devices if not device.mig}
    for gpu in here.facts.get("gpus") or ():
        if gpu.get("uuid") not in wanted:
            continue
        for process in gpu.get("processes") or ():
            if _own(process.get("unit"), instance["name"]):
                continue
            who = _who({"pid": process.get("pid"), "process": process.get("name"), "unit": process.get("unit")})
            yield named_finding(
                "engine",
                "gpu_taken",
                "block",
                f"GPU {gpu.get('index')} ({gpu['uuid']}), which {instance['name']} asks for, is in use by {who}.",
                SOURCE,
                subject=f"{instance['name']} {process.get('pid')}",
                found=who,
                needed="a GPU that nobody else uses",
                fix=f"End {who}, or give {instance['name']} other GPUs. Nobody's process is ended by this role.",
            )


def _own(unit: t.Any, name: str) -> bool:
    return str(unit or "").partition(".")[0] in (f"{UNIT}{name}", f"{UNIT}{name}-ray")


def _who(holder: t.Mapping[str, t.Any]) -> str:
    unit = f", unit {holder['unit']}" if holder.get("unit") else ""
    return f"{holder.get('process') or 'a process'} (pid {holder.get('pid')}{unit})"


def _free(port: int, here: Here) -> int:
    return next((other for other in range(port + 1, min(port + 200, 65536)) if here.holder(other) is None), port)
