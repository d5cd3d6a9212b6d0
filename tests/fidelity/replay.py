# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replay h200x2.json through nvidia-ml-py and the libnvidia-ml.so.1 that the dynamic linker finds.

LD_LIBRARY_PATH=… python3 replay.py h200x2.json       # prints {"compared": N, "different": [[what, got, recorded], …]}
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from typing import Any, Callable

import pynvml

MEMBER = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal"}


def plain(value: Any) -> Any:
    if isinstance(value, ctypes.Structure):
        return {field[0]: plain(getattr(value, field[0])) for field in value._fields_}
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (list, tuple, ctypes.Array)):
        return [plain(item) for item in value]
    return value


def ask(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return plain(call(*arguments))
    except pynvml.NVMLError as exc:
        return {"error": exc.value}


def fabric2(handle: Any) -> Any:
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    info.version = 0x02000024
    pynvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    return info


# name in with_arguments (its number becomes {n}) -> the call
CALLS: dict[str, Callable[..., Any]] = {
    "temp_threshold_{}": pynvml.nvmlDeviceGetTemperatureThreshold,
    "temp_threshold_x{}": pynvml.nvmlDeviceGetTemperatureThreshold,
    "temperature": lambda h: pynvml.nvmlDeviceGetTemperature(h, 0),
    "clock_{}": pynvml.nvmlDeviceGetClockInfo,
    "maxclock_{}": pynvml.nvmlDeviceGetMaxClockInfo,
    "appclock_{}": pynvml.nvmlDeviceGetApplicationsClock,
    "memv2": lambda h: pynvml.nvmlDeviceGetMemoryInfo(h, version=pynvml.nvmlMemory_v2),
    "ecc_{}_{}": pynvml.nvmlDeviceGetTotalEccErrors,
    "nvlink_state_{}": pynvml.nvmlDeviceGetNvLinkState,
    "nvlink_ver": lambda h: pynvml.nvmlDeviceGetNvLinkVersion(h, 0),
    "nvlink_remote": lambda h: pynvml.nvmlDeviceGetNvLinkRemotePciInfo(h, 0),
    "nvlink_rtype": lambda h: pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(h, 0),
    "fabric2": fabric2,
    "topo_{}": lambda h, n: pynvml.nvmlDeviceGetTopologyCommonAncestor(h, pynvml.nvmlDeviceGetHandleByIndex(n)),
    "p2p_{}": lambda h, n: pynvml.nvmlDeviceGetP2PStatus(h, pynvml.nvmlDeviceGetHandleByIndex(n), pynvml.NVML_P2P_CAPS_INDEX_PROP),
    "cpu_aff": lambda h: pynvml.nvmlDeviceGetCpuAffinity(h, 4),
    "mig_profiles": lambda h: [pynvml.nvmlDeviceGetGpuInstanceProfileInfo(h, n) for n in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT)],
}


def call_for(name: str) -> tuple[Callable[..., Any], list[int]]:
    if name in CALLS:
        return CALLS[name], []
    return CALLS[re.sub(r"(?<=[_x])\d+", "{}", name)], [int(number) for number in re.findall(r"(?<=[_x])\d+", name)]


def field_values(handle: Any, names: list[str]) -> dict[str, Any]:
    values = pynvml.nvmlDeviceGetFieldValues(handle, [getattr(pynvml, name) for name in names])
    return {name: {"error": v.nvmlReturn} if v.nvmlReturn else getattr(v.value, MEMBER[v.valueType]) for name, v in zip(names, values)}


def main(path: str) -> None:
    with open(path, encoding="utf-8") as handle:
        recording = json.load(handle)
    pynvml.nvmlInit()
    pairs: list[tuple[str, Any, Any]] = [(name, ask(getattr(pynvml, name)), recorded) for name, recorded in recording["system"].items()]
    for index, device in enumerate(recording["devices"]):
        gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
        pairs += [(f"{index} {name}", ask(getattr(pynvml, name), gpu), recorded) for name, recorded in device["getters"].items()]
        for name, recorded in device["with_arguments"].items():
            call, arguments = call_for(name)
            pairs.append((f"{index} {name}", ask(call, gpu, *arguments), recorded))
        got = field_values(gpu, list(device["fields"]))
        pairs += [(f"{index} {name}", got[name], recorded) for name, recorded in device["fields"].items()]
    pynvml.nvmlShutdown()
    different = [[what, got, recorded] for what, got, recorded in pairs if got != recorded]
    json.dump({"compared": len(pairs), "different": different}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
