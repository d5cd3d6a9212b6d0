# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What processes have open, by /proc within a time budget. Private to the collection."""

from __future__ import annotations

import os
import time
import typing as t

from ._reader import Reader

_BUDGET = 2.0
"""Seconds for a walk through /proc; a host with very many open files is not worth more on every call."""


def open_files(reader: Reader, part: str) -> t.Iterator[tuple[int, str]]:
    """(pid, target of the descriptor's link) of every process; `part` is noted as unread where not all could be seen."""
    until, unseen = time.monotonic() + _BUDGET, 0
    for pid in (int(name) for name in reader.names(reader.proc("")) if name.isdigit()):
        if time.monotonic() > until:
            reader.note(part, f"not all of /proc was looked through in {_BUDGET:g} s")
            break
        folder = reader.proc(f"{pid}/fd")
        try:
            numbers = os.listdir(folder)
        except PermissionError:
            unseen += 1
            continue
        except OSError:  # it ended
            continue
        for number in numbers:
            try:
                yield pid, os.readlink(f"{folder}/{number}")
            except OSError:
                continue
    if unseen:
        reader.note(part, f"open files of {unseen} processes: permission denied", needs_root=True)
