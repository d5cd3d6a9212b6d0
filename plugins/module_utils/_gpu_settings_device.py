# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Device settings on NVML: read them, set one, and name what NVML answers. Private to the collection.

Everything here runs in the bounded child and takes its session. Devices come out in the form of gpu_info's `gpus`,
reduced to what settings need.
"""

from __future__ import annotations

import typing as t

from ._gpu_settings_values import COMPUTE_MODES, pci_address
from ._nvml_errors import FUNCTION_NOT_FOUND, GPU_IS_LOST, NO_PERMISSION, NOT_SUPPORTED, RESET_REQUIRED, NvmlError

_COMPUTE_MODE_CODES = {0: "default", 2: "prohibited", 3: "exclusive_process"}
_ABSENT = {NOT_SUPPORTED, FUNCTION_NOT_FOUND, 26}


class Session(t.Protocol):
    """What is used of `_nvml.Session`."""

    def call(self, name: str, *args: t.Any) -> t.Any: ...


def read_all(session: Session) -> list[dict[str, t.Any]]:
    """Every GPU that NVML counts; one that does not answer has a `state` and little else. Handles stay in this process."""
    return [read(session, index)[0] for index in range(session.call("nvmlDeviceGetCount"))]


def read(session: Session, index: int) -> tuple[dict[str, t.Any], t.Any]:
    """Device by index and its handle (None when lost)."""
    device: dict[str, t.Any] = {"index": index, "state": "ok", "uuid": None, "pci_address": None, "product": None}
    try:
        handle = session.call("nvmlDeviceGetHandleByIndex", index)
        device["uuid"] = text(session.call("nvmlDeviceGetUUID", handle))
        device["pci_address"] = pci_address(text(session.call("nvmlDeviceGetPciInfo", handle).busId))
        device["product"] = text(session.call("nvmlDeviceGetName", handle))
        device.update(_settings(session, handle))
    except NvmlError as exc:
        device["state"] = state_of(exc.code)
        device["reason"] = exc.name
        return device, None
    return device, handle


def _settings(session: Session, handle: t.Any) -> dict[str, t.Any]:
    constraints = _try(session, "nvmlDeviceGetPowerManagementLimitConstraints", handle)
    limit = _try(session, "nvmlDeviceGetPowerManagementLimit", handle)
    persistence = _try(session, "nvmlDeviceGetPersistenceMode", handle)
    mode = _try(session, "nvmlDeviceGetComputeMode", handle)
    ecc = _try(session, "nvmlDeviceGetEccMode", handle)
    return {
        "power": {
            "supported": constraints is not None and limit is not None,
            "limit_mw": limit,
            "default_limit_mw": _try(session, "nvmlDeviceGetPowerManagementDefaultLimit", handle),
            "min_limit_mw": constraints[0] if constraints else None,
            "max_limit_mw": constraints[1] if constraints else None,
        },
        "persistence": None if persistence is None else bool(persistence),
        "compute_mode": None if mode is None else _COMPUTE_MODE_CODES.get(mode, str(mode)),
        "ecc": None if ecc is None else {"current": bool(ecc[0]), "pending": bool(ecc[1])},
        "clocks_mhz": {
            "max_graphics": _try(session, "nvmlDeviceGetMaxClockInfo", handle, 0),
            "max_memory": _try(session, "nvmlDeviceGetMaxClockInfo", handle, 2),
        },
    }


def temperature(session: Session, handle: t.Any, sensor: str) -> t.Optional[int]:
    """Degrees of `gpu` or `memory`; None where the sensor does not answer."""
    try:
        if sensor == "gpu":
            return int(session.call("nvmlDeviceGetTemperature", handle, 0))
        field = session.call("nvmlDeviceGetFieldValues", handle, [82])[0]
        return int(field.value.uiVal) if field.nvmlReturn == 0 else None
    except NvmlError as exc:
        if exc.code == GPU_IS_LOST:
            raise
        return None


def _try(session: Session, name: str, *args: t.Any) -> t.Any:
    """The answer, None where the device or the driver does not have it."""
    try:
        return session.call(name, *args)
    except NvmlError as exc:
        if exc.code in (GPU_IS_LOST, RESET_REQUIRED):
            raise
        return None


def write(session: Session, handle: t.Any, key: str, value: t.Any) -> None:
    """Set one setting; NvmlError when refused. Never resets the GPU."""
    if key == "power_limit":
        session.call("nvmlDeviceSetPowerManagementLimit", handle, value)
    elif key == "persistence":
        # NVML hands this to nvidia-persistenced where the daemon runs, so both agree about the state.
        session.call("nvmlDeviceSetPersistenceMode", handle, int(value))
    elif key == "compute_mode":
        codes = {name: code for code, name in _COMPUTE_MODE_CODES.items()}
        session.call("nvmlDeviceSetComputeMode", handle, codes[value])
    elif key == "ecc":
        session.call("nvmlDeviceSetEccMode", handle, int(value))
    else:
        kind = "Gpu" if key == "gpu_clocks" else "Memory"
        if value == "reset":
            session.call(f"nvmlDeviceReset{kind}LockedClocks", handle)
        else:
            session.call(f"nvmlDeviceSet{kind}LockedClocks", handle, *map(int, value.split(",")))


def verdict(code: int) -> str:
    """Status of a setting whose setter answered `code`."""
    if code in _ABSENT:
        return "unsupported"
    return {NO_PERMISSION: "denied", GPU_IS_LOST: "lost", RESET_REQUIRED: "lost", 2: "out_of_range"}.get(code, "error")


def state_of(code: int) -> str:
    return {GPU_IS_LOST: "lost", RESET_REQUIRED: "reset_required"}.get(code, "unavailable")


def text(value: t.Any) -> str:
    """Old pynvml gives bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


__all__ = ["COMPUTE_MODES", "Session", "read", "read_all", "state_of", "temperature", "text", "verdict", "write"]
