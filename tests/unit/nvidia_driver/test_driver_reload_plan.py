# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decision nothing, reload or reboot: by evidence, by what was asked for, and by who is in the way."""

from __future__ import annotations

from typing import Any

import pytest
from driver_hosts import UNIT, blocking, facts, found, ids, planned, with_driver

MODULES = [{"name": name, "refcount": 0, "holders": []} for name in ("nvidia_uvm", "nvidia")]
FREE = {"processes": [], "modules": MODULES, "console": []}
STALE = with_driver("580.159.04", loaded="570.133.20")


def held(**over: Any) -> dict[str, Any]:
    return {"driver": {"holders": {**FREE, **over}}}


def process(unit: str | None, **over: Any) -> dict[str, Any]:
    return {"pid": 4711, "name": "python3", "user": "ml", "unit": unit, "container": None, "devices": ["/dev/nvidia0"], **over}


def test_reload_where_it_was_asked_for_and_nobody_is_in_the_way() -> None:
    plan = planned(facts(STALE, held()), live_reload=True)
    assert (plan.decision, plan.disruption, ids(plan)) == ("reload", "gpu_reload", ["driver.reload"])
    assert plan.details["reload"] == {"version": "580.159.04", "force": False, "load": ["nvidia-uvm"], "units": []}
    assert "reboot" not in plan.details


def test_not_asked_for_is_a_reboot_that_names_the_other_way() -> None:
    plan = planned(facts(STALE, held()))
    assert plan.decision == "reboot"
    assert "nvidia_driver_live_reload: true" in found(plan, "reboot_required").fix


def test_holders_are_named_also_where_nobody_asked_for_a_reload() -> None:
    plan = planned(facts(STALE, held(processes=[process("slurmd.service")])))
    finding = found(plan, "reboot_required")
    assert "used by pid 4711 (python3, user ml, slurmd.service)" in finding.found
    assert "live_reload" not in finding.fix


def test_packages_that_move_end_with_the_reload() -> None:
    host = facts(with_driver("580.105.08"), held())
    plan = planned(host, live_reload=True, version="580.159.04")
    assert (plan.decision, plan.disruption) == ("reload", "gpu_reload")
    assert planned(host, version="580.159.04").disruption == "reboot"


@pytest.mark.parametrize(
    "unit", ["nvidia-persistenced.service", "nvidia-dcgm.service", "dcgm-exporter.service", "gpufleet-power-governor.service"]
)
def test_units_that_are_ours_to_stop(unit: str) -> None:
    assert planned(facts(STALE, held(processes=[process(unit)])), live_reload=True).decision == "reload"


@pytest.mark.parametrize("named", ["vllm", "vllm.service"])
def test_units_of_the_site_only_if_named(named: str) -> None:
    host = facts(STALE, held(processes=[process("vllm.service")]))
    assert planned(host, live_reload=True).decision == "reboot"
    plan = planned(host, live_reload=True, live_reload_units=[named])
    assert (plan.decision, plan.details["reload"]["units"]) == ("reload", [named])


@pytest.mark.parametrize(
    ("over", "name"),
    [
        (held(processes=[process(None)]), "pid 4711 (python3, user ml)"),
        (held(processes=[process("docker-ab.scope", container={"id": "ab" * 32, "name": "chat"})]), "container chat"),
        (held(processes=[process("docker-ab.scope", container={"id": "ab" * 32, "name": None})]), "container abababababab"),
        (held(processes=[{**process(None), "name": None, "user": None}]), "pid 4711 (in another pid namespace)"),
        (held(modules=[{"name": "third_party", "refcount": 0, "holders": []}, *MODULES]), "kernel module third_party"),
        (held(console=["fb0"]), "the console on fb0"),
        ({}, "could not be read"),
        ({**held(), "fabric": {"kind": "imex"}}, "rack's NVLink domain"),
        ({**held(), "fabric": {"kind": "nvlink5"}, "units": {"nvidia-fabricmanager.service": UNIT}}, "NVSwitches"),
        (
            {**held(), "state_files": {"driver_reload": {"boot_id": "boot-1", "phase": "failed", "reason": "nvidia is in use"}}},
            "failed already in this boot: nvidia is in use",
        ),
        ({**held(), "state": "hung"}, "does not answer"),
    ],
)
def test_what_is_in_the_way_is_named_and_the_reboot_policy_decides(over: dict[str, Any], name: str) -> None:
    plan = planned(facts(STALE, over), live_reload=True)
    assert plan.decision == "reboot"
    assert name in found(plan, "reload_not_possible").message
    assert name in found(plan, "reboot_required").found
    assert "reload" not in plan.details


def test_failure_of_an_earlier_boot_says_nothing() -> None:
    host = facts(STALE, held(), {"state_files": {"driver_reload": {"boot_id": "boot-0", "phase": "failed", "reason": "x", "units": ["a"]}}})
    assert planned(host, live_reload=True).decision == "reload"


def test_no_reload_helps_against_nouveau() -> None:
    plan = planned(facts(STALE, held(), {"driver": {"nouveau": {"loaded": True}}}), live_reload=True)
    assert (plan.decision, [f.id for f in plan.findings if "reload" in f.id]) == ("reboot", [])


@pytest.mark.parametrize("kind", ["parameters", "kind"])
def test_same_version_is_reloaded_by_force(kind: str) -> None:
    loaded = {"parameters": {"NVreg_A": "0"}} if kind == "parameters" else {"kernel_modules": "proprietary"}
    wish = {"module_parameters": {"nvidia": {"NVreg_A": 1}}} if kind == "parameters" else {}
    plan = planned(facts(with_driver("580.159.04"), held(), {"driver": {"loaded": loaded}}), live_reload=True, **wish)
    assert (plan.decision, plan.details["reload"]["force"]) == ("reload", True)


def test_interrupted_reload_is_finished_whatever_is_asked_for() -> None:
    pending = {"state_files": {"driver_reload": {"boot_id": "boot-1", "phase": "pending", "units": ["nvidia-dcgm.service"], "modules": []}}}
    plan = planned(facts(with_driver("580.159.04"), held(), pending))
    assert (plan.decision, ids(plan), plan.disruption) == ("converge", ["driver.reload_interrupted"], "none")
    assert plan.details["reload"]["version"] == "580.159.04"


def test_bad_input() -> None:
    plan = planned(facts(), live_reload="yes", live_reload_units="vllm", fabric_timeout=0)
    assert blocking(plan) == ["driver.bad_input"] * 3
    assert [finding.subject for finding in plan.findings] == [
        "nvidia_driver_live_reload",
        "nvidia_driver_live_reload_units",
        "nvidia_driver_fabric_timeout",
    ]


def test_persistence_mode_without_the_daemon_is_told_and_left() -> None:
    off = {"units": {"nvidia-persistenced.service": {**UNIT, "active": "inactive", "enabled": "disabled"}}}
    host = facts(with_driver("580.159.04"), off, {"gpus": [{"index": 0, "persistence": True, "processes": []}]})
    plan = planned(host, persistenced=False)
    assert (ids(plan), found(plan, "persistence_left").severity) == ([], "warn")
    by_power = {"state_files": {"gpu_settings": {"rules": [{"settings": {"persistence": True}}]}}}
    assert planned(facts(host, by_power), persistenced=False).findings == []
    assert planned(facts(host, {"gpus": [{"index": 0, "persistence": False}]}), persistenced=False).findings == []


def test_switches_count_also_where_somebody_else_runs_the_fabric_manager() -> None:
    plan = planned(facts(STALE, held(), {"fabric": {"kind": "nvswitch"}}), live_reload=True, fabric_manager="absent")
    assert (plan.decision, found(plan, "reload_not_possible").severity) == ("reboot", "warn")
