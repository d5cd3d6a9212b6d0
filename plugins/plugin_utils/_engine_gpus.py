# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs of instances: names, indices and UUIDs resolved against a host's facts. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from difflib import get_close_matches

from ._contracts import Finding
from ._engine_instance import Instance, bad

Facts = t.Mapping[str, t.Any]


@dataclass(frozen=True)
class Device:
    """A GPU or a MIG device that an instance uses."""

    uuid: str
    index: int | None
    """Index in NVML's order, which is the PCI order; None for a MIG device."""
    parent: str
    """UUID of the GPU; of itself for a whole one."""

    @property
    def mig(self) -> bool:
        return self.uuid != self.parent


def devices(facts: Facts) -> list[Device]:
    """All that could be used on a host. A GPU in MIG mode is no device, its parts are."""
    out = []
    for gpu in facts.get("gpus") or ():
        uuid, mig = gpu.get("uuid"), gpu.get("mig") or {}
        if not uuid:
            continue
        if mig.get("current"):
            out += [Device(str(part["uuid"]), None, uuid) for part in mig.get("devices") or () if part.get("uuid")]
        else:
            out.append(Device(uuid, gpu.get("index"), uuid))
    return out


def resolve(instance: Instance, facts: Facts) -> tuple[list[Device], list[Finding]]:
    """The devices that an instance uses, and what is wrong with what it asks for."""
    known = devices(facts)
    if instance["gpus"] == "all":
        wrong = [] if known else [bad(f"{instance['name']}.gpus", "all", "finds no GPU with a UUID on this host")]
        return known, wrong
    out: list[Device] = []
    wrong = []
    for asked in instance["gpus"]:
        device = next((one for one in known if str(asked) == one.uuid or (one.index is not None and str(asked) == str(one.index))), None)
        if device is None:
            wrong.append(_unknown(instance["name"], str(asked), known, facts))
        elif device in out:
            wrong.append(bad(f"{instance['name']}.gpus", str(asked), f"is there twice (it is {device.uuid})"))
        else:
            out.append(device)
    return out, wrong


def _unknown(name: str, asked: str, known: t.Sequence[Device], facts: Facts) -> Finding:
    whole = next((gpu for gpu in facts.get("gpus") or () if asked in (gpu.get("uuid"), str(gpu.get("index")))), None)
    if whole is not None and (whole.get("mig") or {}).get("current"):
        parts = [one.uuid for one in known if one.parent == whole["uuid"]]
        return bad(f"{name}.gpus", asked, "is in MIG mode: name its MIG devices", parts[0] if parts else None)
    names = [one.uuid for one in known] + [str(one.index) for one in known if one.index is not None]
    close = get_close_matches(asked, names, n=1, cutoff=0.3)
    have = ", ".join(f"{one.index} ({one.uuid})" if one.index is not None else one.uuid for one in known[:8]) or "none"
    return bad(f"{name}.gpus", asked, f"is no GPU of this host; it has {have}", close[0] if close else None)
