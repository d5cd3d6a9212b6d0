# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replace the loaded kernel modules by the installed ones, without a reboot. Private to the collection.

Before the first unit is stopped, what runs is written down; what was written down runs again afterwards, whether the reload
succeeded, failed or was killed: then the next one does it.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ._driver_reload_units import REMOVABLE, stop_order

HOLDERS_WAIT = 10.0
"""Seconds that processes of a stopped unit get to close their files."""


@dataclass
class Outcome:
    """`state`: unchanged | reloaded | restored | refused | hung | unload_failed | load_failed | start_failed."""

    state: str
    reason: str = ""
    changed: bool = False
    stopped: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    unloaded: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """An unload that did not work is no failure of the module: the role then decides on a reboot."""
        return self.state in ("hung", "load_failed", "start_failed")


class Reload:
    """One reload; `host` is _driver_reload_host.Host or what stands for it in a test."""

    def __init__(self, host: t.Any, version: str, force: bool, load: t.Sequence[str], units: t.Sequence[str]) -> None:
        self._host = host
        self._version = version
        self._force = force
        self._load = list(load)
        self._allowed = stop_order(units)
        self._owed: list[str] = []
        self._out = Outcome("unchanged")

    def run(self) -> Outcome:
        reason = self._host.hung()
        if reason:
            return Outcome("hung", f"{reason}; no module is loaded or unloaded")
        record = self._host.record()
        self._owed = list(record.get("units") or [])
        wanted = self._force or self._host.loaded_version() != self._version
        try:
            if wanted:
                self._replace(list(record.get("modules") or []))
        finally:
            self._restore()
        return self._out

    def plan(self) -> Outcome:
        """What `run` would do, for check mode."""
        reason = self._host.hung()
        if reason:
            return Outcome("hung", f"{reason}; no module is loaded or unloaded")
        if self._force or self._host.loaded_version() != self._version:
            reason = self._obstacle()
            return Outcome("refused", reason) if reason else Outcome("reloaded", changed=True)
        return Outcome("restored", changed=True) if self._host.record().get("units") else Outcome("unchanged")

    def _replace(self, before: list[str]) -> None:
        reason = self._obstacle()
        if reason:
            self._out.state, self._out.reason = "refused", reason
            return
        loaded = [module["name"] for module in self._host.modules()]
        up = [name for name, unit in self._host.units(self._allowed).items() if unit["active"]]
        self._owed = [*self._owed, *(name for name in up if name not in self._owed)]
        again = [*before, *(name for name in loaded if name not in before)]
        self._host.write_record({"phase": "pending", "units": self._owed, "modules": again, "reason": ""})
        failed = self._stop(up) or self._unload(loaded)
        if failed:
            self._out.state, self._out.reason = "unload_failed", failed
            # Those that went come back if they can: beside an older nvidia the kernel takes no newer nvidia_uvm.
            for name in reversed(self._out.unloaded):
                self._host.load(name)
            return
        self._bring_back(again)

    def _obstacle(self) -> str:
        """Why nothing is touched; everything that is not ours to stop has a name here."""
        units = self._host.units(self._allowed)
        along = sorted({other for unit in units.values() if unit["active"] for other in unit["along"]} - set(self._allowed))
        bound = [name for name, unit in (self._host.units(along) if along else {}).items() if unit["active"]]
        found = self._host.holders()
        reasons = [f"{name} would be stopped along" for name in bound]
        reasons += [f"{name} is transient and could not be started again" for name, u in units.items() if u["active"] and u["transient"]]
        reasons += [describe(process) for process in found["processes"] if process["unit"] not in self._allowed]
        reasons += [f"kernel module {module['name']} needs it" for module in found["modules"] if module["name"] not in REMOVABLE]
        reasons += [f"the console is on {name}" for name in found["console"]]
        return "; ".join(reasons)

    def _stop(self, up: t.Sequence[str]) -> str:
        for unit in up:
            self._out.changed = True
            self._out.stopped.append(unit)
            why = self._host.stop(unit)
            if why:
                return f"systemctl stop {unit}: {why}"
        until = self._host.now() + HOLDERS_WAIT
        while True:
            left = self._host.holders()["processes"]
            if not left:
                return ""
            if self._host.now() > until:
                return "still in use by " + "; ".join(describe(process) for process in left)
            self._host.wait()

    def _unload(self, names: t.Sequence[str]) -> str:
        for name in names:
            why = self._host.unload(name)
            if why:
                return why if name in why else f"rmmod {name}: {why}"
            self._out.changed = True
            self._out.unloaded.append(name)
        return ""

    def _bring_back(self, names: t.Sequence[str]) -> None:
        """nvidia first. Without it nothing else is tried; another one that fails keeps neither the rest nor the units away."""
        failed = []
        for name in dict.fromkeys(word.replace("-", "_") for word in ["nvidia", *self._load, *reversed(names)]):
            why = self._host.load(name)
            if why:
                failed.append(why if name in why else f"modprobe {name}: {why}")
            if why and name == "nvidia":
                break
        now = self._host.loaded_version()
        if now == self._version:
            why = self._host.device_files()
            failed += [f"nvidia-modprobe: {why}"] if why else []
        elif not failed:
            failed.append(f"module {now or 'none'} was loaded, {self._version} expected")
        self._out.changed = True
        self._out.state, self._out.reason = ("load_failed", "; ".join(failed)) if failed else ("reloaded", "")

    def _restore(self) -> None:
        """What ran before runs again, in the reverse order of stopping: the persistence daemon comes first."""
        if not self._owed:
            if self._out.state in ("reloaded", "unchanged"):
                self._host.remove_record()
            return
        failed = {}
        for unit in reversed([unit for unit in stop_order(self._owed) if unit in self._owed]):
            state = self._host.units([unit]).get(unit)
            if state is None or state["active"]:  # removed in the meantime, or up already
                continue
            self._out.changed = True
            why = self._host.start(unit)
            if why:
                failed[unit] = why
            else:
                self._out.started.append(unit)
        if self._out.state == "unchanged" and self._out.started:
            self._out.state = "restored"
        told = "; ".join(f"{unit}: {why}" for unit, why in sorted(failed.items()))
        if failed:
            self._out.reason = "; ".join(text for text in (self._out.reason, told) if text)
            if self._out.state in ("unchanged", "restored", "reloaded", "refused"):
                self._out.state = "start_failed"
        if failed or self._out.state == "unload_failed":
            phase = "failed" if self._out.state == "unload_failed" else "pending"
            self._host.write_record({"phase": phase, "units": sorted(failed), "modules": [], "reason": self._out.reason})
        else:
            self._host.remove_record()


def describe(process: t.Mapping[str, t.Any]) -> str:
    """One holder for people: pid 4711 (python3, user ml, vllm.service, container chat)."""
    container = process.get("container") or {}
    about = [
        process.get("name"),
        process.get("user") and f"user {process['user']}",
        process.get("unit"),
        container and f"container {container.get('name') or str(container.get('id'))[:12]}",
    ]
    return f"pid {process.get('pid')} ({', '.join(str(word) for word in about if word) or 'in another pid namespace'})"
