# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of nvidia-smi that change a device, with its messages and exit statuses."""

from __future__ import annotations

import ctypes
from typing import Callable

from .. import boot, module, paths, profile
from ..nvml import NOT_SUPPORTED, Nvml, NvmlError
from .values import COMPUTE_MODES, Gpu, onoff, watts

EARLY = "Terminating early due to previous errors."
TEXTS = {
    2: "Invalid Argument",
    3: "Not Supported",
    4: "Insufficient Permissions",
    15: "GPU is lost",
    19: "In use by another client",
    999: "Unknown Error",
}
PERSISTENCE_OFF = (
    "Warning: persistence mode is disabled on device {bus}. "
    "See the Known Issues section of the nvidia-smi(1) man page for more information. "
    "Run with [--help | -h] switch to get more information on how to enable persistence mode."
)


class ChangeError(Exception):
    """What is printed, and the exit status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def onoff_value(option: str, text: str) -> int:
    values = {"0": 0, "DISABLED": 0, "1": 1, "ENABLED": 1}
    if text.upper() not in values:
        raise ChangeError(f"ERROR: Option {text} is invalid for {option}. Please run 'nvidia-smi -h' for help.\n", 2)
    return values[text.upper()]


def numbers(option: str, text: str, kind: Callable[[str], float]) -> list[float]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise ChangeError(f"ERROR: Option {text} is invalid for {option}. Please run 'nvidia-smi -h' for help.\n", 2) from None


def _failed(what: str, gpu: Gpu, error: NvmlError) -> ChangeError:
    return ChangeError(
        f"Failed to {what} for GPU {gpu.bus_id()}: {TEXTS.get(error.code, 'Unknown Error')}\n{EARLY}",
        error.code if error.code < 256 else 255,
    )


def _warn(gpu: Gpu) -> str:
    return "" if gpu.num("nvmlDeviceGetPersistenceMode") else PERSISTENCE_OFF.format(bus=gpu.bus_id()) + "\n"


def power_limit(gpu: Gpu, text: str) -> str:
    wanted = round(numbers("-pl", text, float)[0] * 1000)
    low, high = gpu.nums("nvmlDeviceGetPowerManagementLimitConstraints", 2)
    before = gpu.num("nvmlDeviceGetPowerManagementLimit")
    if low is None or high is None or before is None:
        return f"Changing power management limit is not supported for GPU: {gpu.bus_id()}.\nTreating as warning and moving on.\n"
    if not low <= wanted <= high:
        raise ChangeError(
            f"Provided power limit {watts(wanted)} is not a valid power limit which should be between {watts(low)} and {watts(high)} "
            f"for GPU {gpu.bus_id()}\n{EARLY}",
            2,
        )
    try:
        gpu.nvml.call("nvmlDeviceSetPowerManagementLimit", gpu.handle, ctypes.c_uint(wanted))
    except NvmlError as exc:
        if exc.code == NOT_SUPPORTED:
            return f"Changing power management limit is not supported for GPU: {gpu.bus_id()}.\nTreating as warning and moving on.\n"
        raise _failed("set power management limit", gpu, exc) from None
    if before == wanted:
        return f"Power limit for GPU {gpu.bus_id()} was already {watts(wanted)}.\n" + _warn(gpu)
    return f"Power limit for GPU {gpu.bus_id()} was set to {watts(wanted)} from {watts(before)}.\n" + _warn(gpu)


def _mode(gpu: Gpu, what: str, name: str, getter: Callable[[], object], setter: str, value: int, show: Callable[[int], object]) -> str:
    before = getter()
    if before is None:
        return f"{what} is not supported for GPU {gpu.bus_id()}.\nTreating as warning and moving on.\n"
    if before == value:
        return f"{what} is already {'set to ' if name == 'c' else ''}{show(value)} for GPU {gpu.bus_id()}.\n"
    try:
        gpu.nvml.call(setter, gpu.handle, ctypes.c_uint(value))
    except NvmlError as exc:
        raise _failed(f"set {what.lower()}", gpu, exc) from None
    return ""


def persistence(gpu: Gpu, text: str) -> str:
    value = onoff_value("-pm", text)
    said = _mode(
        gpu,
        "Persistence mode",
        "pm",
        lambda: gpu.num("nvmlDeviceGetPersistenceMode"),
        "nvmlDeviceSetPersistenceMode",
        value,
        lambda v: str(onoff(v)),
    )
    return said or f"Enabled persistence mode for GPU {gpu.bus_id()}.\n".replace("Enabled", str(onoff(value)))


def ecc(gpu: Gpu, text: str) -> str:
    value = onoff_value("-e", text)
    said = _mode(gpu, "ECC mode", "e", lambda: gpu.ecc()[1], "nvmlDeviceSetEccMode", value, lambda v: str(onoff(v)))
    return (
        said or f"{onoff(value)} ECC support for GPU {gpu.bus_id()}.\nReboot required.\n"
        if not said.startswith("ECC mode is already")
        else said
    )


def compute(gpu: Gpu, text: str) -> str:
    names = {str(number): number for number in COMPUTE_MODES} | {name.upper(): number for number, name in COMPUTE_MODES.items()}
    if text.upper() not in names:
        raise ChangeError(f"ERROR: Option {text} is invalid for -c. Please run 'nvidia-smi -h' for help.\n", 2)
    value = names[text.upper()]
    before = COMPUTE_MODES.get(gpu.num("nvmlDeviceGetComputeMode") or 0)
    said = _mode(
        gpu,
        "Compute mode",
        "c",
        lambda: gpu.num("nvmlDeviceGetComputeMode"),
        "nvmlDeviceSetComputeMode",
        value,
        lambda v: COMPUTE_MODES[v].upper(),
    )
    return said or f"Set compute mode to {COMPUTE_MODES[value].upper()} for GPU {gpu.bus_id()} from {str(before).upper()}.\n"


def mig(gpu: Gpu, text: str) -> str:
    value, status = onoff_value("-mig", text), ctypes.c_uint(0)
    try:
        gpu.nvml.call("nvmlDeviceSetMigMode", gpu.handle, ctypes.c_uint(value), ctypes.byref(status))
    except NvmlError as exc:
        if exc.code == NOT_SUPPORTED:
            raise ChangeError(
                f"Unable to {'enable' if value else 'disable'} MIG Mode for GPU {gpu.bus_id()}: Not Supported\n{EARLY}", 3
            ) from None
        raise _failed(f"{'enable' if value else 'disable'} MIG Mode", gpu, exc) from None
    pending = (
        f"Warning: MIG mode is in pending {'enable' if value else 'disable'} state for GPU {gpu.bus_id()}:"
        f"{TEXTS.get(status.value, 'Unknown Error')}\n"
        f"Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU {gpu.bus_id()}\n"
        if status.value
        else ""
    )
    return f"{pending}{onoff(value)} MIG Mode for GPU {gpu.bus_id()}\n"


def lock(gpu: Gpu, text: str, setter: str, what: str) -> str:
    values = [int(v) for v in numbers("-lgc" if "Gpu" in setter else "-lmc", text, int)]
    low, high = values[0], values[-1]
    try:
        gpu.nvml.call(setter, gpu.handle, ctypes.c_uint(low), ctypes.c_uint(high))
    except NvmlError as exc:
        raise _failed(f"set {what} clocks", gpu, exc) from None
    return (
        f'{"Memory" if what == "memory" else "GPU"} clocks set to "({what}ClkMin {low}, {what}ClkMax {high})" for GPU {gpu.bus_id()}\n'
        + _warn(gpu)
    )


def simple(gpu: Gpu, function: str, arguments: tuple[int, ...], what: str, done: str) -> str:
    try:
        gpu.nvml.call(function, gpu.handle, *[ctypes.c_uint(value) for value in arguments])
    except NvmlError as exc:
        raise _failed(what, gpu, exc) from None
    return done.format(bus=gpu.bus_id()) + "\n"


def reset(nvml: Nvml, gpus: list[Gpu]) -> str:
    """The session itself must be closed first: a client is a client."""
    chosen = [(gpu.uuid(), gpu.bus_id()) for gpu in gpus]
    nvml.close()
    here = profile.Machine(paths.etc("profile.conf"))
    try:
        for uuid, _bus in chosen:
            boot.reset(here, here.find(uuid))
    except module.ModuleError as exc:
        raise ChangeError(
            f"The following GPUs could not be reset:\n  {exc}: In use by another client\n\n"
            "1 device is currently being used by one or more other processes.",
            255,
        ) from None
    except PermissionError:
        raise ChangeError(
            "Unable to reset this GPU because it's being used or the caller is not root: Insufficient Permissions", 4
        ) from None
    return "".join(f"GPU {bus} was successfully reset.\n" for _uuid, bus in chosen) + "All done.\n"
