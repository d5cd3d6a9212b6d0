# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi topo, nvlink and mig, and the MIG lines of -L."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, ClassVar

from ..nvml import Nvml
from .values import Gpu

LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


PROFILES_HEAD = """\
| GPU instance profiles:                                                        |
| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                                Free/Total   GiB              CE    JPEG  OFA  |
|===============================================================================|
"""


class ProfileInfo(ctypes.Structure):
    _fields_: ClassVar[list[Any]] = [
        *((name, ctypes.c_uint) for name in ("version", "id", "p2p", "slices", "instances", "sm", "ce", "dec", "enc", "jpeg", "ofa")),
        ("memory", ctypes.c_ulonglong),
        ("name", ctypes.c_char * 96),
    ]


def active_links(gpu: Gpu) -> int:
    return sum(1 for link in range(gpu.field(91) or 0) if gpu.num("nvmlDeviceGetNvLinkState", link))


def topo(nvml: Nvml, gpus: list[Gpu], arguments: list[str]) -> str:
    head = "\t" + "\t".join(f"GPU{gpu.index()}" for gpu in gpus) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"
    rows = []
    for a in gpus:
        cells = []
        for b in gpus:
            links = min(active_links(a), active_links(b))
            level = a.num("nvmlDeviceGetTopologyCommonAncestor", b.handle)
            cells.append(
                " X " if a.index() == b.index() else f"NV{links}" if links else LEVELS.get(level if level is not None else 50, "SYS")
            )
        rows.append(f"GPU{a.index()}\t" + "\t".join(cells) + "\t0-31\t0\t\tN/A")
    return head + "\n" + "\n".join(rows) + "\n" + LEGEND


def nvlink(nvml: Nvml, gpus: list[Gpu], arguments: list[str]) -> str:
    out = ""
    if "-i" in arguments[:-1]:
        gpus = [Gpu(nvml, nvml.find(arguments[arguments.index("-i") + 1]))]
    for gpu in gpus:
        out += f"GPU {gpu.index()}: {gpu.name()} (UUID: {gpu.uuid()})\n"
        for link in range(gpu.field(91) or 0):
            up = gpu.num("nvmlDeviceGetNvLinkState", link)
            out += f"\t Link {link}: " + (f"{(gpu.field(164, link) or 0) / 1000:g} GB/s\n" if up else "<inactive>\n")
    return out


def _profiles(gpu: Gpu) -> list[ProfileInfo]:
    found = []
    for index in range(16):
        info = ProfileInfo(version=0x02000098)
        if gpu.fills("nvmlDeviceGetGpuInstanceProfileInfoV", ctypes.c_uint(index), ctypes.byref(info)):
            found.append(info)
    return sorted(found, key=lambda info: (info.slices, info.memory, info.ofa if info.slices < 7 else 0))


def mig(nvml: Nvml, gpus: list[Gpu], arguments: list[str]) -> str:
    rule = "+-------------------------------------------------------------------------------+\n"
    out = rule + PROFILES_HEAD
    for gpu in gpus:
        for info in _profiles(gpu):
            free = gpu.num("nvmlDeviceGetGpuInstanceRemainingCapacity", info.id)
            memory, p2p = f"{info.memory / 1024:.2f}", "Yes" if info.p2p else "No"
            out += f"|{gpu.index():>4}  {info.name.decode():<19}{info.id:>3}{free:>6}/{info.instances:<2}       {memory:<11}{p2p:<7}"
            out += f"{info.sm:<7}{info.dec:<6}{info.enc:<4}|\n"
            out += f"|{'':63}{info.ce:<6}{info.jpeg:<6}{info.ofa:<4}|\n" + rule
    return out


def mig_devices(gpu: Gpu) -> str:
    out = ""
    for index in range(7):
        handle = ctypes.c_void_p()
        if gpu.fills("nvmlDeviceGetMigDeviceHandleByIndex", ctypes.c_uint(index), ctypes.byref(handle)):
            device = Gpu(gpu.nvml, handle)
            out += f"  MIG {device.name().partition(' MIG ')[2]:<13} Device {index:>2}: (UUID: {device.uuid()})\n"
    return out


COMMANDS: dict[str, Callable[[Nvml, list[Gpu], list[str]], str]] = {"topo": topo, "nvlink": nvlink, "mig": mig}
