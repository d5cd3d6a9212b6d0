# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Systems by the collection's own rows: refused with a reason before anything is planned; arm64 servers by their names and folders."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from driver_hosts import blocking, facts, found

from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Context, Plan
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._plan_driver import plan

CONTEXT = Context(today=datetime.date(2026, 11, 30))
SOURCES: list[dict[str, Any]] = [
    {"branch": 580},
    {"branch": 580, "source": "distribution"},
    {"version": "580.178.04", "source": "runfile", "runfile_sha256": "ab" * 32},
]


def planned(ident: str, release: str, arch: str = "x86_64", **desired: Any) -> Plan:
    family = {"debian": "debian", "ubuntu": "debian"}.get(ident, "redhat")
    os = {"id": ident, "version_id": release, "family": family, "pretty_name": f"{ident} {release}"}
    kernel = {"release": "6", "headers": ["6"]}
    return plan(desired, facts({"host": {"os": os, "machine_arch": arch, "kernel": kernel}}), load_matrix(), CONTEXT)


@pytest.mark.parametrize("desired", SOURCES, ids=["nvidia", "distribution", "runfile"])
@pytest.mark.parametrize(
    ("ident", "version", "reason", "nearest"),
    [
        ("rocky", "8.10", "EL 8's own Python is 3.6", "RHEL, Rocky, AlmaLinux, Oracle Linux 9"),
        ("centos", "7", "NVIDIA dropped the rhel7 repository", "RHEL, Rocky, AlmaLinux, Oracle Linux 9"),
        ("sles", "15.6", "SUSE by facts and gate only", "RHEL, Rocky, AlmaLinux, Oracle Linux 9"),
        ("opensuse-leap", "16.0", "SUSE by facts and gate only", "RHEL, Rocky, AlmaLinux, Oracle Linux 9"),
        ("fedora", "44", "Fedora is no system for servers", "RHEL, Rocky, AlmaLinux, Oracle Linux 10"),
        ("fedora", "41", "no row for fedora 41", "RHEL, Rocky, AlmaLinux, Oracle Linux 10"),
        ("azurelinux", "3.0", "never been tried", "RHEL, Rocky, AlmaLinux, Oracle Linux 9"),
        ("arch", "rolling", "no row for arch rolling", None),
        ("debian", "11", "no row for debian 11", "Debian 12"),
        ("ubuntu", "20.04", "no row for ubuntu 20.04", "Ubuntu 22.04"),
        ("linuxmint", "22", "no row for linuxmint 22", None),
    ],
)
def test_a_system_that_is_not_supported_is_refused_before_the_first_change(
    ident: str, version: str, reason: str, nearest: str | None, desired: dict[str, Any]
) -> None:
    plan = planned(ident, version, **desired)
    finding = found(plan, "os_unsupported")
    assert blocking(plan) == ["driver.os_unsupported"]
    assert (plan.changes, plan.details) == ([], {})
    assert reason in finding.message
    assert finding.nearest == nearest
    assert "leave this role out" in finding.fix
    assert nearest is None or nearest in finding.fix


@pytest.mark.parametrize("family", ["debian", "ubuntu"])
def test_machines_that_the_repository_has_no_packages_for(family: str) -> None:
    version = {"debian": "12", "ubuntu": "24.04"}[family]
    assert "only x86_64" in found(planned("debian", "12", "aarch64", branch=580), "os_unsupported").message
    assert blocking(planned(family, version, "ppc64le", branch=580)) == ["driver.os_unsupported"]


@pytest.mark.parametrize(
    ("version", "branch", "folder", "names"),
    [
        ("22.04", 570, "ubuntu2204/sbsa", ["nvidia-open-570"]),
        ("24.04", 580, "ubuntu2404/sbsa", ["nvidia-open-580", "nvidia-driver-pinning-580"]),
    ],
)
def test_arm_servers_use_the_sbsa_folder(version: str, branch: int, folder: str, names: list[str]) -> None:
    request = planned("ubuntu", version, "aarch64", branch=branch).details["packages"]
    assert request["repository_url"] == f"https://developer.download.nvidia.com/compute/cuda/repos/{folder}/"
    assert request["names"] == names


@pytest.mark.parametrize(
    ("ident", "version", "folder"),
    [("rocky", "9.6", "rhel9/sbsa"), ("almalinux", "10.1", "rhel10/sbsa"), ("amzn", "2023", "amzn2023/sbsa")],
)
def test_rows_of_arm_systems_with_dnf(ident: str, version: str, folder: str) -> None:
    matrix = load_matrix()
    os = matrix.os({"id": ident, "version_id": version}, "aarch64")
    assert (os.supported, os.repository_path) == (True, folder)
    packages = matrix.driver_packages(os, 580, "open", ["compute_only", "nvlink5"])
    assert packages.install[:2] == ("nvidia-driver-cuda", "kmod-nvidia-open-dkms")
    assert "libnvsdm" not in packages.install  # not built for sbsa
    assert "nvlsm" in packages.install


def test_a_distribution_offers_its_one_driver_and_no_other() -> None:
    finding = found(planned("debian", "12", branch=550, source="distribution"), "no_packages")
    assert "it has branch 535" in finding.message
    assert planned("debian", "13", branch=550, source="distribution").details["packages"]["version"] == ""
