# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi -q: which sections are shown, by -d or without, and the text of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ..nvml import Nvml
from . import sections, table
from .sections import Node
from .values import Gpu

COLUMN = 55
DISPLAYS = (
    "MEMORY",
    "UTILIZATION",
    "ECC",
    "TEMPERATURE",
    "POWER",
    "CLOCK",
    "COMPUTE",
    "PIDS",
    "PERFORMANCE",
    "SUPPORTED_CLOCKS",
    "PAGE_RETIREMENT",
    "ACCOUNTING",
    "ENCODER_STATS",
    "SUPPORTED_GPU_TARGET_TEMP",
    "VOLTAGE",
    "FBC_STATS",
    "ROW_REMAPPER",
    "GSP_FIRMWARE_VERSION",
    "POWER_SMOOTHING",
    "POWER_PROFILES",
)


Section = tuple[tuple[str, ...], Callable[[Gpu], list[Node]]]
SECTIONS: list[Section] = [
    ((), sections.identity),
    ((), sections.pci),
    (("PERFORMANCE",), sections.performance),
    (("MEMORY",), sections.memory),
    (("COMPUTE",), sections.compute),
    (("UTILIZATION",), sections.utilization),
    (("ENCODER_STATS",), sections.encoder),
    (("FBC_STATS",), sections.fbc),
    ((), lambda g: [("DRAM Encryption Mode", [("Current", None), ("Pending", None)])]),
    (("ECC",), sections.ecc),
    (("PAGE_RETIREMENT",), sections.retired),
    (("ROW_REMAPPER",), sections.remapped),
    (("TEMPERATURE",), sections.temperature),
    (("POWER",), sections.power),
    ((), lambda g: [("Power Smoothing", None)]),
    (("POWER_PROFILES",), sections.power_profiles),
    (("CLOCK",), sections.clocks),
    ((), sections.fabric),
    (("PIDS",), sections.processes),
    ((), lambda g: [("Capabilities", [("EGM", "disabled")])]),
]
ONLY_ON_REQUEST: list[Section] = [
    (("SUPPORTED_CLOCKS",), sections.supported_clocks),
    (("ACCOUNTING",), lambda g: [*sections.accounting(g), ("Accounted Processes", "None")]),
    (("GSP_FIRMWARE_VERSION",), sections.gsp),
]


def nodes_of(g: Gpu, displays: Sequence[str]) -> list[Node]:
    if not displays:
        return [node for _names, build in SECTIONS for node in build(g)]
    return [node for names, build in SECTIONS + ONLY_ON_REQUEST if set(names) & set(displays) for node in build(g)]


def lines(nodes: list[Node], level: int) -> list[str]:
    out = []
    for label, value in nodes:
        start = "    " * level + label
        if isinstance(value, list):
            out.append(start)
            out += lines(value, level + 1)
        else:
            out.append(f"{start:<{COLUMN}}: {'N/A' if value is None else value}")
    return out


def head(nvml: Nvml) -> list[Node]:
    _tool, driver, cuda = table.versions(nvml)
    return [("Timestamp", time.strftime("%a %b %e %H:%M:%S %Y")), ("Driver Version", driver), ("CUDA Version", cuda)]


def render(nvml: Nvml, gpus: list[Gpu], displays: Sequence[str]) -> str:
    out = [
        "",
        "==============NVSMI LOG==============",
        "",
        *lines(head(nvml), 0),
        "",
        *lines([("Attached GPUs", str(nvml.number("nvmlDeviceGetCount_v2")))], 0),
    ]
    for gpu in gpus:
        out += [f"GPU {gpu.bus_id()}", *lines(nodes_of(gpu, displays), 1), ""]
    return "\n".join(out) + "\n"
