# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver's installer as a host sees it: systemd is replaced here, the real one runs in molecule/nvidia_driver_runfile."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _driver_record, _driver_runfile
from ansible_collections.gpufleet.inference.plugins.module_utils._driver_record import read_record, update_record
from ansible_collections.gpufleet.inference.plugins.module_utils._runfile import RunfileError
from ansible_collections.gpufleet.inference.plugins.module_utils._transient import Outcome

ENTRY = {"version": "580.178.04", "sha256": "a" * 64, "kernel_modules": "open"}
GOOD, BAD, KILLED = Outcome("success", 0, ""), Outcome("exit-code", 1, "ERROR: no compiler"), Outcome("signal", 9, "")


class Host:
    """`does`: what the next unit does to the driver's own list, and how it ends."""

    def __init__(self, tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.list, self.uninstaller, self.unit = tmp / "nvidia/log", tmp / "nvidia-uninstall", tmp / "nvidia-persistenced.service"
        self.loaded = tmp / "loaded"
        self.list.parent.mkdir()
        self.started: list[tuple[str, tuple[str, ...]]] = []
        self.commands: list[str] = []
        self.does: tuple[str | None, Outcome] = ("580.178.04", GOOD)
        self.waiting: tuple[str | None, Outcome] | None = None
        for name, value in {
            "BACKUP_LOG": self.list, "UNINSTALLER": self.uninstaller, "PERSISTENCED": self.unit, "LOADED": self.loaded, "LOG": tmp / "log",
        }.items():  # fmt: skip
            monkeypatch.setattr(_driver_runfile, name, str(value))
        monkeypatch.setattr(_driver_runfile, "_UNIT_FOLDERS", (str(tmp), str(tmp / "lib")))
        monkeypatch.setattr(_driver_runfile, "run_unit", self._run_unit)
        monkeypatch.setattr(_driver_runfile, "has_result", lambda unit: self.waiting is not None)
        monkeypatch.setattr(_driver_runfile, "wait", self._wait)
        monkeypatch.setattr(_driver_runfile, "run", lambda argv, timeout: self.commands.append(" ".join(argv)))
        monkeypatch.setattr(_driver_record, "DRIVER_RECORD", str(tmp / "driver.json"))
        for function in (read_record, update_record):
            defaults = tuple(
                str(tmp / "driver.json") if value == "/var/lib/gpufleet/driver.json" else value for value in function.__defaults__
            )
            monkeypatch.setattr(function, "__defaults__", defaults)
        self.tmp = tmp

    def has(self, version: str | None) -> None:
        self.list.unlink(missing_ok=True)
        if version:
            self.list.write_text(f"1.0-{version.replace('.', '')} ({version})\nNVIDIA Accelerated Graphics Driver\n")

    def _run_unit(self, unit: str, argv: t.Sequence[str], timeout: int, title: str, env: t.Any = None) -> Outcome:
        self.started.append((unit, tuple(argv)))
        assert unit != _driver_runfile.UNIT or read_record()["runfile_pending"] == ENTRY  # known as ours before it begins
        return self._end(self.does)

    def _wait(self, unit: str, timeout: float) -> Outcome:
        assert self.waiting
        found, self.waiting = self.waiting, None
        return self._end(found)

    def _end(self, does: tuple[str | None, Outcome]) -> Outcome:
        self.has(does[0])
        return does[1]

    def install(self) -> None:
        _driver_runfile.install("/x/driver.run", ENTRY, ["--silent"], str(self.tmp / "work"), 60)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_what_is_installed_is_what_the_installers_list_says(host: Host) -> None:
    assert _driver_runfile.installed_version() is None
    host.has("580.178.04")
    assert _driver_runfile.installed_version() == "580.178.04"


def test_a_good_installation_is_recorded(host: Host) -> None:
    host.install()
    assert host.started == [("gpufleet-driver-runfile.service", ("/bin/sh", "/x/driver.run", "--silent"))]
    record = read_record()
    assert (record["runfile"], record["source"]) == (ENTRY, "runfile")
    assert "runfile_pending" not in record


def test_a_build_that_fails_leaves_the_driver_before_it_running(host: Host) -> None:
    host.has("570.133.20")
    host.loaded.touch()
    host.does = ("570.133.20", BAD)
    real = host._end
    host._end = lambda does: (host.loaded.unlink(), real(does))[1]  # type: ignore[method-assign]
    with pytest.raises(RunfileError, match=r"rc 1; driver 570\.133\.20 is installed as before.*no compiler"):
        host.install()
    assert host.commands == ["modprobe nvidia", "modprobe nvidia-uvm"]
    assert "runfile_pending" not in read_record()


def test_one_that_dies_after_the_driver_before_it_went_is_known_to_the_next_run(host: Host) -> None:
    host.has("570.133.20")
    host.does = (None, KILLED)
    with pytest.raises(RunfileError, match=r"ended with signal; driver 570\.133\.20 is gone, and the next run begins anew"):
        host.install()
    assert read_record()["runfile_pending"] == ENTRY
    host.does = ("580.178.04", GOOD)
    host.install()
    assert read_record()["runfile"] == ENTRY


def test_an_installer_that_says_yes_and_installed_something_else_is_no_success(host: Host) -> None:
    host.does = ("570.133.20", GOOD)
    with pytest.raises(RunfileError, match=r"driver 570\.133\.20 is half installed"):
        host.install()


def test_a_later_run_waits_for_the_installer_that_an_earlier_one_started(host: Host) -> None:
    update_record({"runfile_pending": ENTRY})
    host.waiting = ("580.178.04", GOOD)
    host.install()
    assert host.started == []
    assert read_record()["runfile"] == ENTRY


def test_an_installer_of_another_version_is_waited_for_and_then_ours_runs(host: Host) -> None:
    update_record({"runfile_pending": {**ENTRY, "version": "570.133.20"}})
    host.waiting = ("570.133.20", GOOD)
    host.install()
    assert len(host.started) == 1


def test_our_unit_is_written_only_where_there_is_none_and_goes_as_we_wrote_it(host: Host) -> None:
    (host.tmp / "lib").mkdir()
    foreign = host.tmp / "lib/nvidia-persistenced.service"
    foreign.write_text("theirs")
    assert not _driver_runfile.write_persistenced()
    foreign.unlink()
    assert _driver_runfile.write_persistenced()
    assert "ExecStart=/usr/bin/nvidia-persistenced" in host.unit.read_text()
    assert not _driver_runfile.write_persistenced()
    host.unit.write_text("changed by somebody")
    _driver_runfile.uninstall()
    assert host.unit.exists()
    update_record({"runfile_unit": _driver_runfile.sha256(str(host.unit))})
    _driver_runfile.uninstall()
    assert not host.unit.exists()
    assert "systemctl disable --now nvidia-persistenced.service" in host.commands


def test_removal_is_by_the_drivers_own_uninstaller(host: Host) -> None:
    host.has("580.178.04")
    host.uninstaller.touch()
    update_record({"runfile": ENTRY, "source": "runfile"})
    host.does = (None, GOOD)
    assert _driver_runfile.uninstall()
    (unit, argv) = host.started[0]
    assert unit == "gpufleet-driver-runfile-removal.service"
    assert argv[0] == str(host.uninstaller)
    assert {"--silent", "--skip-module-unload"} <= set(argv)
    assert read_record() == {"packages": {}, "holds": []}
    assert not _driver_runfile.uninstall(check=True) or host.uninstaller.exists()


def test_a_removal_that_fails_is_named_and_stays_recorded(host: Host) -> None:
    host.has("580.178.04")
    host.uninstaller.touch()
    update_record({"runfile": ENTRY})
    host.does = ("580.178.04", BAD)
    with pytest.raises(RunfileError, match="nvidia-uninstall ended with rc 1"):
        _driver_runfile.uninstall()
    assert read_record()["runfile"] == ENTRY
    host.uninstaller.unlink()
    with pytest.raises(RunfileError, match="is gone") as caught:
        _driver_runfile.uninstall()
    assert caught.value.reason == "uninstaller_missing"


def test_tools_that_a_build_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_driver_runfile.shutil, "which", lambda name, path: None if name == "dkms" else f"/usr/bin/{name}")
    assert _driver_runfile.missing_tools() == ["dkms"]
