# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults: a table of names, and the files they are written to.

Scope machine: <run>/faults. Scope gpu: <run>/gpu/<uuid>/faults. Persistent ones are also kept below <lib> and come back at boot.
Most are read by the library; those with readings also change what the GPU reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from . import paths, state
from .profile import Machine


class Fault(NamedTuple):
    scopes: str  # "m" machine, "g" GPU, "mg" both
    value: str  # value when none is given
    meaning: str
    readings: Mapping[str, str] = MappingProxyType({})  # what the GPU then reports, "{value}" is replaced


FAULTS: dict[str, Fault] = {
    "no_driver": Fault("m", "1", "nvmlInit answers 9, as without a loaded module"),
    "no_device": Fault("m", "1", "no GPU at all: neither on the PCI bus nor in NVML"),
    "missing": Fault("g", "1", "this GPU fell off the bus: not in NVML, after `boot` or `hardware apply` not in PCI either"),
    "mismatch": Fault("m", "570.86.15", "the loaded module is VALUE, other than the library: nvmlInit answers 18"),
    "no_access": Fault("m", "1", "nvmlInit answers 4: the device nodes can't be opened"),
    "lost": Fault("g", "1", "every call on this GPU answers 15"),
    "unknown": Fault("mg", "1", "999: nvmlInit for the machine, every call for a GPU"),
    "hang": Fault("mg", "-1", "calls sleep VALUE seconds, -1 for ever; SIGKILL ends them"),
    "hang_path": Fault(
        "mg", "/run/simulated-gpu/blocked", "calls open and read the file VALUE: blocked there by FUSE, not even SIGKILL ends them"
    ),
    "slow": Fault("mg", "250", "every call takes VALUE milliseconds longer"),
    "no_permission": Fault("mg", "1", "setters answer 4, for root too"),
    "not_supported": Fault("g", "1", "setters and the power limit answer 3"),
    "nvlink_down": Fault("g", "all", "NVLinks VALUE (numbers with commas, or all) are down"),
    "ecc": Fault(
        "g",
        "1",
        "VALUE uncorrected DRAM errors, volatile and aggregate",
        {"ecc.uncorrected.volatile.dram": "{value}", "ecc.uncorrected.aggregate.dram": "{value}"},
    ),
    "row_remap_pending": Fault(
        "g", "1", "VALUE rows wait for a reset to be remapped", {"remap.uncorrected": "{value}", "remap.pending": "1", "field.226": "1"}
    ),
    "row_remap_failure": Fault("g", "1", "row remapping failed: the board must be replaced", {"remap.failure": "1"}),
    "throttle": Fault(
        "g",
        "0x28",
        "clock event reasons VALUE: 4 power cap, 8 hardware slowdown, 0x20 software thermal, 0x40 hardware thermal, 0x80 power brake",
        {"event_reasons": "{value}"},
    ),
    "fabric": Fault(
        "g", "2", "fabric state VALUE: 0 not supported, 1 not started, 2 in progress, 3 completed", {"fabric.state": "{value}"}
    ),
    "fabric_status": Fault("g", "999", "fabric completed with error VALUE", {"fabric.state": "3", "fabric.status": "{value}"}),
    "reset_required": Fault("g", "1", "the GPU asks for a reset", {"field.226": "1", "field.230": "1"}),
}


class FaultError(ValueError):
    """A fault that does not exist or does not fit."""


def _spec(name: str) -> Fault:
    if name.startswith("call."):
        return Fault("mg", "3", "this one function answers VALUE")
    if name not in FAULTS:
        raise FaultError(f"no fault {name!r}; there are: {', '.join(FAULTS)}, call.<NVML function>")
    return FAULTS[name]


def switch(machine: Machine, name: str, value: str | None, slots: list[int] | None, off: bool, persistent: bool) -> bool:
    """One fault on or off; True if something changed."""
    spec = _spec(name)
    scope = "m" if slots is None and "m" in spec.scopes else "g"
    if scope not in spec.scopes:
        raise FaultError(f"fault {name!r} is for the whole machine: leave out --gpu")
    value = None if off else (value or spec.value)
    if scope == "m":
        changed = state.update(paths.run("faults"), {name: value})
        kept = state.update(paths.lib("faults"), {name: value}) if persistent or off else False
        return changed or kept
    changed = False
    for slot in slots if slots is not None else range(machine.count):
        uuid = machine.uuid(slot)
        changed |= state.update(state.gpu_file(uuid, "faults"), {name: value})
        if persistent or off:
            changed |= state.update(state.gpu_file(uuid, "faults", persistent=True), {name: value})
        readings = {key: None if off else text.format(value=value) for key, text in spec.readings.items()}
        if readings:
            changed |= state.update(state.gpu_file(uuid, "readings"), readings)
    return changed


def restore(machine: Machine) -> None:
    """At boot: persistent faults are there again."""
    for name, value in state.read(paths.lib("faults")).items():
        switch(machine, name, value, None, False, False)
    for slot in range(machine.count):
        for name, value in state.read(state.gpu_file(machine.uuid(slot), "faults", persistent=True)).items():
            switch(machine, name, value, [slot], False, False)


def active(machine: Machine) -> dict[str, dict[str, str]]:
    out = {"machine": state.read(paths.run("faults"))}
    for slot in range(machine.count):
        found = state.read(state.gpu_file(machine.uuid(slot), "faults"))
        if found:
            out[f"gpu {slot}"] = found
    return {where: found for where, found in out.items() if found}


def persist_exactly(machine: Machine, wanted: list[dict[str, str]], check: bool, follow: Callable[[str, bool, str | None], None]) -> bool:
    """The persistent faults become exactly these; ones switched by hand for this boot only are left alone."""
    target: dict[tuple[int | None, str], str] = {}
    for item in wanted:
        spec = _spec(item["name"])
        value = str(item.get("value") or spec.value)
        gpu = item.get("gpu")
        slots: list[int | None] = (
            list(machine.find(str(gpu))) if gpu is not None else [None] if "m" in spec.scopes else list(range(machine.count))
        )
        target.update({(slot, item["name"]): value for slot in slots})
    now: dict[tuple[int | None, str], str] = {(None, name): value for name, value in state.read(paths.lib("faults")).items()}
    for slot in range(machine.count):
        now.update(
            {(slot, name): value for name, value in state.read(state.gpu_file(machine.uuid(slot), "faults", persistent=True)).items()}
        )
    if target == now:
        return False
    for where, name in (key for key in now if key not in target and not check):
        switch(machine, name, None, None if where is None else [where], True, True)
        follow(name, True, None)
    for (where, name), value in target.items():
        if now.get((where, name)) != value and not check:
            switch(machine, name, value, None if where is None else [where], False, True)
            follow(name, False, value)
    return True
