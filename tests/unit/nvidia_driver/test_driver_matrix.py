# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner with the collection's own matrix: package names per system, and the gate over the planned stack."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from driver_hosts import B200, H100, V100, blocking, facts, with_driver

from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Context, Plan
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix import judge
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._plan_driver import plan
from ansible_collections.gpufleet.inference.plugins.plugin_utils._products import complete

CONTEXT = Context(today=datetime.date(2026, 11, 30))
UBUNTU = {"host": {"os": {"id": "ubuntu", "version_id": "24.04", "pretty_name": "Ubuntu 24.04"}}}
BOARD = {"fabric": {"kind": "nvswitch", "needed": True}}
NAMES: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({}, {"branch": 580}, ["nvidia-driver-cuda", "nvidia-kernel-open-dkms"]),
    ({}, {"branch": 580, "kernel_modules": "proprietary"}, ["nvidia-driver-cuda", "nvidia-kernel-dkms"]),
    ({}, {"branch": 595}, ["nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-driver-pinning-595"]),
    ({}, {"branch": 580, "compute_only": False}, ["nvidia-open"]),
    (BOARD, {"branch": 570}, ["nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-fabricmanager-570", "libnvidia-nscq-570"]),
    ({}, {"source": "distribution", "install_kernel_modules": False}, ["nvidia-smi", "libnvidia-ml1", "libnvidia-cfg1", "libcuda1"]),
    (UBUNTU, {"branch": 580}, ["nvidia-open-580", "nvidia-driver-pinning-580"]),
    (UBUNTU, {"branch": 595}, ["libnvidia-compute", "nvidia-dkms-open", "nvidia-driver-pinning-595"]),
]


def planned(host: dict[str, Any], **desired: Any) -> Plan:
    return plan(desired, host, load_matrix(), CONTEXT)


@pytest.mark.parametrize(("change", "desired", "names"), NAMES)
def test_names(change: dict[str, Any], desired: dict[str, Any], names: list[str]) -> None:
    assert planned(facts(change), **desired).details["packages"]["names"] == names


@pytest.mark.parametrize(
    ("os", "finding"),
    [
        ({"id": "rocky", "version_id": "8.10"}, "driver.os_unsupported"),
        ({"id": "sles", "version_id": "15.7"}, "driver.os_unsupported"),
        ({"id": "linuxmint", "version_id": "22"}, "driver.os_unsupported"),
    ],
)
def test_other_systems_are_refused(os: dict[str, str], finding: str) -> None:
    plan = planned(facts({"host": {"os": {**os, "pretty_name": f"{os['id']} {os['version_id']}"}}}), branch=580)
    assert blocking(plan) == [finding]
    assert not plan.changes


def test_user_space_alone_is_refused_where_the_matrix_has_no_such_set() -> None:
    assert blocking(planned(facts(UBUNTU), branch=580, install_kernel_modules=False)) == ["driver.no_user_space_set"]


@pytest.mark.parametrize(
    ("device", "desired", "kind"), [(V100, {"branch": 580}, "proprietary"), (B200, {"branch": 580}, "open"), (V100, {}, "proprietary")]
)
def test_kind_of_modules_follows_the_gpu(device: str, desired: dict[str, Any], kind: str) -> None:
    plan = planned(facts({"pci": {"gpus": [{"address": "0000:1b:00.0", "device_id": device}]}}), **desired)
    assert plan.details["stack"]["driver"]["kernel_modules"] == kind
    assert plan.details["stack"]["driver"]["branch"] == 580 or not desired


def test_modules_signed_by_the_distribution_need_no_key_and_no_headers() -> None:
    secured = {"host": {"secure_boot": {"state": "enabled", "mok_enrolled": False}, "kernel": {"headers": []}}}
    plan = planned(facts(UBUNTU, secured), source="distribution", branch=580)
    assert blocking(plan) == []
    assert plan.details["packages"]["optional"] == []


def gate(device: str, *changes: dict[str, Any], **desired: Any) -> list[str]:
    """Ids of what blocks: planner and matrix together, as stack_check does."""
    gpu = {"pci_address": "0000:1b:00.0", "pci_device_id": device, "product": None, "architecture": None, "compute_capability": None}
    host = complete(facts(*changes, {"pci": {"gpus": [{"address": "0000:1b:00.0", "device_id": device}]}, "gpus": [gpu]}), load_matrix())
    plan = planned(host, **desired)
    findings = judge(load_matrix(), host, plan.details.get("stack") or {}, CONTEXT, plan.findings)
    return sorted(finding.id for finding in findings if finding.severity == "block" and finding.component in ("gpu", "driver", "fabric"))


def test_gate_sees_the_planned_driver() -> None:
    assert gate(V100, branch=595) == ["driver.branch_too_new"]
    assert gate(B200, branch=550, kernel_modules="open") == ["driver.advisory", "driver.branch_ended", "driver.branch_too_old"]
    assert gate(H100, branch=999) == ["driver.branch_unknown"]
    assert gate(H100, branch=580) == []


def test_driver_that_is_there_already_is_no_reason_to_stop() -> None:
    """580.105.08 has open advisories: asked for they block, found they warn, or every new bulletin would stop a fleet."""
    assert gate(H100, version="580.105.08") == ["driver.advisory"]
    assert gate(H100, with_driver("580.105.08"), version="580.105.08") == []


def test_what_does_not_work_with_a_driver_is_no_reason_to_keep_it() -> None:
    """Its packages are gone, its modules loaded until the reboot: without a fabric manager the rest of the removal was refused for good."""
    removed = {"driver": {"installed": None, "loaded": {"version": "580.178.04"}}, "fabric": {"needed": True, "kind": "nvswitch"}}
    assert gate(H100, with_driver("580.178.04"), removed, state="absent", reboot="delegate") == []
    stopped = {"fabric": {**removed["fabric"], "manager": {"unit": "nvidia-fabricmanager.service", "installed_version": "570.1.1"}}}
    assert gate(H100, with_driver("580.178.04"), stopped, state="absent", reboot="delegate") == []


def conf(**asked: Any) -> str | None:
    files = {entry["path"]: entry["content"] for entry in planned(facts(), **asked).details["files"]}
    return files.get("/etc/modprobe.d/gpufleet-nvidia.conf")


@pytest.mark.parametrize(("kind", "own"), [("proprietary", "nvidia-current"), ("open", "nvidia-current-open")])
def test_debians_own_modules_are_found_by_the_usual_names(kind: str, own: str) -> None:
    assert f"alias nvidia {own}\nalias nvidia-uvm {own}-uvm\n" in (conf(source="distribution", kernel_modules=kind) or "")
    assert conf(branch=580, kernel_modules=kind) is None


def test_parameters_go_by_the_name_that_udev_and_dependencies_load() -> None:
    """modprobe takes `options nvidia` for what it was asked for as nvidia, not for nvidia-current by its PCI alias."""
    given = {"nvidia": {"NVreg_EnableGpuFirmware": 0}, "nvidia_uvm": {"uvm_disable_hmm": True}}
    own = conf(source="distribution", kernel_modules="open", module_parameters=given) or ""
    assert "options nvidia-current-open NVreg_EnableGpuFirmware=0\n" in own
    assert "options nvidia-current-open-uvm uvm_disable_hmm=1\n" in own
    usual = conf(branch=580, module_parameters=given) or ""
    assert "options nvidia NVreg_EnableGpuFirmware=0\n" in usual
    assert "options nvidia_uvm uvm_disable_hmm=1\n" in usual


def test_ubuntus_compute_only_set_brings_its_tools_where_they_are_on_offer() -> None:
    request = planned(facts(UBUNTU), branch=595).details["packages"]
    assert {"nvidia-utils", "nvidia-compute-utils", "nvidia-persistenced"} <= set(request["offered"])
    assert planned(facts(), branch=595).details["packages"]["offered"] == []


@pytest.mark.parametrize(("version", "key"), [("12", "3bf863cc.pub"), ("13", "8793F200.pub")])
def test_key_of_nvidias_repository_is_known_by_system(version: str, key: str) -> None:
    request = planned(facts({"host": {"os": {"id": "debian", "version_id": version}}}), branch=580).details["packages"]
    assert request["repository_key_url"].endswith(f"/{key}")
    assert request["repository_key_fingerprint"].endswith(key[:8].upper())


def test_a_driver_under_which_a_toolkit_of_the_host_stops_working_is_refused() -> None:
    toolkit = {"cuda": {"toolkits": [{"version": "13.0.2", "path": "/usr/local/cuda-13.0"}], "compat": []}}
    runs = with_driver("580.178.04")
    finding = next(f for f in planned(facts(runs, toolkit), branch=570, allow_downgrade=True).findings if f.id == "driver.breaks_cuda")
    assert (finding.severity, finding.subject, finding.nearest) == ("block", "13.0.2", "580.65.06")
    assert "under 580.178.04 they do" in finding.message
    # Where they do not run now either, or a compat library carries them, it is no obstacle.
    for host in (
        facts(toolkit),
        facts(runs, toolkit, {"cuda": {"compat": [{"version": "580.95.05", "path": "/usr/local/cuda-13.0/compat"}]}}),
    ):
        plan = planned(host, branch=570, allow_downgrade=True)
        assert [f.severity for f in plan.findings if f.id == "driver.breaks_cuda"] == ["warn"]
    assert not [f for f in planned(facts(runs, toolkit), branch=595).findings if f.id == "driver.breaks_cuda"]
