# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/var/lib/gpufleet/cuda.json: which packages, runfile toolkits and links are ours. Private to the collection."""

from __future__ import annotations

import typing as t

from ._driver_record import read_record as _read
from ._driver_record import update_record as _update
from ._paths import CUDA_RECORD

KIND = "cuda_record"


def read_record() -> dict[str, t.Any]:
    """The record without its schema number; empty parts where there is no file."""
    return _read(CUDA_RECORD, KIND)


def update_record(changes: t.Mapping[str, t.Any]) -> bool:
    """Set keys of the record (None drops one); whether that changed the file."""
    return _update(changes, CUDA_RECORD, KIND)
