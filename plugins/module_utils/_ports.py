# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who listens on which TCP port, from /proc alone. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from ._open_files import open_files
from ._processes import Processes
from ._reader import Reader

_LISTEN = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


def listening(reader: Reader, only: t.Optional[t.Container[int]] = None) -> dict[str, dict[str, t.Any]]:
    """Port (as JSON has keys) → pid, process, unit; null where the owner's files may not be read, or it lives in another pid namespace."""
    sockets: dict[str, int] = {}
    for name in ("tcp", "tcp6"):
        for line in (reader.text(reader.proc(f"net/{name}")) or "").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTEN:
                port = int(fields[1].rpartition(":")[2], 16)
                if only is None or port in only:
                    sockets[fields[9]] = port
    owners, described = _owners(reader, sockets), Processes(reader)
    out: dict[str, dict[str, t.Any]] = {}
    for inode, port in sorted(sockets.items(), key=lambda item: (item[1], item[0] not in owners)):
        pid = owners.get(inode)
        about = described.describe_fully(pid) if pid else {"name": None, "unit": None}
        out.setdefault(str(port), {"pid": pid, "process": about["name"], "unit": about["unit"]})
    return out


def _owners(reader: Reader, sockets: t.Container[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for pid, target in open_files(reader, "ports"):
        match = _SOCKET.fullmatch(target)
        if match and match.group(1) in sockets:
            found.setdefault(match.group(1), pid)
    return found
