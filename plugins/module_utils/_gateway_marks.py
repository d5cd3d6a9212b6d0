# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Maintenance marks of a gateway: one file, every mark with its owner, reason, run and time. Private to the collection."""

from __future__ import annotations

import typing as t

from ._errors import HostError
from ._files import Written
from ._gateway_paths import MARKS
from ._haproxy_state import BITS
from ._state import read_state, write_state

KIND = "gateway_marks"
Mark = dict[str, str]
KEYS = ("state", "owner", "reason", "run_id", "since")


def read_marks(path: str = MARKS) -> dict[str, Mark]:
    """Server → its mark; HostError where the file cannot be used."""
    marks = (read_state(path, KIND) or {}).get("marks", {})
    for server, mark in marks.items():
        if not isinstance(mark, dict) or set(mark) != set(KEYS) or not all(isinstance(value, str) for value in mark.values()):
            raise HostError(f"{path}: the mark of {server} is {mark!r}; expected {', '.join(KEYS)}, all text. Repair or remove it.")
        if mark["state"] not in BITS:
            raise HostError(f"{path}: the state of {server} is {mark['state']!r}; expected one of {', '.join(BITS)}")
    return t.cast("dict[str, Mark]", marks)


def write_marks(marks: t.Mapping[str, Mark], path: str = MARKS, check: bool = False) -> Written:
    return write_state(path, KIND, {"marks": dict(marks)}, check=check)
