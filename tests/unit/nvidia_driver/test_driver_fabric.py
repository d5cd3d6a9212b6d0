# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric is waited for; IMEX gets all nodes of its domain, and no strangers."""

from __future__ import annotations

from typing import Any

import pytest
from driver_hosts import NAMES, UNIT, blocking, facts, found, ids, planned, with_driver

MANAGER, IMEX = "nvidia-fabricmanager.service", "nvidia-imex.service"


def gpu(index: int, state: str = "completed", status: str | None = "SUCCESS", cluster: str | None = None) -> dict[str, Any]:
    fabric = {"state": state, "status": status, "cluster_uuid": cluster}
    return {"index": index, "pci_address": f"0000:0{index}:00.0", "fabric": fabric, "nvlink": {"links": 18, "active": 18}}


def switches(*gpus: dict[str, Any], ready: bool | None = True) -> dict[str, Any]:
    manager = {"unit": MANAGER, "installed_version": "580.159.04", "active": "active"}
    fabric = {"kind": "nvswitch", "needed": True, "manager": manager, "ready": ready, "reason": ""}
    return {"fabric": fabric, "units": {MANAGER: UNIT}, "gpus": list(gpus)}


def host(*over: dict[str, Any]) -> dict[str, Any]:
    more = "nvidia-imex-580" if over[0]["fabric"]["kind"] == "imex" else "nvidia-fabricmanager-580"
    return facts(with_driver("580.159.04", names=(*NAMES, more)), *over)


def test_ready_fabric_is_nothing_to_do() -> None:
    plan = planned(host(switches(gpu(0), gpu(1))))
    assert (ids(plan), plan.findings) == ([], [])


def test_gpus_that_are_not_there_yet_are_waited_for_and_named() -> None:
    slow = switches(gpu(0), gpu(1, "in_progress", None), gpu(2, "completed", "ERROR_UNKNOWN"), ready=False)
    plan = planned(host(slow), fabric_timeout=77)
    assert (ids(plan), plan.details["fabric"]) == (["driver.fabric"], {"timeout": 77})
    text = found(plan, "fabric_not_ready").message
    assert "GPU 1 (0000:01:00.0): fabric state in_progress; GPU 2 (0000:02:00.0): fabric status ERROR_UNKNOWN" in text


def test_links_count_where_there_is_no_fabric_state() -> None:
    old = {**gpu(0, "not_supported", None), "nvlink": {"links": 12, "active": 10}}
    assert "10 of 12 NVLinks up" in found(planned(host(switches(old, ready=False))), "fabric_not_ready").message


def test_nothing_waits_before_a_reboot() -> None:
    stale = {"driver": {"loaded": {"version": "570.133.20"}}}
    plan = planned(host(switches(gpu(0, "in_progress", None), ready=False), stale), reboot="delegate")
    assert "fabric" not in plan.details


def rack(member: str = "t1", **over: Any) -> dict[str, Any]:
    group = {
        "group": "rack",
        "member": member,
        "hosts": ["t1", "t2", "t3"],
        "addresses": ["10.0.0.1", "", ""],
        "fallbacks": ["", "10.0.0.2", ""],
        "gpus": [[], [], []],
    }
    return {**group, "hosts": ["t1", "t2"], **over}


NODES = ["10.0.0.1", "10.0.0.2"]


def tray(**over: Any) -> dict[str, Any]:
    imex = {"unit": IMEX, "installed_version": "580.159.04", "active": "active", "nodes": NODES, "stale": False, **over}
    return {"fabric": {"kind": "imex", "needed": True, "imex": imex, "ready": True}, "units": {IMEX: UNIT}, "gpus": [gpu(0, cluster="c1")]}


def test_nodes_of_the_whole_domain() -> None:
    plan = planned(host(tray(nodes=[], active="inactive"), {"units": {IMEX: {**UNIT, "active": "inactive"}}}), imex=rack())
    assert plan.details["imex"]["content"].splitlines()[1:] == NODES
    assert ids(plan) == ["driver.imex", "driver.imex_nodes"]


def test_each_member_writes_the_same() -> None:
    contents = {planned(host(tray(nodes=[])), imex=rack(member)).details["imex"]["content"] for member in ("t1", "t2")}
    assert len(contents) == 1


@pytest.mark.parametrize("addresses", [["10.0.0.9", "10.0.0.10"], ["10.0.0.10", "10.0.0.9"]])
def test_a_group_in_another_order_is_no_change(addresses: list[str]) -> None:
    """group_by and add_host fill a group in the order in which hosts answer."""
    plan = planned(host(tray(nodes=["10.0.0.9", "10.0.0.10"])), imex={**rack(), "addresses": addresses})
    assert ids(plan) == []


def test_nodes_as_they_should_be_are_nothing_to_do() -> None:
    plan = planned(host(tray()), imex=rack())
    assert (ids(plan), plan.findings) == ([], [])


@pytest.mark.parametrize(
    ("over", "expected"),
    [({"stale": True}, ["driver.imex_restart"]), ({"nodes": ["10.0.0.1"]}, ["driver.imex_nodes", "driver.imex_restart"])],
)
def test_restart_by_evidence(over: dict[str, Any], expected: list[str]) -> None:
    plan = planned(host(tray(**over)), imex=rack())
    assert (ids(plan), plan.details["imex_restart"], plan.disruption) == (expected, IMEX, "gpu_reload")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (rack("t9"), "a group that t9 belongs to"),
        (rack(hosts=[]), "an inventory group that has hosts"),
        (rack(hosts=["t1", "tray-2"], fallbacks=["", ""]), "an IP address of tray-2; IMEX takes no names"),
        (rack(fallbacks=["", "10.0.0.1"]), "another address for each host of the group"),
        (rack(gpus=[[], [gpu(0, cluster="c2")]]), "hosts of one NVLink domain; t2 is in c2, t1 in c1"),
    ],
)
def test_group_that_cannot_be_a_domain(given: dict[str, Any], text: str) -> None:
    plan = planned(host(tray(nodes=[])), imex=given)
    assert blocking(plan) == ["driver.bad_input"]
    assert text in plan.findings[0].needed
    assert "imex" not in plan.details


def test_group_brings_imex_before_there_is_a_driver() -> None:
    assert "nvidia-imex" in str(planned(facts(), branch=580, imex=rack()).details["packages"]["names"])


def test_tray_of_no_group() -> None:
    assert found(planned(host(tray())), "imex_nodes_unknown").severity == "warn"


def test_no_imex_beside_switches() -> None:
    plan = planned(host(switches(gpu(0))), imex=rack())
    assert blocking(plan) == ["driver.bad_input"]
