# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reload asks of a host, and how it understands the answers."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _driver_reload_host as reload_host
from ansible_collections.gpufleet.inference.plugins.module_utils._subprocess import Result

SHOW = """\
Id=nvidia-persistenced.service
LoadState=loaded
ActiveState=active
Transient=no
RequiredBy=a.service b.service
RequisiteOf=
BoundBy=c.service
ConsistsOf=

Id=gone.service
LoadState=not-found
ActiveState=inactive
Transient=no

Id=job.service
LoadState=loaded
ActiveState=deactivating
Transient=yes
RequiredBy=
"""
NOT_FOUND = "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.1.0"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Commands that were run; `answers` by their words."""
    out: dict[str, Any] = {"commands": [], "answers": {}}

    def run(argv: list[str], timeout: float) -> Result:
        assert timeout <= 90
        out["commands"].append(" ".join(argv))
        return out["answers"].get(" ".join(argv), Result("ok", 0, "", ""))

    monkeypatch.setattr(reload_host, "run", run)
    return out


def make(host: Any) -> reload_host.Host:
    return reload_host.Host(90, host.reader())


def test_units(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload_host, "run", lambda argv, timeout: Result("ok", 0, SHOW, ""))
    assert make(host).units(["nvidia-persistenced.service", "gone.service", "job.service"]) == {
        "nvidia-persistenced.service": {"active": True, "transient": False, "along": ["a.service", "b.service", "c.service"]},
        "job.service": {"active": False, "transient": True, "along": []},
    }


def test_debians_file_names(host: Any, asked: dict[str, Any]) -> None:
    asked["answers"]["modprobe nvidia_uvm"] = Result("ok", 1, "", NOT_FOUND)
    assert make(host).load("nvidia_uvm") == ""
    assert asked["commands"] == ["modprobe nvidia_uvm", "modprobe nvidia-current-uvm"]
    asked["answers"]["modprobe nvidia-current-uvm"] = Result("ok", 1, "", NOT_FOUND)
    assert make(host).load("nvidia_uvm") == ""
    assert asked["commands"][-1] == "modprobe nvidia-current-open-uvm"


def test_why_a_load_failed_is_what_the_first_one_said(host: Any, asked: dict[str, Any]) -> None:
    for words in ("modprobe nvidia", "modprobe nvidia-current", "modprobe nvidia-current-open"):
        asked["answers"][words] = Result("ok", 1, "", NOT_FOUND + ("" if words == "modprobe nvidia" else " (other)"))
    assert make(host).load("nvidia") == NOT_FOUND
    asked["answers"]["modprobe nvidia"] = Result("ok", 1, "", "modprobe: ERROR: could not insert 'nvidia': No such device\n")
    assert make(host).load("nvidia") == "modprobe: ERROR: could not insert 'nvidia': No such device"


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (Result("timeout", -9, "", ""), "no answer in time"),
        (Result("hung", -9, "", ""), "hangs and cannot be killed"),
        (Result("ok", 3, "", ""), "exit status 3"),
        (Result("missing", 127, "", "rmmod: No such file or directory"), "rmmod: No such file or directory"),
    ],
)
def test_every_failure_has_words(host: Any, asked: dict[str, Any], result: Result, why: str) -> None:
    asked["answers"]["rmmod nvidia"] = result
    assert make(host).unload("nvidia") == why


def test_start_is_not_refused_for_earlier_failures(host: Any, asked: dict[str, Any]) -> None:
    make(host).start("a.service")
    assert asked["commands"] == ["systemctl reset-failed a.service", "systemctl start a.service"]


def test_device_files_of_all_gpus(host: Any, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for number, address in enumerate(("0000:06:00.0", "0000:07:00.0")):
        host.write(f"proc/driver/nvidia/gpus/{address}/information", f"Model: \t\t H200\nDevice Minor: \t {number}\nGPU Excluded:\t No\n")
    monkeypatch.setattr(reload_host.os, "access", lambda path, mode: path == "/usr/bin/nvidia-modprobe")
    assert make(host).device_files() == ""
    assert asked["commands"] == ["/usr/bin/nvidia-modprobe -c 255 -c 0 -c 1 -u"]
    monkeypatch.setattr(reload_host.os, "access", lambda path, mode: False)
    assert make(host).device_files() == ""
    assert len(asked["commands"]) == 1


def test_note_of_another_boot_is_no_note(host: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(reload_host, "DRIVER_RELOAD", str(tmp_path / "driver_reload.json"))
    here = make(host)
    assert here.record() == {}
    here.write_record({"phase": "pending", "units": ["a.service"], "modules": [], "reason": ""})
    assert here.record()["units"] == ["a.service"]
    monkeypatch.setattr(reload_host, "boot_id", lambda: "another")
    assert here.record() == {}
    here.remove_record()
    assert not (tmp_path / "driver_reload.json").exists()
