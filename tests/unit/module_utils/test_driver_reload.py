# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reload of the driver: what is stopped, in which order, what runs again, and what a failure anywhere leaves."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._driver_reload import HOLDERS_WAIT, Outcome, Reload

OLD, NEW = "570.133.20", "580.159.04"
PERSISTENCED, DCGM, VLLM = "nvidia-persistenced.service", "nvidia-dcgm.service", "vllm.service"
TREE = {"nvidia_drm": [], "nvidia_modeset": ["nvidia_drm"], "nvidia_uvm": [], "nvidia": ["nvidia_uvm", "nvidia_modeset"]}


class Killed(BaseException):
    """kill -9."""


class FakeHost:
    """Modules with holders, units with processes; `fail` maps a call to the words it answers with."""

    def __init__(self) -> None:
        self.version, self.on_disk = OLD, NEW
        self.tree = {name: list(held) for name, held in TREE.items()}
        self.running = {PERSISTENCED: True, DCGM: True, VLLM: False}
        self.along: dict[str, list[str]] = {}
        self.processes: dict[int, str | None] = {100: PERSISTENCED, 101: DCGM}
        self.transient: set[str] = set()
        self.console: list[str] = []
        self.kept: dict[str, Any] = {}
        self.log: list[str] = []
        self.fail: dict[str, str] = {}
        self.kill_at = ""
        self.hangs = ""
        self.clock = 0.0

    def _do(self, words: str) -> str:
        if words == self.kill_at:
            raise Killed
        self.log.append(words)
        return self.fail.get(words, "")

    def record(self) -> dict[str, Any]:
        return self.kept

    def write_record(self, state: dict[str, Any]) -> None:
        self.kept = state

    def remove_record(self) -> None:
        self.kept = {}

    def hung(self) -> str:
        return self.hangs

    def loaded_version(self) -> str:
        return self.version if "nvidia" in self.tree else ""

    def modules(self) -> list[dict[str, Any]]:
        return [{"name": name, "holders": held} for name, held in self.tree.items()]

    def holders(self) -> dict[str, Any]:
        found = [
            {"pid": pid, "name": f"p{pid}", "user": "root", "unit": unit, "container": None}
            for pid, unit in self.processes.items()
            if unit is None or self.running.get(unit)
        ]
        return {"processes": found, "modules": self.modules(), "console": self.console}

    def units(self, names: list[str]) -> dict[str, dict[str, Any]]:
        return {
            name: {"active": self.running[name], "transient": name in self.transient, "along": self.along.get(name, [])}
            for name in names
            if name in self.running
        }

    def stop(self, unit: str) -> str:
        why = self._do(f"stop {unit}")
        self.running[unit] = bool(why)
        return why

    def start(self, unit: str) -> str:
        why = self._do(f"start {unit}")
        self.running[unit] = not why
        return why

    def unload(self, name: str) -> str:
        assert not [other for other in self.tree[name] if other in self.tree], "the kernel would refuse"
        why = self._do(f"rmmod {name}")
        if not why:
            del self.tree[name]
        return why

    def load(self, name: str) -> str:
        why = self._do(f"modprobe {name}")
        if not why:
            if name == "nvidia" and "nvidia" not in self.tree:
                self.version = self.on_disk
            self.tree.setdefault(name, [])
        return why

    def device_files(self) -> str:
        return self._do("nvidia-modprobe")

    def wait(self) -> None:
        self.clock += 1

    def now(self) -> float:
        return self.clock


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


def reload(host: FakeHost, *units: str, force: bool = False) -> Outcome:
    return Reload(host, NEW, force, ["nvidia-uvm"], units).run()


def test_everything_in_order(host: FakeHost) -> None:
    out = reload(host)
    assert (out.state, out.changed, out.stopped) == ("reloaded", True, [DCGM, PERSISTENCED])
    assert host.log == [
        f"stop {DCGM}",
        f"stop {PERSISTENCED}",
        "rmmod nvidia_drm",
        "rmmod nvidia_modeset",
        "rmmod nvidia_uvm",
        "rmmod nvidia",
        "modprobe nvidia",
        "modprobe nvidia_uvm",
        "modprobe nvidia_modeset",
        "modprobe nvidia_drm",
        "nvidia-modprobe",
        f"start {PERSISTENCED}",
        f"start {DCGM}",
    ]
    assert (host.version, host.kept) == (NEW, {})


def test_nothing_to_do(host: FakeHost) -> None:
    host.version = NEW
    assert reload(host) == Outcome("unchanged")
    assert host.log == []


def test_same_version_by_force(host: FakeHost) -> None:
    host.version = NEW
    assert reload(host, force=True).state == "reloaded"
    assert "rmmod nvidia" in host.log


def test_unit_that_did_not_run_is_not_started(host: FakeHost) -> None:
    host.running[DCGM] = False
    reload(host, "vllm")
    assert not [words for words in host.log if DCGM in words or VLLM in words]


def test_unit_of_the_site_goes_first_and_comes_last(host: FakeHost) -> None:
    host.running[VLLM] = True
    host.processes[102] = VLLM
    assert reload(host, "vllm").state == "reloaded"
    assert host.log[0] == f"stop {VLLM}"
    assert host.log[-1] == f"start {VLLM}"


def strange_process(host: FakeHost) -> str:
    host.processes[4711] = None
    return "pid 4711 (p4711, user root)"


def strange_unit(host: FakeHost) -> str:
    host.running[VLLM] = True
    host.processes[4712] = VLLM
    return "pid 4712 (p4712, user root, vllm.service)"


def strange_module(host: FakeHost) -> str:
    host.tree = {"third_party": [], **host.tree}
    return "kernel module third_party needs it"


def the_console(host: FakeHost) -> str:
    host.console = ["fb0"]
    return "the console is on fb0"


def unit_bound_to_ours(host: FakeHost) -> str:
    host.running["other.service"] = True
    host.along[PERSISTENCED] = ["other.service", "idle.service"]
    return "other.service would be stopped along"


def transient_unit(host: FakeHost) -> str:
    host.transient = {DCGM}
    return f"{DCGM} is transient and could not be started again"


@pytest.mark.parametrize("make", [strange_process, strange_unit, strange_module, the_console, unit_bound_to_ours, transient_unit])
def test_what_is_not_ours_is_named_and_nothing_touched(host: FakeHost, make: Any) -> None:
    expected = make(host)
    assert reload(host) == Outcome("refused", expected)
    assert (host.log, host.kept) == ([], {})
    assert Reload(host, NEW, False, [], []).plan() == Outcome("refused", expected)


def test_hung_driver_is_left_alone(host: FakeHost) -> None:
    host.hangs = "pid 7 hangs in the driver since noon"
    host.kept = {"units": [DCGM]}
    out = reload(host)
    assert (out.state, out.failed, host.log) == ("hung", True, [])


def test_failed_unload_is_noted_and_all_runs_again(host: FakeHost) -> None:
    host.fail["rmmod nvidia_uvm"] = "rmmod: ERROR: Module nvidia_uvm is in use"
    out = reload(host)
    assert (out.state, out.failed, out.reason) == ("unload_failed", False, "rmmod: ERROR: Module nvidia_uvm is in use")
    assert host.running == {PERSISTENCED: True, DCGM: True, VLLM: False}
    assert host.kept == {"phase": "failed", "units": [], "modules": [], "reason": out.reason}
    assert host.log[-4:] == ["modprobe nvidia_modeset", "modprobe nvidia_drm", f"start {PERSISTENCED}", f"start {DCGM}"]


def test_unit_that_does_not_stop(host: FakeHost) -> None:
    host.fail[f"stop {DCGM}"] = "no answer in time"
    out = reload(host)
    assert (out.state, out.reason) == ("unload_failed", f"systemctl stop {DCGM}: no answer in time")
    assert not [words for words in host.log if words.startswith("rmmod")]


def test_process_that_stays_after_its_unit(host: FakeHost) -> None:
    """Waited for, with a bound."""
    host.processes = {100: PERSISTENCED}

    def stop(unit: str) -> str:
        host.processes = {100: None}
        return host._do(f"stop {unit}")

    host.stop = stop  # type: ignore[method-assign]
    out = reload(host)
    assert out.reason == "still in use by pid 100 (p100, user root)"
    assert HOLDERS_WAIT < host.clock < HOLDERS_WAIT + 3


def test_module_that_does_not_load(host: FakeHost) -> None:
    host.fail["modprobe nvidia"] = "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"
    host.fail[f"start {PERSISTENCED}"] = "exit status 1"
    out = reload(host)
    assert (out.state, out.failed) == ("load_failed", True)
    assert "Key was rejected" in out.reason
    assert host.kept["units"] == [PERSISTENCED]
    host.fail = {}
    assert reload(host).state == "reloaded"
    assert (host.running[PERSISTENCED], host.running[DCGM], host.kept) == (True, True, {})


def test_other_module_that_does_not_load_keeps_nothing_else_away(host: FakeHost) -> None:
    host.tree = {"gdrdrv": [], **host.tree}
    host.fail["modprobe gdrdrv"] = "modprobe: FATAL: Module gdrdrv not found in directory /lib/modules/x"
    out = reload(host)
    assert (out.state, "gdrdrv not found" in out.reason) == ("load_failed", True)
    assert host.running[PERSISTENCED]
    assert host.running[DCGM]


def test_installed_module_is_not_the_expected_one(host: FakeHost) -> None:
    host.on_disk = OLD
    out = reload(host)
    assert (out.state, out.reason) == ("load_failed", f"module {OLD} was loaded, {NEW} expected")


@pytest.mark.parametrize("kill_at", [f"stop {PERSISTENCED}", "rmmod nvidia_uvm", "modprobe nvidia", "nvidia-modprobe", f"start {DCGM}"])
def test_killed_anywhere_the_next_one_finishes(host: FakeHost, kill_at: str) -> None:
    host.kill_at = kill_at
    restore = Reload._restore
    task = Reload(host, NEW, False, ["nvidia-uvm"], [])
    task._restore = lambda: restore(task) if kill_at.startswith("start") else None  # type: ignore[method-assign]
    with pytest.raises(Killed):
        task.run()
    assert host.kept["units"]
    host.kill_at = ""
    assert reload(host).state in ("reloaded", "restored")
    assert (host.version, set(host.tree), host.kept) == (NEW, set(TREE), {})
    assert host.running == {PERSISTENCED: True, DCGM: True, VLLM: False}


def test_unit_that_was_removed_in_the_meantime_is_forgotten(host: FakeHost) -> None:
    host.version, host.kept = NEW, {"units": ["gone.service"]}
    assert reload(host).state == "unchanged"
    assert (host.log, host.kept) == ([], {})


def test_check_mode_looks_only(host: FakeHost) -> None:
    assert Reload(host, NEW, False, [], []).plan() == Outcome("reloaded", changed=True)
    assert (host.log, host.kept) == ([], {})
