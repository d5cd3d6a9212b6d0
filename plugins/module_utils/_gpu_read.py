# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guarded reads of one GPU inside an NVML session. Private to the collection."""

from __future__ import annotations

import typing as t

from ._nvml import Session
from ._nvml_errors import GPU_IS_LOST, RESET_REQUIRED, NvmlError

_GONE = {GPU_IS_LOST: "lost", RESET_REQUIRED: "reset_required"}
_VALUES = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal", 7: "usVal"}
"""Member of the value union, by its type."""


class Gone(Exception):
    """The GPU answers nothing any more."""

    def __init__(self, state: str, error: str) -> None:
        super().__init__(error)
        self.state = state
        self.error = error


class Gpu:
    """One GPU, what was read of it (`out`) and what could not be (`errors`: part → NVML error name)."""

    def __init__(self, session: Session, index: int, details: bool = False) -> None:
        self.session = session
        self.details = details
        self.out: dict[str, t.Any] = {"index": index, "state": "ok"}
        self.errors: dict[str, str] = {}
        self._handle: t.Any = None

    def open(self) -> None:
        """Get the handle; a GPU whose handle cannot be had has nothing to read."""
        try:
            self._handle = self.session.call("nvmlDeviceGetHandleByIndex", self.out["index"])
        except NvmlError as exc:
            raise Gone(_GONE.get(exc.code, "unavailable"), exc.name) from None

    def get(self, part: str, name: str, *args: t.Any) -> t.Any:
        """`name(handle, *args)`, or None with the error under `part`."""
        try:
            value = self.session.call(name, self._handle, *args)
        except NvmlError as exc:
            if exc.code in _GONE:
                raise Gone(_GONE[exc.code], exc.name) from None
            self.errors[part] = exc.name
            return None
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def detail(self, part: str, name: str, *args: t.Any) -> t.Any:
        """Like `get`, for what only diagnosis needs: None unless details are asked for."""
        return self.get(part, name, *args) if self.details else None

    def fields(self, wanted: t.Mapping[str, int]) -> dict[str, t.Any]:
        """Several field values in one call: part → value or None."""
        values = self.get("fields", "nvmlDeviceGetFieldValues", list(wanted.values()))
        out: dict[str, t.Any] = dict.fromkeys(wanted)
        for part, value in zip(wanted, values or ()):
            if value.nvmlReturn == 0:
                out[part] = getattr(value.value, _VALUES.get(value.valueType, "ullVal"))
            else:
                self.errors[part] = NvmlError(value.nvmlReturn).name
        return out
