# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply rules to all GPUs within one NVML session, each GPU and setting by itself, and read back. Private to the collection.

First everything is read and judged; one problem anywhere and nothing is set on any GPU. After that a GPU that fails
does not keep the others from their settings.
"""

from __future__ import annotations

import typing as t

from ._errors import HostError
from ._gpu_settings_control import judge_governor
from ._gpu_settings_device import Session, read, verdict, write
from ._gpu_settings_targets import Target, pin_indices, resolve
from ._gpu_settings_words import Device
from ._nvml_errors import NvmlError

ORDER = ("persistence", "power_limit", "compute_mode", "ecc", "gpu_clocks", "memory_clocks")
"""Persistence first: without it an idle driver forgets the rest."""
GOOD = frozenset({"set", "unchanged", "governed", "unsupported"})
TOLERANCE_MW = 1000
"""Drivers keep limits to the watt or so; less than this apart is equal."""

BeforeWrite = t.Callable[[list[Device], list[Target]], None]


class Request(t.NamedTuple):
    """What to apply."""

    rules: list[dict[str, t.Any]]
    origins: t.Optional[list[str]] = None
    """Options the rules came from, where they are to be judged; None for rules that were judged before."""
    governed: bool = False
    """The governor moves the limits now: they are not ours to set."""
    handled: t.Mapping[str, t.Mapping[str, str]] = {}
    """UUID → clock ranges that were locked since this boot; they cannot be read back."""
    refused: t.Mapping[str, t.Sequence[str]] = {}
    """UUID → settings that the device turned out not to have."""
    governor: t.Optional[t.Mapping[str, t.Any]] = None
    """Configuration of the governor, to be judged on each device."""
    governor_name: str = "governor"
    only: t.Optional[t.Collection[str]] = None
    """Settings to look at; None: all."""
    check: bool = False


def apply(session: Session, request: Request, before_write: t.Optional[BeforeWrite] = None) -> dict[str, t.Any]:
    """Returns {rules, problems, failure, devices, gpus}: `devices` as they were, `gpus` the report."""
    found = [read(session, index) for index in range(session.call("nvmlDeviceGetCount"))]
    devices = [{**device, "refused": list(request.refused.get(device["uuid"] or "", ()))} for device, _handle in found]
    rules, problems = pin_indices(request.rules, request.origins or [""] * len(request.rules), devices)
    resolution = resolve(rules, devices, request.origins)
    problems = problems + resolution.problems
    if request.origins is not None:
        problems = problems + judge_governor(request.governor, resolution.targets, request.governor_name)
    out: dict[str, t.Any] = {"rules": rules, "devices": devices, "problems": [list(p) for p in problems], "failure": "", "gpus": []}
    if request.origins is not None and any(problem.severity == "block" for problem in problems):
        return out
    if before_write and not request.check:
        try:
            before_write(devices, resolution.targets)
        except HostError as exc:
            out["failure"] = str(exc)
            return out
    targets = {target.device["index"]: target for target in resolution.targets}
    for device, (_before, handle) in zip(devices, found):
        out["gpus"].append(_one(session, request, device, handle, targets.get(device["index"])))
    for problem in problems if request.origins is None else ():
        if problem.severity == "block":
            _refuse(out["gpus"], problem.subject, problem.text)
    return out


def _one(session: Session, request: Request, device: Device, handle: t.Any, target: t.Optional[Target]) -> dict[str, t.Any]:
    """The report of one GPU, after setting what differs."""
    entry = {key: device.get(key) for key in ("index", "uuid", "pci_address", "product", "state", "reason")}
    entry["settings"] = settings = {}
    entry["reboot_needed"] = False
    if target is None:
        return entry
    for key in ORDER:
        if request.only is not None and key not in request.only:
            continue
        if key in target.unsupported:
            settings[key] = {"status": "unsupported"}
        elif key in target.wanted:
            settings[key] = _setting(session, request, device, handle, key, target.wanted[key])
    entry["reboot_needed"] = "ecc" in target.wanted and target.wanted["ecc"] != (device.get("ecc") or {}).get("current")
    return entry


def _setting(session: Session, request: Request, device: Device, handle: t.Any, key: str, wanted: t.Any) -> dict[str, t.Any]:
    before = current(device, key, request.handled.get(device["uuid"], {}))
    result = {"status": "unchanged", "before": before, "wanted": wanted, "after": before}
    if key == "power_limit" and request.governed:
        return {**result, "status": "governed"}
    if equal(key, before, wanted):
        return result
    if request.check:
        return {**result, "status": "set", "after": wanted}
    try:
        write(session, handle, key, wanted)
        after = _read_back(session, device["index"], key, wanted)
    except NvmlError as exc:
        return {**result, "status": verdict(exc.code), "error": exc.name}
    if not equal(key, after, wanted):
        return {**result, "status": "error", "after": after, "error": f"was set to {wanted} and reads {after}"}
    return {**result, "status": "set", "after": after}


def _read_back(session: Session, index: int, key: str, wanted: t.Any) -> t.Any:
    if key.endswith("_clocks"):
        return wanted  # NVML has no way to read a locked range
    return current(read(session, index)[0], key, {})


def current(device: Device, key: str, handled: t.Mapping[str, str]) -> t.Any:
    """The device's value of a setting: the pending one of ECC, the last one locked for clocks."""
    if key == "power_limit":
        return (device.get("power") or {}).get("limit_mw")
    if key == "ecc":
        return (device.get("ecc") or {}).get("pending")
    return handled.get(key) if key.endswith("_clocks") else device.get(key)


def equal(key: str, one: t.Any, other: t.Any) -> bool:
    if key == "power_limit" and one is not None and other is not None:
        return abs(one - other) < TOLERANCE_MW
    return bool(one == other)


def _refuse(gpus: list[dict[str, t.Any]], subject: str, text: str) -> None:
    """At boot nobody can correct a range: the one setting is left out and named."""
    for gpu in gpus:
        if subject and subject in (gpu["uuid"], gpu["pci_address"]):
            gpu["settings"]["out_of_range"] = {"status": "out_of_range", "error": text}


def put_back(session: Session, values: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """Set UUID → setting → value again; what did not work, as text."""
    failed = []
    for index in range(session.call("nvmlDeviceGetCount")):
        device, handle = read(session, index)
        for key, value in values.get(device["uuid"] or "", {}).items():
            try:
                write(session, handle, key, value)
            except NvmlError as exc:
                failed.append(f"{key} of {device['uuid']}: {exc.name}")
    return failed
