# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record what NVML answers on a real machine: read-only calls, no setter, as any user.

    python3 record.py > detail.json        # needs nvidia-ml-py 13

What the wrappers of nvidia-ml-py lose is recorded here in raw form: field value types, scoped fields, versioned structs,
calls with arguments.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any, Callable

import pynvml

SCOPED_BY_LINK = (138, 139, 140, 141, 146, 160, 161, 162, 163, 164, 165, 166, 167)
SCOPED_BY_POWER_DOMAIN = (185, 186, 187, 188, 189, 190, 191, 192)


def plain(value: Any) -> Any:
    """ctypes structures, arrays and tuples as JSON."""
    if isinstance(value, ctypes.Structure):
        return {name[0]: plain(getattr(value, name[0])) for name in value._fields_ if name[0] != "device"}
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (ctypes.Array, list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "value") and not isinstance(value, (int, float, str)):
        return plain(value.value)
    return value


def attempt(call: Callable[..., Any], *args: Any) -> Any:
    try:
        return plain(call(*args))
    except pynvml.NVMLError as exc:
        return {"error": exc.value}
    except Exception as exc:  # a wrapper that does not fit this driver: worth knowing, not worth stopping for
        return {"exception": f"{type(exc).__name__}: {exc}"}


def fields(handle: Any, scopes: dict[int, list[int]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field in range(1, 320):
        for scope in scopes.get(field, [0]):
            item = (pynvml.c_nvmlFieldValue_t * 1)()
            item[0].fieldId, item[0].scopeId = field, scope
            rc = pynvml._nvmlGetFunctionPointer("nvmlDeviceGetFieldValues")(handle, 1, ctypes.byref(item))
            one = item[0]
            out[f"{field}.{scope}"] = (
                {"rc": rc} if rc else ({"rc": one.nvmlReturn} if one.nvmlReturn else {"type": one.valueType, "value": one.value.sllVal})
            )
    return out


def versioned(handle: Any, symbol: str, struct: Any, word: int, prepare: Callable[[Any], None] = lambda s: None) -> Any:
    item = struct()
    item.version = word
    prepare(item)
    try:
        rc = pynvml._nvmlGetFunctionPointer(symbol)(handle, ctypes.byref(item))
    except pynvml.NVMLError as exc:
        return {"error": exc.value}
    return {"error": rc} if rc else plain(item)


def device(index: int, count: int) -> dict[str, Any]:
    h = pynvml.nvmlDeviceGetHandleByIndex(index)
    p = pynvml
    links = range(18)
    out: dict[str, Any] = {
        "fields": fields(h, {**{f: [*links, 18] for f in SCOPED_BY_LINK}, **{f: [0, 1, 2] for f in SCOPED_BY_POWER_DOMAIN}}),
        "inforom": {o: attempt(p.nvmlDeviceGetInforomVersion, h, o) for o in range(5)},
        "clock": {f"{t}.{i}": attempt(p.nvmlDeviceGetClock, h, t, i) for t in range(4) for i in range(5)},
        "max_customer_boost": {t: attempt(p.nvmlDeviceGetMaxCustomerBoostClock, h, t) for t in range(4)},
        "default_application_clock": {t: attempt(p.nvmlDeviceGetDefaultApplicationsClock, h, t) for t in range(4)},
        "clock_range_of_pstate": {
            f"{t}.{s}": attempt(p.nvmlDeviceGetMinMaxClockOfPState, h, t, s) for t in range(4) for s in (0, 1, 2, 8, 32)
        },
        "graphics_clocks": {m: attempt(p.nvmlDeviceGetSupportedGraphicsClocks, h, m) for m in (3201, 2201, 1000)},
        "temperature": {s: attempt(p.nvmlDeviceGetTemperature, h, s) for s in range(4)},
        "threshold": {s: attempt(p.nvmlDeviceGetTemperatureThreshold, h, s) for s in range(10)},
        "thermal_settings": {s: attempt(p.nvmlDeviceGetThermalSettings, h, s) for s in (0, 1, 15)},
        "memory_error": {
            f"{e}.{c}.{loc}": attempt(p.nvmlDeviceGetMemoryErrorCounter, h, e, c, loc) for e in (0, 1) for c in (0, 1) for loc in range(9)
        },
        "total_ecc": {f"{e}.{c}": attempt(p.nvmlDeviceGetTotalEccErrors, h, e, c) for e in (0, 1) for c in (0, 1)},
        "detailed_ecc": {f"{e}.{c}": attempt(p.nvmlDeviceGetDetailedEccErrors, h, e, c) for e in (0, 1) for c in (0, 1)},
        "retired": {c: attempt(p.nvmlDeviceGetRetiredPages, h, c) for c in (0, 1)},
        "retired_v2": {c: attempt(p.nvmlDeviceGetRetiredPages_v2, h, c) for c in (0, 1)},
        "violation": {v: attempt(p.nvmlDeviceGetViolationStatus, h, v) for v in range(12)},
        "pcie_throughput": {c: attempt(p.nvmlDeviceGetPcieThroughput, h, c) for c in (0, 1, 2)},
        "api_restriction": {a: attempt(p.nvmlDeviceGetAPIRestriction, h, a) for a in (0, 1, 2)},
        "encoder_capacity": {t: attempt(p.nvmlDeviceGetEncoderCapacity, h, t) for t in (0, 1, 2)},
        "nvlink_state": {i: attempt(p.nvmlDeviceGetNvLinkState, h, i) for i in range(20)},
        "nvlink_version": {i: attempt(p.nvmlDeviceGetNvLinkVersion, h, i) for i in range(20)},
        "nvlink_capability": {f"{i}.{c}": attempt(p.nvmlDeviceGetNvLinkCapability, h, i, c) for i in (0, 17, 18) for c in range(8)},
        "nvlink_error": {f"{i}.{c}": attempt(p.nvmlDeviceGetNvLinkErrorCounter, h, i, c) for i in (0, 17, 18) for c in range(6)},
        "nvlink_remote_type": {i: attempt(p.nvmlDeviceGetNvLinkRemoteDeviceType, h, i) for i in range(20)},
        "nvlink_remote_pci": {i: attempt(p.nvmlDeviceGetNvLinkRemotePciInfo, h, i) for i in (0, 17, 18)},
        "fan_speed_v2": {i: attempt(p.nvmlDeviceGetFanSpeed_v2, h, i) for i in (0, 1)},
        "cpu_affinity": attempt(p.nvmlDeviceGetCpuAffinity, h, 4),
        "memory_affinity": attempt(p.nvmlDeviceGetMemoryAffinity, h, 4, 0),
        "is_mig": attempt(p.nvmlDeviceIsMigDeviceHandle, h),
        "mig_device_0": attempt(p.nvmlDeviceGetMigDeviceHandleByIndex, h, 0),
        "gi_profile": {i: attempt(p.nvmlDeviceGetGpuInstanceProfileInfo, h, i) for i in range(16)},
        "gi_remaining": {i: attempt(p.nvmlDeviceGetGpuInstanceRemainingCapacity, h, i) for i in (0, 5, 9, 14, 15, 19, 20)},
        "process_utilization": attempt(p.nvmlDeviceGetProcessUtilization, h, 0),
        "margin": versioned(h, "nvmlDeviceGetMarginTemperature", p.c_nvmlMarginTemperature_v1_t, 0x01000008),
        "temperature_v": versioned(h, "nvmlDeviceGetTemperatureV", p.c_nvmlTemperature_v1_t, 0x0100000C),
        "sram_ecc": versioned(h, "nvmlDeviceGetSramEccErrorStatus", p.c_nvmlEccSramErrorStatus_v1_t, 0x01000068),
        "platform_v1": versioned(h, "nvmlDeviceGetPlatformInfo", p.c_nvmlPlatformInfo_v1_t, 0x0100002C),
        "platform_v2": versioned(h, "nvmlDeviceGetPlatformInfo", p.c_nvmlPlatformInfo_v2_t, 0x0200002C),
        "fabric_v2": versioned(h, "nvmlDeviceGetGpuFabricInfoV", p.c_nvmlGpuFabricInfo_v2_t, 0x02000024),
        "fabric_v3": versioned(h, "nvmlDeviceGetGpuFabricInfoV", p.c_nvmlGpuFabricInfo_v3_t, 0x03000028),
        "fabric_bad_version": versioned(h, "nvmlDeviceGetGpuFabricInfoV", p.c_nvmlGpuFabricInfo_v2_t, 0x02000023),
        "memory_bad_version": versioned(h, "nvmlDeviceGetMemoryInfo_v2", p.c_nvmlMemory_v2_t, 0x02000029),
        "pci_ext": versioned(h, "nvmlDeviceGetPciInfoExt", p.nvmlPciInfoExt_v1_t, 0x01000040),
        "peers": {},
    }
    for other in range(count):
        o = p.nvmlDeviceGetHandleByIndex(other)
        out["peers"][other] = {
            "topology": attempt(p.nvmlDeviceGetTopologyCommonAncestor, h, o),
            "same_board": attempt(p.nvmlDeviceOnSameBoard, h, o),
            "p2p": {i: attempt(p.nvmlDeviceGetP2PStatus, h, o, i) for i in range(7)},
        }
    return out


def main() -> None:
    pynvml.nvmlInit()
    count = pynvml.nvmlDeviceGetCount()
    p = pynvml
    result = {
        "driver": p.nvmlSystemGetDriverVersion(),
        "system": {
            "bad_index": attempt(p.nvmlDeviceGetHandleByIndex, count),
            "bad_uuid": attempt(p.nvmlDeviceGetHandleByUUID, "GPU-x"),
            "bad_pci": attempt(p.nvmlDeviceGetHandleByPciBusId, "0000:ff:1f.0"),
            "process_name": attempt(p.nvmlSystemGetProcessName, 999999),
            "units": attempt(p.nvmlUnitGetCount),
            "conf_compute_settings": attempt(p.nvmlSystemGetConfComputeSettings),
            "short_name": p._nvmlGetFunctionPointer("nvmlDeviceGetName")(
                p.nvmlDeviceGetHandleByIndex(0), ctypes.create_string_buffer(4), 4
            ),
        },
        "devices": [device(i, count) for i in range(count)],
    }
    pynvml.nvmlShutdown()
    result["after_shutdown"] = {
        "count": attempt(p.nvmlDeviceGetCount),
        "driver": attempt(p.nvmlSystemGetDriverVersion),
        "nvml": attempt(p.nvmlSystemGetNVMLVersion),
        "cuda": attempt(p.nvmlSystemGetCudaDriverVersion),
    }
    json.dump(result, sys.stdout, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
