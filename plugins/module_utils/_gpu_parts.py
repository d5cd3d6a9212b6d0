# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a GPU's facts, one function each. Private to the collection."""

from __future__ import annotations

import typing as t

from ._gpu_health import by_field, retired_pages
from ._gpu_links import fabric, nvlink
from ._gpu_mig import mig
from ._gpu_names import ARCHITECTURES, COMPUTE_MODES, clock_reasons, named, pci_address
from ._gpu_read import Gpu


def identity(gpu: Gpu) -> None:
    pci = gpu.get("pci_address", "nvmlDeviceGetPciInfo")
    if pci is not None:
        gpu.out["pci_address"] = pci_address(pci.domain, pci.bus, pci.device)
        gpu.out["pci_device_id"] = f"{pci.pciDeviceId >> 16:04x}"
        gpu.out["pci_subsystem_id"] = f"{pci.pciSubSystemId & 0xFFFF:04x}:{pci.pciSubSystemId >> 16:04x}"
    for part, name in (
        ("uuid", "nvmlDeviceGetUUID"),
        ("product", "nvmlDeviceGetName"),
        ("minor", "nvmlDeviceGetMinorNumber"),
        ("serial", "nvmlDeviceGetSerial"),
        ("board_part_number", "nvmlDeviceGetBoardPartNumber"),
        ("vbios", "nvmlDeviceGetVbiosVersion"),
        ("gsp_firmware", "nvmlDeviceGetGspFirmwareVersion"),
    ):
        gpu.out[part] = gpu.get(part, name)
    gpu.out["inforom"] = gpu.detail("inforom", "nvmlDeviceGetInforomImageVersion")
    gpu.out["architecture"] = named(ARCHITECTURES, gpu.get("architecture", "nvmlDeviceGetArchitecture"))
    capability = gpu.get("compute_capability", "nvmlDeviceGetCudaComputeCapability")
    gpu.out["compute_capability"] = f"{capability[0]}.{capability[1]}" if capability else None


def memory(gpu: Gpu) -> None:
    version = getattr(gpu.session.nvml, "nvmlMemory_v2", None)
    info = gpu.get("memory_bytes", "nvmlDeviceGetMemoryInfo", *([version] if version else []))
    if info is None and version:
        info = gpu.get("memory_bytes", "nvmlDeviceGetMemoryInfo")
    if info is not None:
        gpu.errors.pop("memory_bytes", None)
        keys = ("total", "reserved", "free", "used")
        gpu.out["memory_bytes"] = {key: getattr(info, key, None) for key in keys}
    bar1 = gpu.detail("bar1_bytes", "nvmlDeviceGetBAR1MemoryInfo")
    if bar1 is not None:
        gpu.out["bar1_bytes"] = {"total": bar1.bar1Total, "free": bar1.bar1Free, "used": bar1.bar1Used}


def power(gpu: Gpu) -> None:
    limits = gpu.get("power.constraints", "nvmlDeviceGetPowerManagementLimitConstraints") or (None, None)
    limit = gpu.get("power.limit_mw", "nvmlDeviceGetPowerManagementLimit")
    gpu.out["power"] = {
        "supported": limit is not None,
        "limit_mw": limit,
        "default_limit_mw": gpu.get("power.default_limit_mw", "nvmlDeviceGetPowerManagementDefaultLimit"),
        "min_limit_mw": limits[0],
        "max_limit_mw": limits[1],
        "enforced_limit_mw": gpu.detail("power.enforced_limit_mw", "nvmlDeviceGetEnforcedPowerLimit"),
        "usage_mw": gpu.detail("power.usage_mw", "nvmlDeviceGetPowerUsage"),
    }


def modes(gpu: Gpu) -> None:
    persistence = gpu.get("persistence", "nvmlDeviceGetPersistenceMode")
    gpu.out["persistence"] = None if persistence is None else bool(persistence)
    gpu.out["compute_mode"] = named(COMPUTE_MODES, gpu.get("compute_mode", "nvmlDeviceGetComputeMode"))
    gpu.out["pstate"] = gpu.detail("pstate", "nvmlDeviceGetPerformanceState")


def clocks(gpu: Gpu) -> None:
    """A reading of the moment, and among the dearest: only for diagnosis."""
    if not gpu.details:
        return
    gpu.out["clocks_mhz"] = {
        "graphics": gpu.get("clocks_mhz.graphics", "nvmlDeviceGetClockInfo", 0),
        "sm": gpu.get("clocks_mhz.sm", "nvmlDeviceGetClockInfo", 1),
        "memory": gpu.get("clocks_mhz.memory", "nvmlDeviceGetClockInfo", 2),
        "max_graphics": gpu.get("clocks_mhz.max_graphics", "nvmlDeviceGetMaxClockInfo", 0),
        "max_memory": gpu.get("clocks_mhz.max_memory", "nvmlDeviceGetMaxClockInfo", 2),
    }
    newer = hasattr(gpu.session.nvml, "nvmlDeviceGetCurrentClocksEventReasons")
    name = "nvmlDeviceGetCurrentClocksEventReasons" if newer else "nvmlDeviceGetCurrentClocksThrottleReasons"
    mask = gpu.get("throttle_reasons", name)
    if mask is None and gpu.errors["throttle_reasons"] == "FUNCTION_NOT_FOUND":  # driver older than the new name
        mask = gpu.get("throttle_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    if mask is not None:
        gpu.errors.pop("throttle_reasons", None)
        gpu.out["throttle_reasons"] = clock_reasons(mask)


def pcie(gpu: Gpu) -> None:
    gpu.out["pcie"] = {
        "gen": gpu.detail("pcie.gen", "nvmlDeviceGetCurrPcieLinkGeneration"),
        "width": gpu.get("pcie.width", "nvmlDeviceGetCurrPcieLinkWidth"),
        "max_gen": gpu.detail("pcie.max_gen", "nvmlDeviceGetMaxPcieLinkGeneration"),
        "max_width": gpu.get("pcie.max_width", "nvmlDeviceGetMaxPcieLinkWidth"),
        "replay_counter": gpu.detail("pcie.replay_counter", "nvmlDeviceGetPcieReplayCounter"),
    }


def processes(gpu: Gpu) -> None:
    found: dict[int, dict[str, t.Any]] = {}
    for kind, name in (
        ("compute", "nvmlDeviceGetComputeRunningProcesses"),
        ("mps", "nvmlDeviceGetMPSComputeRunningProcesses"),
        ("graphics", "nvmlDeviceGetGraphicsRunningProcesses"),
    ):
        for process in gpu.get(f"processes.{kind}", name) or ():
            used = process.usedGpuMemory
            found.setdefault(process.pid, {"pid": process.pid, "used_memory_bytes": used, "type": kind})
    gpu.out["processes"] = [found[pid] for pid in sorted(found)]


PARTS: tuple[t.Callable[[Gpu], None], ...] = (
    identity,
    memory,
    power,
    modes,
    by_field,
    retired_pages,
    mig,
    clocks,
    pcie,
    nvlink,
    fabric,
    processes,
)
