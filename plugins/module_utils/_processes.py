# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Name, user and unit of a process. Private to the collection.

Only files that the kernel answers without the process's memory lock: `cmdline` of a process that hangs
in a driver would hang the reader too.
"""

from __future__ import annotations

import os
import re
import typing as t

from ._reader import Reader

_CONTAINER = re.compile(r"(?:^|[/-])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_UNIT = re.compile(r"([^/]+\.(?:service|scope))(?:/|$)")


class Processes:
    """Looks processes up; user names are read once, from /etc/passwd alone (a directory service may not answer)."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._users: t.Optional[dict[int, str]] = None

    def describe(self, pid: int) -> dict[str, t.Any]:
        """name, user, unit; null where the process is gone or in another pid namespace."""
        return {"name": self._reader.text(self._reader.proc(f"{pid}/comm")), "user": self._user(pid), "unit": self._unit(pid)}

    def _user(self, pid: int) -> t.Optional[str]:
        try:
            uid = os.stat(self._reader.proc(str(pid))).st_uid
        except OSError:
            return None
        if self._users is None:
            rows = [line.split(":") for line in (self._reader.text(self._reader.fs("/etc/passwd")) or "").splitlines()]
            self._users = {int(row[2]): row[0] for row in rows if len(row) > 3 and row[2].isdigit()}
        return self._users.get(uid, str(uid))

    def _unit(self, pid: int) -> t.Optional[str]:
        """The container's id, or else the innermost systemd unit."""
        text = self._reader.text(self._reader.proc(f"{pid}/cgroup")) or ""
        for line in text.splitlines():
            path = line.split(":", 2)[-1]
            container = _CONTAINER.search(path)
            if container:
                return container.group(1)
        units = [unit for line in text.splitlines() for unit in _UNIT.findall(line.split(":", 2)[-1])]
        services = [unit for unit in units if not unit.startswith("user@")]
        return services[-1] if services else None
