# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MIG mode and devices of one GPU. Private to the collection."""

from __future__ import annotations

import typing as t

from ._gpu_read import Gpu


def mig(gpu: Gpu) -> None:
    mode = gpu.get("mig", "nvmlDeviceGetMigMode")
    if mode is None:
        return
    read = gpu.get if any(mode) else gpu.detail
    maximum = read("mig.max_devices", "nvmlDeviceGetMaxMigDeviceCount")
    devices = [_mig_device(gpu, index) for index in range(maximum or 0)] if mode[0] else []
    gpu.out["mig"] = {"current": bool(mode[0]), "pending": bool(mode[1]), "max_devices": maximum, "devices": [d for d in devices if d]}


def _mig_device(gpu: Gpu, index: int) -> t.Optional[dict[str, t.Any]]:
    handle = gpu.get("mig.devices", "nvmlDeviceGetMigDeviceHandleByIndex", index)
    if handle is None:
        if gpu.errors.get("mig.devices") == "NOT_FOUND":  # a free slot
            del gpu.errors["mig.devices"]
        return None
    part = Gpu(gpu.session, index)
    part._handle = handle
    size = part.get("memory", "nvmlDeviceGetMemoryInfo")
    return {
        "uuid": part.get("uuid", "nvmlDeviceGetUUID"),
        "name": part.get("name", "nvmlDeviceGetName"),
        "gpu_instance": part.get("gpu_instance", "nvmlDeviceGetGpuInstanceId"),
        "compute_instance": part.get("compute_instance", "nvmlDeviceGetComputeInstanceId"),
        "memory_bytes": None if size is None else size.total,
    }
