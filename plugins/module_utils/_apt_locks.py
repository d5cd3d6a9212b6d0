# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds a lock of apt or dpkg: apt itself says so only while it waits. Private to the collection."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import typing as t

from ._files import read_text

LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock")
_FLOCK = struct.Struct("hhqqi")
"""struct flock of 64-bit Linux: type, whence, start, length, pid."""


def holder(paths: t.Iterable[str] = LOCKS) -> str:
    """process 4711 (apt-get), of the first lock that somebody holds; empty if nobody does, or nobody that can be seen."""
    for path in paths:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDWR)
            try:
                asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                kind, _whence, _start, _length, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
            finally:
                os.close(descriptor)
            if kind != fcntl.F_UNLCK and pid > 0:
                return f"process {pid} ({(read_text(f'/proc/{pid}/comm') or '?').strip()})"
    return ""
