# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVML's return codes and what they mean for a host. Pure; private to the collection.

Own table, because codes must have names also where no (or a wrong) `pynvml` is installed.
"""

from __future__ import annotations

import typing as t

NAMES: dict[int, str] = {
    1: "UNINITIALIZED",
    2: "INVALID_ARGUMENT",
    3: "NOT_SUPPORTED",
    4: "NO_PERMISSION",
    5: "ALREADY_INITIALIZED",
    6: "NOT_FOUND",
    7: "INSUFFICIENT_SIZE",
    8: "INSUFFICIENT_POWER",
    9: "DRIVER_NOT_LOADED",
    10: "TIMEOUT",
    11: "IRQ_ISSUE",
    12: "LIBRARY_NOT_FOUND",
    13: "FUNCTION_NOT_FOUND",
    14: "CORRUPTED_INFOROM",
    15: "GPU_IS_LOST",
    16: "RESET_REQUIRED",
    17: "OPERATING_SYSTEM",
    18: "LIB_RM_VERSION_MISMATCH",
    19: "IN_USE",
    20: "MEMORY",
    21: "NO_DATA",
    22: "VGPU_ECC_NOT_SUPPORTED",
    23: "INSUFFICIENT_RESOURCES",
    24: "FREQ_NOT_SUPPORTED",
    25: "ARGUMENT_VERSION_MISMATCH",
    26: "DEPRECATED",
    27: "NOT_READY",
    28: "GPU_NOT_FOUND",
    29: "INVALID_STATE",
    30: "RESET_TYPE_NOT_SUPPORTED",
    999: "UNKNOWN",
}

NOT_SUPPORTED = 3
NO_PERMISSION = 4
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16

_STATES: dict[int, tuple[str, str]] = {
    9: ("module_not_loaded", "the nvidia kernel module is not loaded"),
    12: ("no_library", "libnvidia-ml.so.1 is not on this host"),
    15: ("lost", "a GPU has fallen off the bus"),
    18: ("mismatch", "libnvidia-ml.so.1 and the loaded nvidia kernel module have different versions"),
}


class NvmlError(Exception):
    """An NVML call returned `code`."""

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(text or name(code))
        self.code = code
        self.text = text

    @property
    def name(self) -> str:
        return name(self.code)

    def to_dict(self) -> dict[str, t.Any]:
        return {"code": self.code, "name": self.name, "text": self.text}


def name(code: int) -> str:
    """`GPU_IS_LOST` for 15: NVML's own constant without its prefix `NVML_ERROR_`."""
    return NAMES.get(code, f"CODE_{code}")


def state_of(code: int) -> tuple[str, str]:
    """State of the stack when initialisation fails with `code`, and why in words."""
    if code == NO_PERMISSION:
        return "error", "this user may not talk to the NVIDIA driver"
    return _STATES.get(code, ("error", f"NVML cannot be used: {name(code)}"))
