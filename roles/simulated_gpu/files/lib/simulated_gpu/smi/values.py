# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nvidia-smi shows of one GPU, as the strings it shows them with. None stands for "not available"."""

from __future__ import annotations

import ctypes
import uuid
from ctypes import c_int, c_ulonglong
from typing import Any, Callable, Optional

from .. import paths, profile
from ..nvml import GPU_IS_LOST, Nvml, NvmlError

Text = Optional[str]
MIB = 1 << 20
BRANDS = {
    0: "Unknown",
    1: "Quadro",
    2: "Tesla",
    3: "NVS",
    4: "GRID",
    5: "GeForce",
    6: "Titan",
    14: "NVIDIA",
    15: "GeForce RTX",
    16: "Titan RTX",
}
ARCHITECTURES = {3: "Maxwell", 4: "Pascal", 5: "Volta", 6: "Turing", 7: "Ampere", 8: "Ada Lovelace", 9: "Hopper", 10: "Blackwell"}
COMPUTE_MODES = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}
VIRTUALIZATION = {0: "None", 1: "Pass-Through", 2: "VGPU", 3: "Host VGPU", 4: "Host VSGA"}
FABRIC = {0: "N/A", 1: "Not Started", 2: "In Progress", 3: "Completed"}
RECOVERY = {0: "None", 1: "Reset", 2: "Reboot", 3: "Drain P2P", 4: "Drain and Reset", 5: "Recover"}
REASONS = {
    "idle": 1,
    "applications_clocks_setting": 2,
    "sw_power_cap": 4,
    "hw_slowdown": 8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clock_setting": 0x100,
}


class Memory2(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("total", c_ulonglong), ("reserved", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]


class Pci(ctypes.Structure):
    _fields_ = [
        ("legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("device_id", ctypes.c_uint),
        ("subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    ]


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("memory", c_ulonglong), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]


class Sram(ctypes.Structure):
    _fields_ = (
        [("version", ctypes.c_uint)]
        + [
            (name, c_ulonglong)
            for name in (
                "aggregate_parity",
                "aggregate_secded",
                "aggregate_corrected",
                "volatile_parity",
                "volatile_secded",
                "volatile_corrected",
                "l2",
                "sm",
                "pcie",
                "mcu",
                "other",
            )
        ]
        + [("threshold", ctypes.c_uint)]
    )


def onoff(value: int | None) -> Text:
    return None if value is None else "Enabled" if value else "Disabled"


def yesno(value: int | None) -> Text:
    return None if value is None else "Yes" if value else "No"


def unit(value: float | None, name: str) -> Text:
    return None if value is None else f"{value} {name}"


def watts(milliwatts: int | None) -> Text:
    return None if milliwatts is None else f"{milliwatts / 1000:.2f} W"


def ceil_mib(size: int | None) -> int | None:
    return None if size is None else -(-size // MIB)


class Gpu:
    def __init__(self, nvml: Nvml, handle: ctypes.c_void_p) -> None:
        self.nvml, self.handle = nvml, handle

    def ask(self, call: Callable[[], Any]) -> Any:
        """The answer, or None where the device has none; only a lost GPU is an error."""
        try:
            return call()
        except NvmlError as exc:
            if exc.code == GPU_IS_LOST:
                raise
            return None

    def num(self, function: str, *arguments: Any, kind: Any = ctypes.c_uint) -> int | None:
        value: int | None = self.ask(lambda: self.nvml.number(function, self.handle, *arguments, kind=kind))
        return value

    def text(self, function: str, *arguments: Any, sized: bool = True) -> Text:
        value: Text = self.ask(lambda: self.nvml.text(function, self.handle, *arguments, sized=sized))
        return value

    def nums(self, function: str, count: int, *arguments: Any) -> tuple[int | None, ...]:
        return self.ask(lambda: self.nvml.numbers(function, count, self.handle, *arguments)) or (None,) * count

    def struct(self, function: str, struct: Any, version: int | None = None) -> Any:
        item = struct()
        if version is not None:
            item.version = version
        return self.ask(lambda: (self.nvml.call(function, self.handle, ctypes.byref(item)), item)[1])

    def fills(self, function: str, *arguments: Any) -> bool:
        """A call with output arguments of its own: did it answer?"""
        return bool(self.ask(lambda: self.nvml.call(function, self.handle, *arguments)))

    def field(self, identity: int, scope: int = 0) -> int | None:
        value: int | None = self.ask(lambda: self.nvml.field(self.handle, identity, scope))
        return value

    # identity
    def pci(self) -> Any:
        return self.struct("nvmlDeviceGetPciInfo_v3", Pci)

    def bus_id(self) -> str:
        return str(self.pci().bus_id.decode())

    def name(self) -> str:
        return self.text("nvmlDeviceGetName") or "Unknown"

    def uuid(self) -> str:
        return self.text("nvmlDeviceGetUUID") or ""

    def index(self) -> int:
        return int(self.num("nvmlDeviceGetIndex") or 0)

    def part_number(self) -> Text:
        """nvidia-smi gets it from a private interface; here it is a key of the profile."""
        here = profile.Machine(paths.etc("profile.conf"))
        return next((here.get(slot, "gpu_part_number") or None for slot in range(here.count) if here.uuid(slot) == self.uuid()), None)

    # memory
    def memory(self) -> dict[str, int | None]:
        """MiB as nvidia-smi rounds them: used down, everything else up."""
        m = self.struct("nvmlDeviceGetMemoryInfo_v2", Memory2, 0x02000028)
        if m is None:
            return dict.fromkeys(("total", "reserved", "used", "free"))
        return {"total": ceil_mib(m.total), "reserved": ceil_mib(m.reserved), "used": m.used // MIB, "free": ceil_mib(m.free)}

    def three(self, function: str) -> dict[str, int | None]:
        values = self.ask(lambda: self.nvml.array(function, 3, self.handle, kind=c_ulonglong))
        if values is None:
            return dict.fromkeys(("total", "used", "free"))
        return {"total": ceil_mib(values[0]), "free": ceil_mib(values[1]), "used": values[2] // MIB}

    # modes
    def ecc(self) -> tuple[int | None, ...]:
        return self.nums("nvmlDeviceGetEccMode", 2)

    def mig(self) -> tuple[int | None, ...]:
        return self.nums("nvmlDeviceGetMigMode", 2)

    def reasons(self) -> int | None:
        return self.num("nvmlDeviceGetCurrentClocksEventReasons", kind=c_ulonglong)

    def reason(self, name: str) -> Text:
        mask = self.reasons()
        return None if mask is None else "Active" if mask & REASONS[name] else "Not Active"

    def sram(self) -> Any:
        return self.struct("nvmlDeviceGetSramEccErrorStatus", Sram, 0x01000068)

    def memory_error(self, kind: int, period: int, location: int) -> Text:
        value = self.num("nvmlDeviceGetMemoryErrorCounter", kind, period, location, kind=c_ulonglong)
        return None if value is None else str(value)

    def fabric(self) -> tuple[int, int, int, str] | None:
        """(state, status, clique, cluster) or None."""

        class Info(ctypes.Structure):
            _fields_ = [
                ("version", ctypes.c_uint),
                ("uuid", ctypes.c_ubyte * 16),
                ("status", ctypes.c_uint),
                ("clique", ctypes.c_uint),
                ("state", ctypes.c_uint),
                ("health", ctypes.c_uint),
            ]

        info = self.struct("nvmlDeviceGetGpuFabricInfoV", Info, 0x02000024)
        return None if info is None or not info.state else (info.state, info.status, info.clique, str(uuid.UUID(bytes=bytes(info.uuid))))

    def fabric_texts(self) -> tuple[str, str]:
        info = self.fabric()
        if info is None:
            return "N/A", "N/A"
        return FABRIC.get(info[0], "N/A"), "N/A" if info[0] != 3 else "Success" if info[1] == 0 else f"Failure ({info[1]})"

    def margin(self) -> int | None:
        values = self.ask(lambda: self.nvml.array("nvmlDeviceGetMarginTemperature", 2, self.handle, kind=c_int, version=0x01000008))
        return None if values is None else values[1]

    def process_name(self, pid: int) -> Text:
        name: Text = self.ask(lambda: self.nvml.text("nvmlSystemGetProcessName", ctypes.c_uint(pid)))
        return name

    def processes(self) -> list[tuple[str, int, int, str]]:
        """(type, pid, MiB, name)"""
        out = []
        for kind, function in (
            ("C", "nvmlDeviceGetComputeRunningProcesses_v3"),
            ("G", "nvmlDeviceGetGraphicsRunningProcesses_v3"),
            ("M+C", "nvmlDeviceGetMPSComputeRunningProcesses_v3"),
        ):
            count = ctypes.c_uint(256)
            items = (Process * 256)()
            self.fills(function, ctypes.byref(count), items)
            for item in items[: count.value if count.value < 256 else 0]:
                name = self.process_name(int(item.pid))
                out.append((kind, int(item.pid), int(item.memory // MIB), name or "[Not Found]"))
        return out
