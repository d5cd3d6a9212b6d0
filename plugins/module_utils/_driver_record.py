# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/var/lib/gpufleet/driver.json: which driver packages and holds are ours. Private to the collection."""

from __future__ import annotations

import typing as t

from ._files import remove
from ._paths import DRIVER_RECORD
from ._state import read_state, write_state

KIND = "driver_record"


def read_record(path: str = DRIVER_RECORD) -> dict[str, t.Any]:
    """The record without its schema number; empty parts where there is no file."""
    state = read_state(path, KIND) or {}
    return {"packages": {}, "holds": [], **{key: value for key, value in state.items() if key != "schema"}}


def update_record(changes: t.Mapping[str, t.Any], path: str = DRIVER_RECORD) -> bool:
    """Set keys of the record; whether that changed the file. A record of nothing is no file."""
    state = {**read_record(path), **changes}
    kept = {key: value for key, value in state.items() if value or key in ("packages", "holds")}
    return write_state(path, KIND, kept).changed if any(kept.values()) else remove(path).changed
