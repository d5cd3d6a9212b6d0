# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVML knows of each GPU: the work done in the NVML child. Private to the collection.

Every read stands alone: one that fails leaves its value null and an entry in the GPU's `errors`. Only a GPU
that is lost is not asked further.
"""

from __future__ import annotations

import threading
import typing as t

from ._gpu_parts import PARTS
from ._gpu_read import Gone, Gpu
from ._nvml import Session
from ._nvml_errors import NvmlError, name


def query(session: Session, request: dict[str, t.Any]) -> dict[str, t.Any]:
    """Versions and one entry a GPU, in NVML's order; `details`: also what costs milliseconds and only diagnosis needs."""
    system, errors = _system(session)
    count = session.call("nvmlDeviceGetCount")
    details = bool(request.get("details"))
    return {**system, "errors": errors, "count": count, "gpus": _query_all(session, count, details)}


def _query_all(session: Session, count: int, details: bool) -> list[dict[str, t.Any]]:
    """All GPUs at once: most of the time is attaching to each (7 ms an H200) and waiting for its firmware, side by side in the driver."""
    found: list[t.Any] = [None] * count

    def one(index: int) -> None:
        try:
            found[index] = query_gpu(session, index, details)
        except Exception as exc:
            found[index] = exc

    workers = [threading.Thread(target=one, args=(index,)) for index in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for result in found:
        if isinstance(result, Exception):
            raise result
    return found


def query_gpu(session: Session, index: int, details: bool = False) -> dict[str, t.Any]:
    """One GPU; without `pci_address` where not even that can be read."""
    gpu = Gpu(session, index, details)
    try:
        gpu.open()
        for part in PARTS:
            part(gpu)
    except Gone as exc:
        gpu.out["state"] = exc.state
        gpu.errors["device"] = exc.error
    return {**gpu.out, "errors": gpu.errors}


def _system(session: Session) -> tuple[dict[str, t.Any], dict[str, str]]:
    out: dict[str, t.Any] = {}
    errors: dict[str, str] = {}
    for key, call in (
        ("driver_version", "nvmlSystemGetDriverVersion"),
        ("nvml_version", "nvmlSystemGetNVMLVersion"),
        ("cuda_driver_version", "nvmlSystemGetCudaDriverVersion_v2"),
    ):
        try:
            value = session.call(call)
            out[key] = value.decode() if isinstance(value, bytes) else value
        except NvmlError as exc:
            out[key], errors[key] = None, name(exc.code)
    number = out["cuda_driver_version"]
    out["cuda_driver_version"] = f"{number // 1000}.{number % 1000 // 10}" if number else None
    return out, errors
