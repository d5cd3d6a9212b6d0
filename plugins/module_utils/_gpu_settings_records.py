# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is remembered on a host about its GPUs. Pure; private to the collection.

Two records. `/var/lib/gpufleet/gpu_settings.json` outlives a reboot: every GPU that was ever handled here, the
persistent settings as they were at our first change, and what a device turned out not to have.
`/run/gpufleet/gpu_clocks.json` dies with the boot, as locked clocks do: NVML cannot read them, so this is the only
way to tell that they are as wanted. Its text is the same for the same content: facts compare its hash.
"""

from __future__ import annotations

import json
import typing as t

from ._gpu_settings_targets import Target
from ._gpu_settings_words import Device

Recorded = dict[str, t.Any]
CLOCKS = ("gpu_clocks", "memory_clocks")


def clocks_text(handled: t.Mapping[str, t.Mapping[str, str]]) -> t.Optional[str]:
    """Content of the clock record; None when there is nothing to remember."""
    gpus = {uuid: dict(ranges) for uuid, ranges in handled.items() if ranges}
    return json.dumps({"schema": 1, "gpus": gpus}, sort_keys=True) + "\n" if gpus else None


def clocks_handled(text: t.Optional[str]) -> dict[str, dict[str, str]]:
    """UUID → ranges locked since this boot; an unusable record says nothing."""
    try:
        record = json.loads(text or "{}")
        return dict(record["gpus"]) if record.get("schema") == 1 else {}
    except (ValueError, KeyError, AttributeError, TypeError):
        return {}


def clocks_done(gpus: list[dict[str, t.Any]]) -> dict[str, dict[str, str]]:
    """What the record holds after a report: the ranges that are wanted and locked now."""
    out: dict[str, dict[str, str]] = {}
    for gpu in gpus:
        for key in CLOCKS:
            setting = gpu["settings"].get(key, {})
            if setting.get("status") in ("set", "unchanged"):
                out.setdefault(gpu["uuid"], {})[key] = setting["wanted"]
    return out


def refused(recorded: t.Optional[Recorded]) -> dict[str, list[str]]:
    """UUID → settings that the device refused as not supported although it can be asked for them."""
    return {uuid: list(gpu["refused"]) for uuid, gpu in _gpus(recorded).items() if gpu.get("refused")}


def remember(
    recorded: t.Optional[Recorded], devices: list[Device], targets: list[Target], now: str, forget: t.Collection[str] = ()
) -> Recorded:
    """The record before a change: all GPUs but those to forget, and the value of each persistent setting that is about to change."""
    present = {device["pci_address"]: device["uuid"] for device in devices if device.get("uuid")}
    kept = {uuid: gpu for uuid, gpu in _gpus(recorded).items() if uuid not in forget}
    gpus = {uuid: dict(gpu) for uuid, gpu in kept.items() if present.get(gpu.get("pci_address"), uuid) == uuid}
    for device in devices:
        if device.get("uuid"):
            entry = gpus.setdefault(device["uuid"], {"recorded_at": now})
            entry.update(pci_address=device["pci_address"], product=device["product"])
    for target in targets:
        pending = (target.device.get("ecc") or {}).get("pending")
        if "ecc" in target.wanted and pending is not None and target.wanted["ecc"] != pending:
            gpus[target.device["uuid"]].setdefault("ecc", pending)
    return {"gpus": gpus}


def remember_refused(recorded: Recorded, gpus: list[dict[str, t.Any]]) -> Recorded:
    """The record after a report: settings that NVML could not do on a device, so that nobody tries each time."""
    out = {uuid: dict(gpu) for uuid, gpu in _gpus(recorded).items()}
    for gpu in gpus:
        lacking = sorted(key for key, setting in gpu["settings"].items() if setting["status"] == "unsupported" and setting.get("error"))
        if lacking and gpu["uuid"] in out:
            out[gpu["uuid"]]["refused"] = sorted({*out[gpu["uuid"]].get("refused", ()), *lacking})
    return {"gpus": out}


def missing(recorded: t.Optional[Recorded], devices: t.Iterable[Device], bus: t.Iterable[str]) -> dict[str, str]:
    """UUID → what to say of GPUs that were here before and are not even on the PCI bus now.

    One whose slot is on the bus either does not answer, which is another matter, or was replaced.
    """
    uuids, slots = {device.get("uuid") for device in devices}, set(bus)
    return {
        uuid: f"{uuid} ({gpu.get('product')}, was at {gpu.get('pci_address')})"
        for uuid, gpu in _gpus(recorded).items()
        if uuid not in uuids and gpu.get("pci_address") and gpu["pci_address"] not in slots
    }


def ecc_to_restore(recorded: t.Optional[Recorded]) -> dict[str, bool]:
    """UUID → ECC mode before our first change."""
    return {uuid: gpu["ecc"] for uuid, gpu in _gpus(recorded).items() if isinstance(gpu.get("ecc"), bool)}


def _gpus(recorded: t.Optional[Recorded]) -> dict[str, dict[str, t.Any]]:
    gpus = (recorded or {}).get("gpus")
    return gpus if isinstance(gpus, dict) else {}
