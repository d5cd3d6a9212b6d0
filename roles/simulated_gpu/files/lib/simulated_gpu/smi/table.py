# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi without arguments."""

from __future__ import annotations

import time

from ..nvml import Nvml
from .values import Gpu, onoff

WIDE = "+-----------------------------------------------------------------------------------------+"
HEAD = """\
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
"""
RULE = "+-----------------------------------------+------------------------+----------------------+\n"
PROCESSES = f"""\

{WIDE}
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
"""
MODES = {0: "Default", 1: "E. Thread", 2: "Prohibited", 3: "E. Process"}


def _or(value: object, text: str = "N/A") -> str:
    return text if value is None else str(value)


def _gpu(gpu: Gpu) -> str:
    name = gpu.name()
    name = name if len(name) <= 25 else name[:22] + "..."
    fan, temperature, pstate = (
        gpu.num("nvmlDeviceGetFanSpeed"),
        gpu.num("nvmlDeviceGetTemperature", 0),
        gpu.num("nvmlDeviceGetPerformanceState"),
    )
    draw, cap = gpu.num("nvmlDeviceGetPowerUsage"), gpu.num("nvmlDeviceGetEnforcedPowerLimit")
    power = f"{_or(None if draw is None else f'{draw / 1000:.0f}W'):>15} / {_or(None if cap is None else f'{cap / 1000:.0f}W'):>5}"
    memory, utilization = gpu.memory(), gpu.ask(lambda: gpu.nvml.array("nvmlDeviceGetUtilizationRates", 2, gpu.handle))
    ecc = gpu.memory_error(1, 0, 2) if gpu.ecc()[0] else "Off" if gpu.ecc()[0] == 0 else None
    persistence = {"Enabled": "On", "Disabled": "Off", None: "N/A"}[onoff(gpu.num("nvmlDeviceGetPersistenceMode"))]
    display = "On" if gpu.num("nvmlDeviceGetDisplayActive") else "Off"
    used = f"{_or(memory['used'])}MiB / {_or(memory['total']):>6}MiB"
    busy = _or(None if utilization is None else f"{utilization[0]}%")
    state = "N/A" if pstate is None else f"P{pstate}"
    mode = MODES.get(gpu.num("nvmlDeviceGetComputeMode") or 0, "N/A")
    fan_text = "N/A" if fan is None else f"{fan}%"
    return (
        f"|{gpu.index():>4}  {name:<26}{persistence:>7}  |   {gpu.bus_id()} {display:>3} |{_or(ecc):>21} |\n"
        f"| {fan_text:>3}{_or(temperature):>5}C    {state:<3}{power} |{used:>23} |{busy:>8} {mode:>12} |\n"
        f"|{'':41}|{'':24}|{_or(onoff(gpu.mig()[0])):>21} |\n"
    )


def versions(nvml: Nvml) -> tuple[str, str, str]:
    """(tool, driver, CUDA)"""
    cuda = nvml.number("nvmlSystemGetCudaDriverVersion_v2")
    return (
        nvml.text("nvmlSystemGetNVMLVersion").partition(".")[2],
        nvml.text("nvmlSystemGetDriverVersion"),
        f"{cuda // 1000}.{cuda % 1000 // 10}",
    )


def render(nvml: Nvml, gpus: list[Gpu]) -> str:
    tool, driver, cuda = versions(nvml)
    out = f"{time.strftime('%a %b %e %H:%M:%S %Y')}       \n{WIDE}\n"
    out += f"| NVIDIA-SMI {tool:<22} Driver Version: {driver:<14} CUDA Version: {cuda:<8} |\n" + HEAD
    for gpu in gpus:
        out += _gpu(gpu) + RULE
    rows = ""
    for gpu in gpus:
        for kind, pid, memory, name in gpu.processes():
            short = name if len(name) <= 38 else "..." + name[-35:]
            rows += f"|{gpu.index():>5}   N/A  N/A{pid:>17}{kind:>7}   {short:<38}{memory:>7}MiB |\n"
    return (
        out
        + PROCESSES
        + (rows or "|  No running processes found                                                             |\n")
        + WIDE
        + "\n"
    )
