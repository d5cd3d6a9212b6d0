# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A thin ctypes client of libnvidia-ml.so.1, enough for nvidia-smi and nvidia-persistenced here. Any NVML library fits."""

from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_char, c_int, c_longlong, c_uint, c_ulonglong, c_void_p
from typing import Any

NOT_SUPPORTED, NO_PERMISSION, INSUFFICIENT_SIZE, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST, MISMATCH = (
    3,
    4,
    7,
    9,
    12,
    13,
    15,
    18,
)


LIBRARY = os.environ.get("SIMULATED_GPU_LIBRARY", "libnvidia-ml.so.1")


def library_version(path: str) -> str:
    """Of the library, without a session: also where the kernel module is another."""
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return "unknown"
    buffer = ctypes.create_string_buffer(96)
    library.nvmlSystemGetNVMLVersion(buffer, 96)
    return buffer.value.decode().partition(".")[2]


class NvmlError(Exception):
    def __init__(self, code: int, function: str = "") -> None:
        super().__init__(f"{function}: NVML error {code}")
        self.code = code


class Field(ctypes.Structure):
    _fields_ = [
        ("id", c_uint),
        ("scope", c_uint),
        ("timestamp", c_longlong),
        ("latency", c_longlong),
        ("type", c_uint),
        ("result", c_uint),
        ("value", c_ulonglong),
    ]


class Nvml:
    """One session. Every getter raises NvmlError; `ask` gives None instead where the device does not support something."""

    def __init__(self, path: str = LIBRARY) -> None:
        try:
            self.library = ctypes.CDLL(path)
        except OSError:
            raise NvmlError(LIBRARY_NOT_FOUND) from None
        self.call("nvmlInit_v2")

    def call(self, function: str, *arguments: Any) -> bool:
        """True, so that it can stand in expressions; everything else is an NvmlError."""
        try:
            symbol = getattr(self.library, function)
        except AttributeError:
            raise NvmlError(FUNCTION_NOT_FOUND, function) from None
        code = symbol(*arguments)
        if code:
            raise NvmlError(code, function)
        return True

    def close(self) -> None:
        self.call("nvmlShutdown")

    def text(self, function: str, *before: Any, size: int = 2048, sized: bool = True) -> str:
        buffer = (c_char * size)()
        self.call(function, *before, buffer, *([c_uint(size)] if sized else []))
        return buffer.value.decode(errors="replace")

    def number(self, function: str, *before: Any, kind: Any = c_uint) -> int:
        value = kind()
        self.call(function, *before, byref(value))
        return int(value.value)

    def numbers(self, function: str, count: int, *before: Any, kind: Any = c_uint) -> tuple[int, ...]:
        """Separate output arguments."""
        values = [kind() for _unused in range(count)]
        self.call(function, *before, *[byref(value) for value in values])
        return tuple(int(value.value) for value in values)

    def array(self, function: str, count: int, *before: Any, kind: Any = c_uint, version: int | None = None) -> list[int]:
        """A struct of equal members, with a version word in the first where given."""
        values = (kind * count)()
        if version is not None:
            values[0] = version
        self.call(function, *before, values)
        return [int(value) for value in values]

    def device(self, index: int) -> c_void_p:
        handle = c_void_p()
        self.call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(handle))
        return handle

    def find(self, selector: str) -> c_void_p:
        """By index, UUID, serial number or PCI address, as `nvidia-smi -i` takes them."""
        handle = c_void_p()
        if selector.isdigit() and len(selector) < 6:
            return self.device(int(selector))
        for function in ("nvmlDeviceGetHandleByUUID", "nvmlDeviceGetHandleBySerial", "nvmlDeviceGetHandleByPciBusId_v2"):
            try:
                self.call(function, selector.encode(), byref(handle))
                return handle
            except NvmlError as exc:
                error = exc
        raise error

    def field(self, handle: c_void_p, identity: int, scope: int = 0) -> int:
        item = Field(id=identity, scope=scope)
        self.call("nvmlDeviceGetFieldValues", handle, c_int(1), byref(item))
        if item.result:
            raise NvmlError(item.result, f"field {identity}")
        return ctypes.c_int(item.value & 0xFFFFFFFF).value if item.type == 5 else int(item.value)
