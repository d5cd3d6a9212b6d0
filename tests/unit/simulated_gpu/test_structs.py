# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Structs: nothing is written beyond their end, and a wrong version word is refused."""

from __future__ import annotations

import json
from typing import Any

from .conftest import Sim

# function, struct of nvidia-ml-py, size that C clients use, version word (0: the struct has none)
STRUCTS: list[tuple[str, str, int, int]] = [
    ("nvmlDeviceGetMemoryInfo", "c_nvmlMemory_t", 24, 0),
    ("nvmlDeviceGetMemoryInfo_v2", "c_nvmlMemory_v2_t", 40, 0x02000028),
    ("nvmlDeviceGetBAR1MemoryInfo", "c_nvmlBAR1Memory_t", 24, 0),
    ("nvmlDeviceGetPciInfo_v3", "nvmlPciInfo_t", 68, 0),
    ("nvmlDeviceGetPciInfoExt", "nvmlPciInfoExt_v1_t", 64, 0x01000040),
    ("nvmlDeviceGetUtilizationRates", "c_nvmlUtilization_t", 8, 0),
    ("nvmlDeviceGetTemperatureV", "c_nvmlTemperature_v1_t", 12, 0x0100000C),
    ("nvmlDeviceGetMarginTemperature", "c_nvmlMarginTemperature_v1_t", 8, 0x01000008),
    ("nvmlDeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t", 28, 0),
    ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v2_t", 36, 0x02000024),
    ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v3_t", 40, 0x03000028),
    ("nvmlDeviceGetSramEccErrorStatus", "c_nvmlEccSramErrorStatus_v1_t", 104, 0x01000068),
    ("nvmlDeviceGetRowRemapperHistogram", "c_nvmlRowRemapperHistogramValues", 20, 0),
    ("nvmlDeviceGetRepairStatus", "c_nvmlRepairStatus_t", 12, 0x0100000C),
    ("nvmlDeviceGetPlatformInfo", "c_nvmlPlatformInfo_v2_t", 44, 0x0200002C),
    ("nvmlDeviceGetAddressingMode", "c_nvmlDeviceAddressingMode_t", 8, 0x01000008),
    ("nvmlDeviceGetGridLicensableFeatures_v4", "c_nvmlGridLicensableFeatures_v4_t", 860, 0),
    ("nvmlDeviceGetDynamicPstatesInfo", "c_nvmlGpuDynamicPstatesInfo_t", 132, 0),
    ("nvmlDeviceGetPerformanceModes", "c_nvmlDevicePerfModes_v1_t", 2052, 0x01000804),
    ("nvmlDeviceGetConfComputeMemSizeInfo", "c_nvmlConfComputeMemSizeInfo_t", 16, 0),
    ("nvmlSystemGetConfComputeState", "c_nvmlConfComputeSystemState_t", 12, 0),
    ("nvmlSystemGetConfComputeCapabilities", "c_nvmlConfComputeSystemCaps_t", 8, 0),
]

CHECK = """
out = {}
GUARD = 64
for function, struct, size, version in json.loads(STRUCTS):
    kind = getattr(p, struct)
    room = (ctypes.c_ubyte * (size + GUARD))(*([0] * size + [0xEE] * GUARD))
    item = kind.from_buffer(room)
    first = () if function.startswith("nvmlSystem") else (h,)
    call = p._nvmlGetFunctionPointer(function)
    def ask(word):
        if version:
            item.version = word
        return call(*first, ctypes.byref(item))
    code = ask(version)
    refused = ask(version ^ 0x01000000) if version else None
    out[struct] = [ctypes.sizeof(kind), code, all(byte == 0xEE for byte in room[size:]), refused]
"""


def test_sizes_ends_and_version_words(sim: Sim) -> None:
    result: dict[str, Any] = sim.python(f"STRUCTS = {json.dumps(STRUCTS)!r}\n" + CHECK)
    expected = {}
    for function, struct, size, version in STRUCTS:
        # the memory call answers 13 to a wrong version word, as the recorded driver does
        refused = None if not version else 13 if function == "nvmlDeviceGetMemoryInfo_v2" else 25
        expected[struct] = [size, 0, True, refused]
    assert result == expected
