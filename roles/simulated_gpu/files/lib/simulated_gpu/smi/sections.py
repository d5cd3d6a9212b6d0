# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sections of nvidia-smi -q, each a list of (label, value); a value is text, None for N/A, or a list again."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from .values import ARCHITECTURES, BRANDS, COMPUTE_MODES, RECOVERY, VIRTUALIZATION, Gpu, Text, onoff, unit, watts, yesno

Node = tuple[str, Any]


def identity(g: Gpu) -> list[Node]:
    uuid_pdi = g.ask(lambda: g.nvml.array("nvmlDeviceGetPdi", 2, g.handle, kind=ctypes.c_ulonglong))
    return [
        ("Product Name", g.name()),
        ("Product Brand", BRANDS.get(g.num("nvmlDeviceGetBrand") or 0)),
        ("Product Architecture", ARCHITECTURES.get(g.num("nvmlDeviceGetArchitecture") or 0)),
        ("Display Mode", "Requested functionality has been deprecated"),
        ("Display Attached", yesno(g.num("nvmlDeviceGetDisplayMode"))),
        ("Display Active", onoff(g.num("nvmlDeviceGetDisplayActive"))),
        ("Persistence Mode", onoff(g.num("nvmlDeviceGetPersistenceMode"))),
        ("Addressing Mode", "None"),
        ("MIG Mode", [("Current", onoff(g.mig()[0])), ("Pending", onoff(g.mig()[1]))]),
        *accounting(g),
        ("Driver Model", [("Current", None), ("Pending", None)]),
        ("Serial Number", g.text("nvmlDeviceGetSerial")),
        ("GPU UUID", g.uuid()),
        ("GPU PDI", None if uuid_pdi is None else f"0x{uuid_pdi[1]:016x}"),
        ("Minor Number", _str(g.num("nvmlDeviceGetMinorNumber"))),
        ("VBIOS Version", g.text("nvmlDeviceGetVbiosVersion")),
        ("MultiGPU Board", yesno(g.num("nvmlDeviceGetMultiGpuBoard"))),
        ("Board ID", None if g.num("nvmlDeviceGetBoardId") is None else f"0x{g.num('nvmlDeviceGetBoardId'):x}"),
        ("Board Part Number", g.text("nvmlDeviceGetBoardPartNumber")),
        ("GPU Part Number", g.part_number()),
        ("FRU Part Number", None),
        (
            "Platform Info",
            [
                ("Chassis Serial Number", None),
                ("Slot Number", None),
                ("Tray Index", None),
                ("Host ID", None),
                ("Peer Type", None),
                ("Module Id", _str(g.num("nvmlDeviceGetModuleId"))),
                ("GPU Fabric GUID", None),
            ],
        ),
        (
            "Inforom Version",
            [
                ("Image Version", g.text("nvmlDeviceGetInforomImageVersion")),
                ("OEM Object", g.text("nvmlDeviceGetInforomVersion", 0)),
                ("ECC Object", g.text("nvmlDeviceGetInforomVersion", 1)),
                ("Power Management Object", None),
            ],
        ),
        ("Inforom BBX Object Flush", [("Latest Timestamp", None), ("Latest Duration", None)]),
        ("GPU Operation Mode", [("Current", None), ("Pending", None)]),
        ("GPU C2C Mode", onoff(g.num("nvmlDeviceGetC2cModeInfoV"))),
        (
            "GPU Virtualization Mode",
            [
                ("Virtualization Mode", VIRTUALIZATION.get(g.num("nvmlDeviceGetVirtualizationMode") or 0)),
                ("Host VGPU Mode", None),
                ("vGPU Heterogeneous Mode", None),
            ],
        ),
        ("GPU Recovery Action", RECOVERY.get(g.field(230) or 0)),
        *gsp(g),
        ("IBMNPU", [("Relaxed Ordering Mode", None)]),
    ]


def _str(value: int | None) -> Text:
    return None if value is None else str(value)


def accounting(g: Gpu) -> list[Node]:
    return [
        ("Accounting Mode", onoff(g.num("nvmlDeviceGetAccountingMode"))),
        ("Accounting Mode Buffer Size", _str(g.num("nvmlDeviceGetAccountingBufferSize"))),
    ]


def gsp(g: Gpu) -> list[Node]:
    return [("GSP Firmware Version", g.text("nvmlDeviceGetGspFirmwareVersion", sized=False))]


def pci(g: Gpu) -> list[Node]:
    p = g.pci()
    base = g.num("nvmlDeviceGetBrand")
    generation, width = g.num("nvmlDeviceGetCurrPcieLinkGeneration"), g.num("nvmlDeviceGetCurrPcieLinkWidth")
    return [
        (
            "PCI",
            [
                ("Bus", f"0x{p.bus:02X}"),
                ("Device", f"0x{p.device:02X}"),
                ("Domain", f"0x{p.domain:04X}"),
                ("Base Classcode", "0x3"),
                ("Sub Classcode", "0x0" if base == 5 else "0x2"),
                ("Device Id", f"0x{p.device_id:08X}"),
                ("Bus Id", g.bus_id()),
                ("Sub System Id", f"0x{p.subsystem_id:08X}"),
                (
                    "GPU Link Info",
                    [
                        (
                            "PCIe Generation",
                            [
                                ("Max", _str(g.num("nvmlDeviceGetMaxPcieLinkGeneration"))),
                                ("Current", _str(generation)),
                                ("Device Current", _str(generation)),
                                ("Device Max", _str(g.num("nvmlDeviceGetGpuMaxPcieLinkGeneration"))),
                                ("Host Max", None),
                            ],
                        ),
                        ("Link Width", [("Max", _times(g.num("nvmlDeviceGetMaxPcieLinkWidth"))), ("Current", _times(width))]),
                    ],
                ),
                ("Bridge Chip", [("Type", None), ("Firmware", None)]),
                ("Replays Since Reset", _str(g.num("nvmlDeviceGetPcieReplayCounter"))),
                ("Replay Number Rollovers", _str(g.field(95))),
                ("Tx Throughput", unit(g.num("nvmlDeviceGetPcieThroughput", 0), "KB/s")),
                ("Rx Throughput", unit(g.num("nvmlDeviceGetPcieThroughput", 1), "KB/s")),
                ("Atomic Caps Outbound", None),
                ("Atomic Caps Inbound", None),
            ],
        ),
        ("Fan Speed", unit(g.num("nvmlDeviceGetFanSpeed"), "%")),
    ]


def _times(value: int | None) -> Text:
    return None if value is None else f"{value}x"


def performance(g: Gpu) -> list[Node]:
    state = g.num("nvmlDeviceGetPerformanceState")
    counters = (
        ("SW Power Capping", 74),
        ("Sync Boost", 76),
        ("SW Thermal Slowdown", 269),
        ("HW Thermal Slowdown", 270),
        ("HW Power Braking", 271),
    )
    return [
        ("Performance State", None if state is None else f"P{state}"),
        (
            "Clocks Event Reasons",
            [
                ("Idle", g.reason("idle")),
                ("Applications Clocks Setting", g.reason("applications_clocks_setting")),
                ("SW Power Cap", g.reason("sw_power_cap")),
                ("HW Slowdown", g.reason("hw_slowdown")),
                ("    HW Thermal Slowdown", g.reason("hw_thermal_slowdown")),
                ("    HW Power Brake Slowdown", g.reason("hw_power_brake_slowdown")),
                ("Sync Boost", g.reason("sync_boost")),
                ("SW Thermal Slowdown", g.reason("sw_thermal_slowdown")),
                ("Display Clock Setting", g.reason("display_clock_setting")),
            ],
        ),
        (
            "Clocks Event Reasons Counters",
            [(label, None if g.field(number) is None else f"{int(g.field(number) or 0) // 1000} us") for label, number in counters],
        ),
        ("Sparse Operation Mode", "Disabled"),
    ]


def _mib(values: dict[str, int | None], parts: Sequence[str]) -> list[Node]:
    return [(part.capitalize(), unit(values[part], "MiB")) for part in parts]


def memory(g: Gpu) -> list[Node]:
    return [
        ("FB Memory Usage", _mib(g.memory(), ("total", "reserved", "used", "free"))),
        ("BAR1 Memory Usage", _mib(_bar1(g), ("total", "used", "free"))),
        ("Conf Compute Protected Memory Usage", _mib(g.three("nvmlDeviceGetConfComputeProtectedMemoryUsage"), ("total", "used", "free"))),
    ]


def _bar1(g: Gpu) -> dict[str, int | None]:
    return g.three("nvmlDeviceGetBAR1MemoryInfo")


def compute(g: Gpu) -> list[Node]:
    return [("Compute Mode", COMPUTE_MODES.get(g.num("nvmlDeviceGetComputeMode") or 0))]


def utilization(g: Gpu) -> list[Node]:
    rates = g.ask(lambda: g.nvml.array("nvmlDeviceGetUtilizationRates", 2, g.handle)) or (None, None)
    engines = [
        (label, unit(g.nums(f"nvmlDeviceGet{name}Utilization", 2)[0], "%"))
        for label, name in (("Encoder", "Encoder"), ("Decoder", "Decoder"), ("JPEG", "Jpg"), ("OFA", "Ofa"))
    ]
    return [("Utilization", [("GPU", unit(rates[0], "%")), ("Memory", unit(rates[1], "%")), *engines])]


def encoder(g: Gpu) -> list[Node]:
    stats = g.nums("nvmlDeviceGetEncoderStats", 3)
    return [("Encoder Stats", [("Active Sessions", _str(stats[0])), ("Average FPS", _str(stats[1])), ("Average Latency", _str(stats[2]))])]


def fbc(g: Gpu) -> list[Node]:
    return [("FBC Stats", [("Active Sessions", "0"), ("Average FPS", "0"), ("Average Latency", "0")])]


def ecc(g: Gpu) -> list[Node]:
    s = g.sram()

    def sram(name: str) -> Text:
        return None if s is None else str(getattr(s, name))

    def period(which: int, name: str) -> list[Node]:
        return [
            ("SRAM Correctable", sram(f"{name}_corrected")),
            ("SRAM Uncorrectable Parity", sram(f"{name}_parity")),
            ("SRAM Uncorrectable SEC-DED", sram(f"{name}_secded")),
            ("DRAM Correctable", g.memory_error(0, which, 2)),
            ("DRAM Uncorrectable", g.memory_error(1, which, 2)),
        ]

    repair = g.ask(lambda: g.nvml.array("nvmlDeviceGetRepairStatus", 3, g.handle, version=0x0100000C)) or (None, None, None)
    return [
        ("ECC Mode", [("Current", onoff(g.ecc()[0])), ("Pending", onoff(g.ecc()[1]))]),
        (
            "ECC Errors",
            [
                ("Volatile", period(0, "volatile")),
                ("Aggregate", [*period(1, "aggregate"), ("SRAM Threshold Exceeded", None if s is None else yesno(s.threshold))]),
                (
                    "Aggregate Uncorrectable SRAM Sources",
                    [
                        ("SRAM L2", sram("l2")),
                        ("SRAM SM", sram("sm")),
                        ("SRAM Microcontroller", sram("mcu")),
                        ("SRAM PCIE", sram("pcie")),
                        ("SRAM Other", sram("other")),
                    ],
                ),
                ("Channel Repair Pending", yesno(repair[1])),
                ("TPC Repair Pending", yesno(repair[2])),
                ("Unrepairable Memory", yesno(g.num("nvmlDeviceGetUnrepairableMemoryFlag_v1"))),
            ],
        ),
    ]


def retired(g: Gpu) -> list[Node]:
    def pages(cause: int) -> Text:
        count = ctypes.c_uint(0)
        return (
            None
            if g.ask(lambda: (g.nvml.call("nvmlDeviceGetRetiredPages", g.handle, cause, ctypes.byref(count), None), True)) is None
            else str(count.value)
        )

    return [
        (
            "Retired Pages",
            [
                ("Single Bit ECC", pages(0)),
                ("Double Bit ECC", pages(1)),
                ("Pending Page Blacklist", yesno(g.num("nvmlDeviceGetRetiredPagesPendingStatus"))),
            ],
        )
    ]


def remapped(g: Gpu) -> list[Node]:
    rows = g.nums("nvmlDeviceGetRemappedRows", 4)
    if rows[0] is None:
        return [("Remapped Rows", None)]
    banks = g.ask(lambda: g.nvml.array("nvmlDeviceGetRowRemapperHistogram", 5, g.handle)) or (None,) * 5
    return [
        (
            "Remapped Rows",
            [
                ("Correctable Error", _str(rows[0])),
                ("Inactive Correctable Error", _str(g.field(301))),
                ("Uncorrectable Error", _str(rows[1])),
                ("Inactive Uncorrectable Error", _str(g.field(302))),
                ("Pending", yesno(rows[2])),
                ("Remapping Failure Occurred", yesno(rows[3])),
                (
                    "Bank Remap Availability Histogram",
                    [(label, unit(bank, "bank(s)")) for label, bank in zip(("Max", "High", "Partial", "Low", "None"), banks)],
                ),
            ],
        )
    ]


def temperature(g: Gpu) -> list[Node]:
    return [
        (
            "Temperature",
            [
                ("GPU Current Temp", unit(g.num("nvmlDeviceGetTemperature", 0), "C")),
                ("GPU T.Limit Temp", unit(g.margin(), "C")),
                ("GPU Shutdown T.Limit Temp", unit(g.field(193), "C")),
                ("GPU Slowdown T.Limit Temp", unit(g.field(194), "C")),
                ("GPU Max Operating T.Limit Temp", unit(g.field(196), "C")),
                ("GPU Target Temperature", None),
                ("Memory Current Temp", unit(g.field(82), "C")),
                ("Memory Max Operating T.Limit Temp", unit(g.field(195), "C")),
            ],
        )
    ]


def power(g: Gpu) -> list[Node]:
    limits = g.nums("nvmlDeviceGetPowerManagementLimitConstraints", 2)
    nothing = [
        (label, None)
        for label in (
            "Average Power Draw",
            "Instantaneous Power Draw",
            "Current Power Limit",
            "Requested Power Limit",
            "Default Power Limit",
            "Min Power Limit",
            "Max Power Limit",
        )
    ]
    return [
        (
            "GPU Power Readings",
            [
                ("Average Power Draw", watts(g.num("nvmlDeviceGetPowerUsage"))),
                ("Instantaneous Power Draw", watts(g.field(186))),
                ("Current Power Limit", watts(g.num("nvmlDeviceGetEnforcedPowerLimit"))),
                ("Requested Power Limit", watts(g.num("nvmlDeviceGetPowerManagementLimit"))),
                ("Default Power Limit", watts(g.num("nvmlDeviceGetPowerManagementDefaultLimit"))),
                ("Min Power Limit", watts(limits[0])),
                ("Max Power Limit", watts(limits[1])),
            ],
        ),
        ("GPU Memory Power Readings ", [("Average Power Draw", watts(g.field(185, 2))), ("Instantaneous Power Draw", None)]),
        ("Module Power Readings", nothing),
    ]


def power_profiles(g: Gpu) -> list[Node]:
    return [("Workload Power Profiles", [("Requested Profiles", None), ("Enforced Profiles", None)])]


def clocks(g: Gpu) -> list[Node]:
    def some(function: str, types: Sequence[int]) -> list[Node]:
        names = ("Graphics", "SM", "Memory", "Video")
        return [(names[t], unit(g.num(function, t), "MHz")) for t in types]

    return [
        ("Clocks", some("nvmlDeviceGetClockInfo", (0, 1, 2, 3))),
        ("Applications Clocks", some("nvmlDeviceGetApplicationsClock", (0, 2))),
        ("Default Applications Clocks", some("nvmlDeviceGetDefaultApplicationsClock", (0, 2))),
        ("Deferred Clocks", [("Memory", None)]),
        ("Max Clocks", some("nvmlDeviceGetMaxClockInfo", (0, 1, 2, 3))),
        ("Max Customer Boost Clocks", some("nvmlDeviceGetMaxCustomerBoostClock", (0,))),
        ("Clock Policy", [("Auto Boost", None), ("Auto Boost Default", None)]),
    ]


def fabric(g: Gpu) -> list[Node]:
    info, (state, status) = g.fabric(), g.fabric_texts()
    health = [
        (label, None)
        for label in (
            "Summary",
            "Bandwidth",
            "Route Recovery in progress",
            "Route Unhealthy",
            "Access Timeout Recovery",
            "Incorrect Configuration",
            "Partition Assigned",
        )
    ]
    return [
        (
            "Fabric",
            [
                ("State", state),
                ("Status", status),
                ("CliqueId", None if info is None else str(info[2])),
                ("ClusterUUID", None if info is None else info[3]),
                ("Health", health),
            ],
        )
    ]


def processes(g: Gpu) -> list[Node]:
    found = g.processes()
    if not found:
        return [("Processes", "None")]
    nodes: list[Node] = []
    for kind, pid, used, name in found:
        nodes += [
            ("GPU instance ID", None),
            ("Compute instance ID", None),
            ("Process ID", str(pid)),
            ("    Type", kind),
            ("    Name", name),
            ("    Used GPU Memory", f"{used} MiB"),
        ]
    return [("Processes", nodes)]


def supported_clocks(g: Gpu) -> list[Node]:
    count = ctypes.c_uint(512)
    memory_clocks, graphics = (ctypes.c_uint * 512)(), (ctypes.c_uint * 512)()
    if g.ask(lambda: (g.nvml.call("nvmlDeviceGetSupportedMemoryClocks", g.handle, ctypes.byref(count), memory_clocks), True)) is None:
        return [("Supported Clocks", "N/A")]
    nodes: list[Node] = []
    for mhz in memory_clocks[: count.value]:
        found = ctypes.c_uint(512)
        g.nvml.call("nvmlDeviceGetSupportedGraphicsClocks", g.handle, ctypes.c_uint(mhz), ctypes.byref(found), graphics)
        nodes += [("Memory", f"{mhz} MHz")] + [("    Graphics", f"{value} MHz") for value in graphics[: found.value]]
    return [("Supported Clocks", nodes)]
