# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory errors, temperatures and what they ask for, of one GPU. Private to the collection."""

from __future__ import annotations

import typing as t

from ._gpu_names import RECOVERY_ACTIONS, named
from ._gpu_read import Gpu

_FIELDS = {
    "ecc.current": 1,
    "ecc.pending": 2,
    "row_remap.correctable": 142,
    "row_remap.uncorrectable": 143,
    "row_remap.pending": 144,
    "row_remap.failure": 145,
    "recovery_action": 230,
}
_DETAILS = {"temperature_c.memory": 82}


def _ecc(gpu: Gpu, current: t.Optional[int], pending: t.Optional[int]) -> None:
    """Mode from the fields (a fifth of the call's cost on an H200); the call where a driver lacks them. Counters are for diagnosis."""
    if current is None or pending is None:
        for part in ("ecc.current", "ecc.pending"):
            gpu.errors.pop(part, None)
        mode = gpu.get("ecc", "nvmlDeviceGetEccMode")
        if mode is None:
            return
        current, pending = mode[0], mode[1]
    default = gpu.detail("ecc.default", "nvmlDeviceGetDefaultEccMode")
    if isinstance(default, (list, tuple)):  # pynvml 13 wraps it
        default = default[0] if default else None
    out: dict[str, t.Any] = {"current": bool(current), "pending": bool(pending), "default": None if default is None else bool(default)}
    if out["current"]:
        for kind, error_type in (("corrected", 0), ("uncorrected", 1)):
            for scope, counter in (("volatile", 0), ("aggregate", 1)):
                key = f"{scope}_{kind}"
                out[key] = gpu.detail(f"ecc.{key}", "nvmlDeviceGetTotalEccErrors", error_type, counter)
    gpu.out["ecc"] = out


def by_field(gpu: Gpu) -> None:
    """What one call gives together: ECC mode, row remapping, recovery action."""
    values = gpu.fields({**_FIELDS, **(_DETAILS if gpu.details else {})})
    _ecc(gpu, values["ecc.current"], values["ecc.pending"])
    thresholds = ("shutdown", "slowdown", "memory_max", "max_operating")
    gpu.out["temperature_c"] = {
        "gpu": gpu.get("temperature_c.gpu", "nvmlDeviceGetTemperature", 0),
        "memory": values.get("temperature_c.memory"),
        **{key: gpu.detail(f"temperature_c.{key}", "nvmlDeviceGetTemperatureThreshold", n) for n, key in enumerate(thresholds)},
    }
    keys = ("correctable", "uncorrectable", "pending", "failure")
    remap = {key: values[f"row_remap.{key}"] for key in keys}
    if remap["correctable"] is not None:
        gpu.out["row_remap"] = {**remap, "pending": bool(remap["pending"]), "failure": bool(remap["failure"])}
    gpu.out["recovery_action"] = named(RECOVERY_ACTIONS, values["recovery_action"])


def retired_pages(gpu: Gpu) -> None:
    """Before Ampere; later GPUs remap rows."""
    if gpu.out.get("row_remap"):
        return
    pending = gpu.get("retired_pages", "nvmlDeviceGetRetiredPagesPendingStatus")
    if pending is not None:
        single = gpu.get("retired_pages.single_bit", "nvmlDeviceGetRetiredPages", 0)
        double = gpu.get("retired_pages.double_bit", "nvmlDeviceGetRetiredPages", 1)
        count = [None if pages is None else len(pages) for pages in (single, double)]
        gpu.out["retired_pages"] = {"single_bit": count[0], "double_bit": count[1], "pending": bool(pending)}
