"""What is true of a host after the role: on its GPUs, in its files, of its units."""

from __future__ import annotations

import json
from typing import Any

LIMITS = {"NVIDIA H200": 490, "NVIDIA L40S": 280, "NVIDIA GeForce RTX 4090": 405}
UNIT = "gpufleet-gpu-settings.service"


def gpus(host: Any, *fields: str) -> list[list[str]]:
    out = host.check_output(f"nvidia-smi --query-gpu=name,{','.join(fields)} --format=csv,noheader,nounits")
    return [line.split(", ") for line in out.splitlines()]


def test_every_gpu_has_its_limit(host: Any) -> None:
    found = gpus(host, "power.limit")
    assert len(found) >= 2
    assert [(name, float(limit)) for name, limit in found] == [(name, LIMITS[name]) for name, _limit in found]


def test_persistence_is_on_everywhere(host: Any) -> None:
    assert {mode for _name, mode in gpus(host, "persistence_mode")} == {"Enabled"}


def test_compute_mode_only_where_asked(host: Any) -> None:
    for name, mode in gpus(host, "compute_mode"):
        assert mode == ("Exclusive_Process" if name == "NVIDIA L40S" else "Default")


def test_boot_unit_is_enabled_and_ran(host: Any) -> None:
    unit = host.service(UNIT)
    assert unit.is_enabled
    assert unit.is_running
    assert host.check_output(f"systemctl show -p NeedDaemonReload --value {UNIT}") == "no"


def test_boot_unit_is_ordered_right(host: Any) -> None:
    after = host.check_output(f"systemctl show -p After --value {UNIT}").split()
    assert "nvidia-persistenced.service" in after
    assert "multi-user.target" not in after
    with host.sudo():
        verdict = host.run(f"systemd-analyze verify /etc/systemd/system/{UNIT}")
    assert verdict.rc == 0
    # It also speaks of the units that ours wants: those are not ours to judge.
    assert [line for line in verdict.stderr.splitlines() if "gpufleet" in line or "cycle" in line] == []


def test_configuration_says_what_was_asked(host: Any) -> None:
    file = host.file("/etc/gpufleet/gpu_settings.json")
    assert (file.user, file.mode) == ("root", 0o644)
    rules = json.loads(file.content_string)["rules"]
    assert {"select": "product:H200", "power_limit": "70%"} in rules


def test_clock_record_is_there(host: Any) -> None:
    if host.check_output("hostname") != "h1":
        return
    record = json.loads(host.file("/run/gpufleet/gpu_clocks.json").content_string)
    assert list(record["gpus"].values()) == [{"gpu_clocks": "345,1500"}] * 2


def test_second_run_asked_for_nothing(action_log: Any) -> None:
    assert action_log() == []


def test_second_run_cost_one_module(action_log: Any) -> None:
    ran = [action.words for action in action_log("module")]
    assert len([words for words in ran if words == "gpu_info"]) <= 1
    assert "gpu_settings" not in ran
