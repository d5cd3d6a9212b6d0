# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Merging, fabric, fingerprint and processes."""

from __future__ import annotations

import copy
import os
import subprocess
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _fabric, _gpu_facts, _gpu_names, _processes

PCI: dict[str, Any] = {"nvlink5": False, "nvswitches": [], "gpus": []}
SWITCHED: dict[str, Any] = {**PCI, "nvswitches": [{"address": "0000:05:00.0"}]}
MANAGER = {"nvidia-fabricmanager.service": {"active": "active"}}
COMPLETED = {"state": "completed", "status": "SUCCESS", "cluster_uuid": None, "clique_id": 0, "health": None}


def _gpu(**parts: Any) -> dict[str, Any]:
    return {**_gpu_facts._EMPTY, "pci_address": "0000:1b:00.0", "state": "ok", **parts}


@pytest.mark.parametrize(
    ("pci", "gpus", "units", "installed", "expected"),
    [
        (PCI, [_gpu()], {}, {}, ("none", True, "no fabric needed")),
        (PCI, [], {}, {}, ("none", None, "no GPU answers")),
        (SWITCHED, [_gpu()], {}, {}, ("nvswitch", False, "this machine has NVSwitches and no fabric manager is installed")),
        (
            SWITCHED,
            [_gpu()],
            {"nvidia-fabricmanager.service": {"active": "failed"}},
            {},
            ("nvswitch", False, "nvidia-fabricmanager.service is failed"),
        ),
        (SWITCHED, [_gpu(fabric=COMPLETED)], MANAGER, {"nvidia-fabricmanager-570": "570.1-1"}, ("nvswitch", True, "")),
        (
            SWITCHED,
            [_gpu(fabric=COMPLETED), _gpu(fabric={**COMPLETED, "state": "in_progress"})],
            MANAGER,
            {},
            ("nvswitch", False, "GPU 0000:1b:00.0: fabric state is in_progress"),
        ),
        (
            {**PCI, "nvlink5": True},
            [_gpu(fabric={**COMPLETED, "status": "UNKNOWN"})],
            MANAGER,
            {},
            ("nvlink5", False, "GPU 0000:1b:00.0: fabric status is UNKNOWN"),
        ),
        (
            SWITCHED,
            [_gpu(fabric={**COMPLETED, "state": "not_supported"}, nvlink={"links": 12, "active": 11})],
            MANAGER,
            {},
            ("nvswitch", False, "GPU 0000:1b:00.0: 11 of 12 NVLinks are up"),
        ),
        (
            PCI,
            [_gpu(fabric={**COMPLETED, "cluster_uuid": "ab"})],
            {"nvidia-imex.service": {"active": "inactive"}},
            {"nvidia-imex": "580.1-1"},
            ("imex", False, "nvidia-imex.service is inactive"),
        ),
        (PCI, [_gpu(fabric={**COMPLETED, "state": "not_started"})], {}, {}, ("none", True, "no fabric needed")),
    ],
)
def test_fabric(pci: Any, gpus: Any, units: Any, installed: Any, expected: tuple[str, bool | None, str]) -> None:
    found = _fabric.fabric_facts(pci, gpus, units, installed)
    assert (found["kind"], found["ready"], found["reason"]) == expected
    assert found["needed"] is (expected[0] != "none")


def test_versions_of_fabric_services() -> None:
    found = _fabric.fabric_facts(SWITCHED, [], {}, {"nvidia-fabricmanager": "580.159.04-1", "nvidia-fabricmanager-devel": "1"})
    assert found["manager"] == {"unit": "nvidia-fabricmanager.service", "installed_version": "580.159.04", "active": "not-found"}


def test_a_nameless_answer_goes_to_a_gpu_that_nobody_spoke_for() -> None:
    pci = [
        {"address": f"0000:0{n}:00.0", "device_id": "2330", "driver": driver, "numa_node": None}
        for n, driver in enumerate(["vfio-pci", "nvidia", "nvidia"])
    ]
    nvml = [{"index": 0, "pci_address": "0000:02:00.0", "state": "ok"}, {"index": 1, "state": "lost", "errors": {"device": "GPU_IS_LOST"}}]
    assert [(gpu["index"], gpu["state"]) for gpu in _gpu_facts.merge_gpus(pci, nvml)] == [(None, "unavailable"), (1, "lost"), (0, "ok")]
    assert [gpu["state"] for gpu in _gpu_facts.merge_gpus(pci, None)] == ["unavailable"] * 3


def test_gpus_without_sysfs() -> None:
    gpus = _gpu_facts.merge_gpus([], [{"index": 0, "pci_address": "0000:02:00.0", "state": "ok", "pci_device_id": "2330"}])
    assert gpus[0]["driver_bound"] is None


def test_fabric_health() -> None:
    assert _gpu_names.fabric_health(0) is None
    assert _gpu_names.fabric_health(0b10101010) == "healthy"
    assert _gpu_names.fabric_health(0b10011001) == ["degraded_bandwidth", "route_unhealthy"]


def test_unknown_numbers_keep_their_number() -> None:
    assert _gpu_names.named({1: "one"}, 7) == "code_7"
    assert _gpu_names.named({1: "one"}, None) is None


def test_fingerprint_changes_with_what_it_says_and_nothing_else(machine: Any) -> None:
    host = machine("h200x2")
    first = host.collect()["fingerprint"]
    for key, value in (
        ("temperature", "71"),
        ("power", "512000"),
        ("graphics_clock", "1980"),
        ("pcie_generation", "1"),
        ("memory_used", "1073741824"),
    ):
        host.simulate("set", key, value)
    assert host.collect()["fingerprint"] == first
    assert host.collect(details=True)["fingerprint"] == first
    host.boot()
    assert host.collect()["fingerprint"] == first

    def changed() -> set[str]:
        now = host.collect()["fingerprint"]["parts"]
        return {name for name in now if now[name] != first["parts"][name]}

    host.simulate("fault", "nvlink_down", "3", "--gpu", "0")
    assert changed() == {"links"}
    host.simulate("fault", "none")
    assert changed() == set()
    host.simulate("set", "pcie_width", "8")
    assert changed() == {"links"}


def test_order_and_uuid_are_separate_parts(machine: Any) -> None:
    from ansible_collections.gpufleet.inference.plugins.module_utils._fingerprint import fingerprint

    info = machine("h200x2").collect()
    gpus = copy.deepcopy(info["gpus"])
    gpus[0]["index"], gpus[1]["index"] = 1, 0
    swapped = fingerprint(gpus, info["driver"])["parts"]
    assert {name for name in swapped if swapped[name] != info["fingerprint"]["parts"][name]} == {"order"}


def test_process_facts(host: Any) -> None:
    container = "d" * 64
    for pid, cgroup in {
        11: "0::/system.slice/vllm-chat.service\n",
        12: f"0::/system.slice/docker-{container}.scope\n",
        13: f"12:pids:/docker/{container}\n",
        14: f"0::/machine.slice/libpod-{container}.scope/container\n",
        15: f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{container}.scope\n",
        16: "0::/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service\n",
        17: "0::/user.slice/user-1000.slice/session-3.scope\n",
        18: "0::/\n",
    }.items():
        host.write(f"proc/{pid}/cgroup", cgroup)
        host.write(f"proc/{pid}/comm", "python3\n")
    host.write("etc/passwd", f"daemon:x:1:1::/:/x\nme:x:{os.geteuid()}:0::/root:/bin/sh\n")
    processes = _processes.Processes(host.reader())
    assert processes.describe(11) == {"name": "python3", "user": "me", "unit": "vllm-chat.service"}
    assert [processes.describe(pid)["unit"] for pid in range(12, 19)] == [*[container] * 4, "vllm.service", "session-3.scope", None]
    assert processes.describe(99) == {"name": None, "user": None, "unit": None}


def test_gpu_processes(machine: Any) -> None:
    host = machine("h200x2")
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        host.simulate("process", "add", "--gpu", "1", "--pid", str(sleeper.pid), "--memory", "1024", "--name", "vllm")
        first, second = host.collect()["gpus"]
        assert first["processes"] == []
        assert second["processes"] == [
            {"pid": sleeper.pid, "used_memory_bytes": 1073741824, "type": "compute", "name": None, "user": None, "unit": None}
        ]
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize(
    "profile",
    ["a100-pcie", "a100-sxm", "b200", "gb200-nvl72", "gh200", "h100-sxm", "l4", "l40s", "mixed", "rtx4060-laptop", "rtx4090", "t4", "v100"],
)
def test_every_simulated_machine_is_ok(machine: Any, profile: str) -> None:
    info = machine(profile).collect(details=True)
    assert (info["state"], info["reason"]) == ("ok", "")
    assert info["counts"]["pci"] == info["counts"]["nvml"] == len(info["gpus"])
    for gpu in info["gpus"]:
        assert gpu["product"]
        assert gpu["architecture"] in _gpu_names.ARCHITECTURES.values()
        assert set(gpu["errors"].values()) <= {"NOT_SUPPORTED", "FUNCTION_NOT_FOUND"}
        assert gpu["memory_bytes"]["total"] > 2**32
    assert info["fabric"]["kind"] == {"a100-sxm": "nvswitch", "h100-sxm": "nvswitch", "b200": "nvlink5"}.get(profile, "none")
