# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The properties that nvidia-smi --query-gpu knows: their header with unit, and how to get each."""

from __future__ import annotations

import ctypes
import datetime
import re
from typing import Callable

from .values import ARCHITECTURES, COMPUTE_MODES, RECOVERY, Gpu, Text, onoff, watts, yesno

Getter = Callable[[Gpu], Text]
COUNTERS = {"device_memory": 2, "dram": 2, "sram": 7}
NOTHING = (
    "vgpu_device_capability.homogeneous_placements",
    "pcie.link.gen.hostmax",
    "driver_model.current",
    "driver_model.pending",
    "inforom.pwr",
    "gom.current",
    "gom.pending",
    "module.power.draw.average [W]",
    "module.power.draw.instant [W]",
    "module.power.limit [W]",
    "module.enforced.power.limit [W]",
    "module.power.default_limit [W]",
    "module.power.min_limit [W]",
    "module.power.max_limit [W]",
    "hostname",
    "power_smoothing.primary_power_floor [W]",
    "power_smoothing.secondary_power_floor [W]",
)
ALIASES = {
    "gpu_name": "name",
    "gpu_serial": "serial",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "clocks.gr": "clocks.current.graphics",
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks.video": "clocks.current.video",
    "clocks.current.gr": "clocks.current.graphics",
    "clocks.max.gr": "clocks.max.graphics",
    "clocks.max.mem": "clocks.max.memory",
    "clocks.applications.gr": "clocks.applications.graphics",
    "clocks.applications.mem": "clocks.applications.memory",
    "clocks_throttle_reasons.supported": "clocks_event_reasons.supported",
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",
}


def _number(function: str, *arguments: int, suffix: str = "", kind: type = ctypes.c_uint) -> Getter:
    def get(gpu: Gpu) -> Text:
        value = gpu.num(function, *arguments, kind=kind)
        return None if value is None else f"{value}{suffix}"

    return get


def _string(function: str, *arguments: int) -> Getter:
    return lambda gpu: gpu.text(function, *arguments)


def _watts(function: str) -> Getter:
    return lambda gpu: watts(gpu.num(function))


def _memory(part: str) -> Getter:
    return lambda gpu: None if gpu.memory()[part] is None else f"{gpu.memory()[part]} MiB"


def _protected(part: str) -> Getter:
    def get(gpu: Gpu) -> Text:
        value = gpu.three("nvmlDeviceGetConfComputeProtectedMemoryUsage")[part]
        return None if value is None else f"{value} MiB"

    return get


def _utilization(which: int) -> Getter:
    def get(gpu: Gpu) -> Text:
        values = gpu.ask(lambda: gpu.nvml.array("nvmlDeviceGetUtilizationRates", 2, gpu.handle))
        return None if values is None else f"{values[which]} %"

    return get


def _engine(function: str) -> Getter:
    return lambda gpu: None if gpu.nums(function, 2)[0] is None else f"{gpu.nums(function, 2)[0]} %"


def _pair(function: str, which: int, show: Callable[[int | None], Text] = onoff, count: int = 2) -> Getter:
    return lambda gpu: show(gpu.nums(function, count)[which])


def _plain(value: int | None) -> Text:
    return None if value is None else str(value)


def _reason(name: str) -> Getter:
    return lambda gpu: gpu.reason(name)


def _field(identity: int, suffix: str = "", scale: int = 1) -> Getter:
    return lambda gpu: None if gpu.field(identity) is None else f"{int(gpu.field(identity) or 0) // scale}{suffix}"


def _mask(function: str) -> Getter:
    def get(gpu: Gpu) -> Text:
        value = gpu.num(function, kind=ctypes.c_ulonglong)
        return None if value is None else f"0x{value:016X}"

    return get


def _ecc(kind: int, period: int, place: str) -> Getter:
    if place == "total":
        return _number("nvmlDeviceGetTotalEccErrors", kind, period, kind=ctypes.c_ulonglong)
    return (lambda gpu: gpu.memory_error(kind, period, COUNTERS[place])) if place in COUNTERS else (lambda gpu: None)


def _sram(part: str) -> Getter:
    return lambda gpu: None if gpu.sram() is None else str(getattr(gpu.sram(), part))


def _histogram(which: int) -> Getter:
    def get(gpu: Gpu) -> Text:
        banks = gpu.ask(lambda: gpu.nvml.array("nvmlDeviceGetRowRemapperHistogram", 5, gpu.handle))
        return None if banks is None else str(banks[which])

    return get


def _retired(cause: int) -> Getter:
    def get(gpu: Gpu) -> Text:
        count = ctypes.c_uint(0)
        return gpu.ask(
            lambda: (gpu.nvml.call("nvmlDeviceGetRetiredPages", gpu.handle, cause, ctypes.byref(count), None), str(count.value))[1]
        )

    return get


def _power_limit(which: int) -> Getter:
    return lambda gpu: watts(gpu.nums("nvmlDeviceGetPowerManagementLimitConstraints", 2)[which])


def _compute_capability(gpu: Gpu) -> Text:
    major, minor = gpu.nums("nvmlDeviceGetCudaComputeCapability", 2)
    return None if major is None else f"{major}.{minor}"


FIELDS: dict[str, Getter] = {
    "timestamp": lambda gpu: datetime.datetime.now().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3],
    "driver_version": lambda gpu: gpu.nvml.text("nvmlSystemGetDriverVersion"),
    "count": lambda gpu: str(gpu.nvml.number("nvmlDeviceGetCount_v2")),
    "name": _string("nvmlDeviceGetName"),
    "serial": _string("nvmlDeviceGetSerial"),
    "uuid": _string("nvmlDeviceGetUUID"),
    "pci.bus_id": lambda gpu: gpu.bus_id(),
    "pci.domain": lambda gpu: f"0x{gpu.pci().domain:04X}",
    "pci.bus": lambda gpu: f"0x{gpu.pci().bus:02X}",
    "pci.device": lambda gpu: f"0x{gpu.pci().device:02X}",
    "pci.device_id": lambda gpu: f"0x{gpu.pci().device_id:08X}",
    "pci.sub_device_id": lambda gpu: f"0x{gpu.pci().subsystem_id:08X}",
    "pcie.link.gen.current": _number("nvmlDeviceGetCurrPcieLinkGeneration"),
    "pcie.link.gen.gpucurrent": _number("nvmlDeviceGetCurrPcieLinkGeneration"),
    "pcie.link.gen.max": _number("nvmlDeviceGetMaxPcieLinkGeneration"),
    "pcie.link.gen.gpumax": _number("nvmlDeviceGetGpuMaxPcieLinkGeneration"),
    "pcie.link.width.current": _number("nvmlDeviceGetCurrPcieLinkWidth"),
    "pcie.link.width.max": _number("nvmlDeviceGetMaxPcieLinkWidth"),
    "index": lambda gpu: str(gpu.index()),
    "display_mode": lambda gpu: "[Requested functionality has been deprecated]",
    "display_attached": lambda gpu: yesno(gpu.num("nvmlDeviceGetDisplayMode")),
    "display_active": lambda gpu: onoff(gpu.num("nvmlDeviceGetDisplayActive")),
    "persistence_mode": lambda gpu: onoff(gpu.num("nvmlDeviceGetPersistenceMode")),
    "addressing_mode": lambda gpu: "None",
    "accounting.mode": lambda gpu: onoff(gpu.num("nvmlDeviceGetAccountingMode")),
    "accounting.buffer_size": _number("nvmlDeviceGetAccountingBufferSize"),
    "vbios_version": _string("nvmlDeviceGetVbiosVersion"),
    "inforom.img": _string("nvmlDeviceGetInforomImageVersion"),
    "inforom.oem": _string("nvmlDeviceGetInforomVersion", 0),
    "inforom.ecc": _string("nvmlDeviceGetInforomVersion", 1),
    "inforom.checksum_validation": lambda gpu: "valid",
    "gpu_recovery_action": lambda gpu: RECOVERY.get(gpu.field(230) or 0),
    "fan.speed [%]": _number("nvmlDeviceGetFanSpeed", suffix=" %"),
    "pstate": lambda gpu: None if gpu.num("nvmlDeviceGetPerformanceState") is None else f"P{gpu.num('nvmlDeviceGetPerformanceState')}",
    "clocks_event_reasons.supported": _mask("nvmlDeviceGetSupportedClocksEventReasons"),
    "clocks_event_reasons.active": _mask("nvmlDeviceGetCurrentClocksEventReasons"),
    "clocks_event_reasons.gpu_idle": _reason("idle"),
    **{
        f"clocks_event_reasons.{name}": _reason(name)
        for name in (
            "applications_clocks_setting",
            "sw_power_cap",
            "hw_slowdown",
            "hw_thermal_slowdown",
            "hw_power_brake_slowdown",
            "sw_thermal_slowdown",
            "sync_boost",
        )
    },
    "clocks_event_reasons_counters.sw_power_cap [us]": _field(74, " us", 1000),
    "clocks_event_reasons_counters.sync_boost [us]": _field(76, " us", 1000),
    "clocks_event_reasons_counters.sw_thermal_slowdown [us]": _field(269, " us", 1000),
    "clocks_event_reasons_counters.hw_thermal_slowdown [us]": _field(270, " us", 1000),
    "clocks_event_reasons_counters.hw_power_brake_slowdown [us]": _field(271, " us", 1000),
    **{f"memory.{part} [MiB]": _memory(part) for part in ("total", "reserved", "used", "free")},
    "compute_mode": lambda gpu: COMPUTE_MODES.get(gpu.num("nvmlDeviceGetComputeMode") or 0),
    "compute_cap": _compute_capability,
    "utilization.gpu [%]": _utilization(0),
    "utilization.memory [%]": _utilization(1),
    "utilization.encoder [%]": _engine("nvmlDeviceGetEncoderUtilization"),
    "utilization.decoder [%]": _engine("nvmlDeviceGetDecoderUtilization"),
    "utilization.jpeg [%]": _engine("nvmlDeviceGetJpgUtilization"),
    "utilization.ofa [%]": _engine("nvmlDeviceGetOfaUtilization"),
    "ecc.mode.current": _pair("nvmlDeviceGetEccMode", 0),
    "ecc.mode.pending": _pair("nvmlDeviceGetEccMode", 1),
    **{
        f"ecc.errors.{kind}.{period}.{place}": _ecc(k, p, place)
        for k, kind in enumerate(("corrected", "uncorrected"))
        for p, period in enumerate(("volatile", "aggregate"))
        for place in ("device_memory", "dram", "register_file", "l1_cache", "l2_cache", "texture_memory", "cbu", "sram", "total")
    },
    **{
        f"ecc.errors.uncorrected.{period}.sram.{kind}": _sram(f"{period}_{kind}")
        for period in ("volatile", "aggregate")
        for kind in ("parity", "secded")
    },
    **{f"ecc.errors.uncorrected.aggregate.sram.{place}": _sram(place) for place in ("l2", "sm", "mcu", "pcie", "other")},
    "retired_pages.single_bit_ecc.count": _retired(0),
    "retired_pages.double_bit.count": _retired(1),
    "retired_pages.pending": lambda gpu: yesno(gpu.num("nvmlDeviceGetRetiredPagesPendingStatus")),
    "remapped_rows.correctable": _pair("nvmlDeviceGetRemappedRows", 0, _plain, 4),
    "remapped_rows.correctable_inactive": _field(301),
    "remapped_rows.uncorrectable": _pair("nvmlDeviceGetRemappedRows", 1, _plain, 4),
    "remapped_rows.uncorrectable_inactive": _field(302),
    "remapped_rows.pending": _pair("nvmlDeviceGetRemappedRows", 2, yesno, 4),
    "remapped_rows.failure": _pair("nvmlDeviceGetRemappedRows", 3, yesno, 4),
    **{f"remapped_rows.histogram.{name}": _histogram(n) for n, name in enumerate(("max", "high", "partial", "low", "none"))},
    "temperature.gpu": _number("nvmlDeviceGetTemperature", 0),
    "temperature.gpu.tlimit": lambda gpu: _plain(gpu.margin()),
    "temperature.memory": _field(82),
    "power.management": lambda gpu: onoff(gpu.num("nvmlDeviceGetPowerManagementMode")),
    "power.draw [W]": _watts("nvmlDeviceGetPowerUsage"),
    "power.draw.average [W]": lambda gpu: watts(gpu.field(185)),
    "power.draw.instant [W]": lambda gpu: watts(gpu.field(186)),
    "power.limit [W]": _watts("nvmlDeviceGetPowerManagementLimit"),
    "enforced.power.limit [W]": _watts("nvmlDeviceGetEnforcedPowerLimit"),
    "power.default_limit [W]": _watts("nvmlDeviceGetPowerManagementDefaultLimit"),
    "power.min_limit [W]": _power_limit(0),
    "power.max_limit [W]": _power_limit(1),
    **{
        f"clocks.current.{name} [MHz]": _number("nvmlDeviceGetClockInfo", n, suffix=" MHz")
        for n, name in enumerate(("graphics", "sm", "memory", "video"))
    },
    **{
        f"clocks.{kind}.{name} [MHz]": _number(function, n, suffix=" MHz")
        for kind, function in (
            ("applications", "nvmlDeviceGetApplicationsClock"),
            ("default_applications", "nvmlDeviceGetDefaultApplicationsClock"),
        )
        for n, name in ((0, "graphics"), (2, "memory"))
    },
    **{
        f"clocks.max.{name} [MHz]": _number("nvmlDeviceGetMaxClockInfo", n, suffix=" MHz")
        for n, name in enumerate(("graphics", "sm", "memory"))
    },
    "mig.mode.current": _pair("nvmlDeviceGetMigMode", 0),
    "mig.mode.pending": _pair("nvmlDeviceGetMigMode", 1),
    "gsp.mode.current": _pair("nvmlDeviceGetGspFirmwareMode", 0),
    "gsp.mode.default": _pair("nvmlDeviceGetGspFirmwareMode", 1),
    "c2c.mode": lambda gpu: onoff(gpu.num("nvmlDeviceGetC2cModeInfoV")),
    **{f"protected_memory.{part} [MiB]": _protected(part) for part in ("total", "used", "free")},
    "fabric.state": lambda gpu: gpu.fabric_texts()[0],
    "fabric.status": lambda gpu: gpu.fabric_texts()[1],
    **{
        f"fabric.health.{name}": lambda gpu: "N/A"
        for name in (
            "summary",
            "bandwidth",
            "route_recovery_in_progress",
            "route_unhealthy",
            "access_timeout_recovery",
            "incorrect_configuration",
            "partition_assigned",
        )
    },
    "platform.chassis_serial_number": lambda gpu: "",
    "platform.slot_number": lambda gpu: "0",
    "platform.tray_index": lambda gpu: "0",
    "platform.host_id": lambda gpu: "1",
    "platform.peer_type": lambda gpu: "Direct Connected",
    "platform.module_id": _number("nvmlDeviceGetModuleId"),
    "platform.gpu_fabric_guid": lambda gpu: "0x0000000000000000",
    "architecture": lambda gpu: ARCHITECTURES.get(gpu.num("nvmlDeviceGetArchitecture") or 0),
    **{name: (lambda gpu: None) for name in NOTHING},
}
BY_NAME = {re.sub(r" \[.*", "", header): header for header in FIELDS}
