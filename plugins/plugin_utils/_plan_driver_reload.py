# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the loaded modules can be replaced without a reboot, and who is in the way.

Private to the collection, pure. The host looks again (module driver_reload) before it stops anything.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..module_utils._driver_reload import describe
from ..module_utils._driver_reload_units import REMOVABLE, stop_order
from ._contracts import Change
from ._plan_driver_facts import HostDriver
from ._plan_driver_input import Settings
from ._plan_driver_part import Part
from ._plan_driver_reboot import Reason
from ._plan_driver_target import wants_fabric_manager

CURABLE = ("driver.module_stale", "driver.module_kind", "driver.parameters")
"""Reasons for a reboot that go with other modules; nouveau on the GPUs or another kernel do not."""
_SHOWN = 6


def reload_part(settings: Settings, host: HostDriver, because: list[Reason], future_version: str) -> Part:
    """Details `reload` where the modules are replaced in this run, or units of an interrupted reload wait."""
    part = Part(source="docs/driver_running.md")
    curable = bool(because) and all(reason.id in CURABLE for reason in because)
    if curable and settings.live_reload:
        why_not = obstacles(settings, host)
        text = "; ".join(reason.message for reason in because)
        if why_not:
            _not_possible(part, host, text, why_not)
        else:
            part.change("reload", "kernel modules", text, f"{future_version} loaded", f"reload the kernel modules: {text}", "gpu_reload")
            force = any(reason.id != "driver.module_stale" for reason in because)
            part.details["reload"] = _request(settings, future_version, force)
    if "reload" not in part.details and host.reload_record.get("phase") == "pending" and not host.hung:
        _interrupted(part, settings, host)
    return part


def reloads(part: Part) -> bool:
    """Whether modules are replaced: units that only wait to be started are no reload."""
    return any(change.id == "driver.reload" for change in part.changes)


def gentler(changes: t.Iterable[Change]) -> list[Change]:
    """Changes of packages below a loaded module end with the reload, not with a reboot."""
    return [dataclasses.replace(change, disruption="gpu_reload") if change.disruption == "reboot" else change for change in changes]


def obstacles(settings: Settings, host: HostDriver) -> list[str]:
    """Why the modules of this host are not replaced while it runs; empty if they can be."""
    if host.fabric_kind in ("nvswitch", "nvlink5") or wants_fabric_manager(settings, host):
        return ["its GPUs are joined by NVSwitches, whose fabric is set up at boot only"]
    if host.fabric_kind == "imex":
        return ["its GPUs belong to a rack's NVLink domain, which its other trays use as well"]
    if host.hung:
        return ["the loaded driver does not answer"]
    if host.reload_record.get("phase") == "failed":
        return [f"a reload failed already in this boot: {host.reload_record.get('reason')}"]
    if not host.holders:
        return ["who uses the loaded modules could not be read"]
    return holders(settings, host)


def holders(settings: Settings, host: HostDriver) -> list[str]:
    """Everyone who keeps the modules and is not ours to stop."""
    allowed = stop_order(settings.live_reload_units)
    found = [describe(process) for process in host.holders.get("processes") or [] if process.get("unit") not in allowed]
    found += [f"kernel module {entry['name']}" for entry in host.holders.get("modules") or [] if entry["name"] not in REMOVABLE]
    found += [f"the console on {name}" for name in host.holders.get("console") or []]
    return found


def keeps_modules(settings: Settings, host: HostDriver, because: list[Reason]) -> tuple[str, bool]:
    """For the reboot's finding: why the loaded modules stay, and whether a reload would do if it were asked for."""
    if not because or not all(reason.id in CURABLE for reason in because):
        return "", False
    why_not = obstacles(settings, host)
    if settings.live_reload and why_not:
        return f"the modules are not reloaded while it runs: {some(why_not)}", False
    used = holders(settings, host)
    return f"the loaded modules are used by {some(used)}" if used else "", not why_not


def some(texts: list[str]) -> str:
    """A list that a person can read."""
    return "; ".join(texts[:_SHOWN]) + (f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else "")


def _request(settings: Settings, version: str, force: bool) -> dict[str, t.Any]:
    return {"version": version, "force": force, "load": ["nvidia-uvm"], "units": list(settings.live_reload_units)}


def _not_possible(part: Part, host: HostDriver, text: str, why_not: list[str]) -> None:
    part.find(
        "reload_not_possible",
        "warn",
        f"The kernel modules are not reloaded while the host runs: {some(why_not)}. A reboot is needed: {text}.",
        found=some(why_not),
        needed="no NVSwitch or rack fabric, and nobody on the GPUs but units that this role may stop",
        fix="End these processes, or name their units in nvidia_driver_live_reload_units if they may be stopped for a moment; "
        "otherwise nvidia_driver_reboot decides."
        if host.holders and host.fabric_kind == "none"
        else "nvidia_driver_reboot decides what happens.",
        subject="host",
    )


def _interrupted(part: Part, settings: Settings, host: HostDriver) -> None:
    """An earlier run was cut off: what ran before it runs again, whatever else is decided."""
    units = [str(unit) for unit in host.reload_record.get("units") or []]
    part.change(
        "reload_interrupted",
        ", ".join(units) or "kernel modules",
        "stopped by a reload that was cut off",
        "as before it",
        f"finish the interrupted reload: {', '.join(units) or 'kernel modules'}",
    )
    version = host.loaded_version or host.module_version or ""
    part.details["reload"] = _request(settings, version, False)
