# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVLink and fabric of one GPU. Private to the collection."""

from __future__ import annotations

import ctypes
import typing as t

from ._gpu_names import FABRIC_STATES, NVLINK_REMOTES, NVLINK_VERSIONS, fabric_health, named
from ._gpu_read import Gpu
from ._nvml_errors import NvmlError, name

_LINK_COUNT = 91
_MAX_LINKS = 18
"""Tried one by one where the driver does not tell the number of links."""


def nvlink(gpu: Gpu) -> None:
    count = gpu.fields({"nvlink": _LINK_COUNT})["nvlink"]
    if count == 0 or gpu.errors.get("nvlink") == "NOT_SUPPORTED":
        return
    active: list[int] = []
    for link in range(count or _MAX_LINKS):
        state = gpu.get("nvlink.active", "nvmlDeviceGetNvLinkState", link)
        if state is None:
            break
        active.append(state)
    if not active:
        return
    if gpu.errors.get("nvlink.active") and count is None:  # the first link that does not exist
        del gpu.errors["nvlink.active"]
    remote = gpu.get("nvlink.remote", "nvmlDeviceGetNvLinkRemoteDeviceType", active.index(1)) if 1 in active else None
    version = gpu.get("nvlink.version", "nvmlDeviceGetNvLinkVersion", 0)
    gpu.out["nvlink"] = {
        "links": count or len(active),
        "active": sum(active),
        "version": named(NVLINK_VERSIONS, version),
        "remote": "none" if 1 not in active else NVLINK_REMOTES.get(255 if remote is None else remote, "unknown"),
    }


def fabric(gpu: Gpu) -> None:
    """Versioned call first, the older one where driver or pynvml lack it."""
    for structure, call in (
        ("c_nvmlGpuFabricInfo_v2_t", "nvmlDeviceGetGpuFabricInfoV"),
        ("c_nvmlGpuFabricInfo_t", "nvmlDeviceGetGpuFabricInfo"),
    ):
        try:
            info = gpu.session.attribute(structure)()
        except NvmlError as exc:
            gpu.errors["fabric"] = exc.name
            continue
        if gpu.get("fabric", call, ctypes.byref(info)) is not None:
            gpu.errors.pop("fabric", None)
            gpu.out["fabric"] = _fabric_facts(info)
            return
        if gpu.errors["fabric"] not in ("FUNCTION_NOT_FOUND", "ARGUMENT_VERSION_MISMATCH"):
            return


def _fabric_facts(info: t.Any) -> dict[str, t.Any]:
    state = named(FABRIC_STATES, info.state)
    digits = "".join(f"{byte:02x}" for byte in info.clusterUuid)
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return {
        "state": state,
        "status": ("SUCCESS" if info.status == 0 else name(info.status)) if state == "completed" else None,
        "cluster_uuid": uuid if digits.strip("0") else None,
        "clique_id": info.cliqueId if state == "completed" else None,
        "health": fabric_health(info.healthMask) if state == "completed" and hasattr(info, "healthMask") else None,
    }
