# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts and a matrix for the planner's tests: one virgin host, and small changes of it."""

from __future__ import annotations

import copy
import datetime
import typing as t

from ansible_collections.gpufleet.inference.plugins.module_utils._apt_files import AUTOMATIC, automatic_text
from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Context, Finding, Plan
from ansible_collections.gpufleet.inference.plugins.plugin_utils._facts import merge
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_types import DriverChoice, DriverPackages, OsSupport
from ansible_collections.gpufleet.inference.plugins.plugin_utils._plan_driver import plan
from ansible_collections.gpufleet.inference.plugins.plugin_utils._plan_driver_modules import HEAD, digest

H100, V100, B200 = "2330", "1db1", "2901"
OPEN_MODULES = {H100: ("h100_sxm", "supported"), V100: ("v100", "unsupported"), B200: ("b200", "required")}

VIRGIN: dict[str, t.Any] = {
    "state": "no_driver",
    "host": {
        "boot_id": "boot-1",
        "machine_arch": "x86_64",
        "os": {"id": "debian", "version_id": "12", "family": "debian", "id_like": [], "codename": "bookworm", "pretty_name": "Debian 12"},
        "kernel": {
            "release": "6.1.0-57-amd64",
            "next_boot": None,
            "headers": ["6.1.0-57-amd64"],
            "installed": [],
            "cmdline": "",
            "tainted": 0,
        },
        "secure_boot": {"state": "disabled", "lockdown": None, "mok_enrolled": None},
        "virtualization": {"container": None, "hypervisor": None},
        "root": True,
    },
    "pci": {"gpus": [{"address": "0000:1b:00.0", "device_id": H100, "driver": None}], "nvswitches": [], "nvlink5": False},
    "driver": {
        "installed": None,
        "loaded": None,
        "library": None,
        "nouveau": {"loaded": False, "bound": [], "blacklisted": False},
        "device_nodes": [],
        "modprobe_conf": {},
        "repository": None,
    },
    "gpus": [{"pci_address": "0000:1b:00.0", "product": "NVIDIA H100 80GB HBM3", "processes": []}],
    "nvml": {"pynvml": {"version": "13.615.71", "path": "/opt/gpufleet/python/pynvml.py"}},
    "fabric": {"needed": False, "kind": "none"},
    "units": {},
    "services": [],
    "managers": [],
    "packages": {"manager": "apt", "holds": [], "broken": [], "set": {}},
    "state_files": {"driver": None, "reboot_required": None, "files": {}},
}
NAMES = ("nvidia-driver-cuda", "nvidia-kernel-open-dkms")
UNIT = {"load": "loaded", "active": "active", "sub": "running", "enabled": "enabled", "need_daemon_reload": False}


class SmallMatrix:
    """Debian 12 with two branches; enough to ask every question of the planner."""

    def os(self, facts_os: t.Mapping[str, t.Any], arch: str) -> OsSupport:
        known = facts_os.get("id") in ("debian", "sles") and arch == "x86_64"
        manager = "apt" if facts_os.get("id") == "debian" else "zypper"
        return OsSupport(
            known,
            known,
            "" if known else "no row",
            "os.x",
            "Debian 12",
            "debian12",
            "x86_64",
            manager,
            False,
            None if known else "Debian 12",
        )

    rows: t.ClassVar[dict[str, t.Any]] = {"os.x": {"distribution_driver": {"version": "570.133.20", "branch": 570}}}

    def gpu(self, product: str | None = None, pci_device_id: str | None = None) -> dict[str, t.Any] | None:
        name, demand = OPEN_MODULES.get(pci_device_id or "", (None, ""))
        return {"id": name, "open_modules": demand} if name else None

    def branch(self, number: int) -> dict[str, t.Any] | None:
        return {570: {"branch": 570, "latest": "570.211.01"}, 580: {"branch": 580, "latest": "580.178.04"}}.get(number)

    def driver_for(self, gpus: t.Iterable[str], today: datetime.date, channel: str = "lts") -> DriverChoice | None:
        return None if "v100" in gpus else DriverChoice(580, "580.178.04", "open", "lts")

    def driver_packages(
        self, os: OsSupport, branch: int, kernel_modules: str, needs: t.Iterable[str] = (), source: str = "nvidia"
    ) -> DriverPackages:
        names = ["nvidia-driver-cuda", "nvidia-kernel-open-dkms" if kernel_modules == "open" else "nvidia-kernel-dkms"]
        if source == "distribution":
            names = ["nvidia-smi", "libcuda1", "nvidia-kernel-dkms", "nvidia-persistenced"]
        if "fabric_manager" in needs:
            names.append(f"nvidia-fabricmanager-{branch}")
        if "imex" in needs:
            names.append(f"nvidia-imex-{branch}")
        members = (
            "nvidia-driver*",
            "nvidia-kernel-*",
            "libnvidia-*",
            "libcuda1",
            "nvidia-persistenced",
            "nvidia-fabricmanager*",
            "nvidia-imex*",
        )
        same = tuple(name for name in names if name != "nvidia-persistenced")
        return DriverPackages("packages.x", "", source, tuple(names), members, (), same, None, None, "apt-mark", "{version}-*")  # type: ignore[arg-type]


def facts(*changes: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The virgin host with changes merged in."""
    out = copy.deepcopy(VIRGIN)
    for change in changes:
        out = merge(out, change)
    return out


def with_driver(
    version: str = "570.133.20", loaded: str | None = "same", names: t.Iterable[str] = NAMES, kind: str = "open", **record: t.Any
) -> dict[str, t.Any]:
    """Changes: a driver from NVIDIA's repository by this role, complete and running."""
    running = version if loaded == "same" else loaded
    packages = {name: {"version": f"{version}-1", "held": True, "status": "installed"} for name in names}
    url = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/"
    return {
        "state": "ok" if running == version else "mismatch",
        "driver": {
            "installed": {
                "version": version,
                "origin": "package",
                "packages": packages,
                "kernel_modules": kind,
                "module_version": version,
                "dkms": [],
            },
            "loaded": {"version": running, "kernel_modules": kind, "modules": ["nvidia"], "parameters": {}, "refcount": 0}
            if running
            else None,
            "library": {"path": "/usr/lib/libnvidia-ml.so.1", "version": version},
            "nouveau": {"blacklisted": True},
            "repository": {"file": "/etc/apt/sources.list.d/gpufleet-nvidia.sources", "url": url, "owned": True},
        },
        "packages": {"holds": list(names), "set": dict.fromkeys(names, f"{version}-1")},
        "units": {"nvidia-persistenced.service": UNIT},
        "state_files": {
            "driver": {
                "schema": 1,
                "packages": dict.fromkeys(names, f"{version}-1"),
                "holds": list(names),
                "source": "nvidia",
                **record,
            },
            "files": {
                "/etc/modules-load.d/gpufleet-nvidia.conf": MODULES_LOAD,
                AUTOMATIC: digest(automatic_text(names)) if names else None,
            },
        },
    }


MODULES_LOAD = digest(HEAD + "nvidia\nnvidia-uvm\n")


def planned(host: dict[str, t.Any], context: Context | None = None, **desired: t.Any) -> Plan:
    return plan(desired, host, SmallMatrix(), context or Context(today=datetime.date(2026, 11, 30)))  # type: ignore[arg-type]


def ids(plan: Plan) -> list[str]:
    return [change.id for change in plan.changes]


def found(plan: Plan, name: str) -> Finding:
    """The one finding of that name."""
    matching = [finding for finding in plan.findings if finding.id == f"driver.{name}"]
    assert len(matching) == 1, [f"{finding.id}: {finding.message}" for finding in plan.findings]
    return matching[0]


def blocking(plan: Plan) -> list[str]:
    return [finding.id for finding in plan.findings if finding.severity == "block"]
