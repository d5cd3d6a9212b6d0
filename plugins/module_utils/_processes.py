# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Name, user, unit and container of a process. Private to the collection.

Only files that the kernel answers without the process's memory lock: `cmdline` of a process that hangs
in a driver would hang the reader too.
"""

from __future__ import annotations

import json
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

    def describe_fully(self, pid: int) -> dict[str, t.Any]:
        """As `describe`, but the systemd unit also of a process in a container, and the container by id and name."""
        paths = self._cgroups(pid)
        found = next((match.group(1) for match in map(_CONTAINER.search, paths) if match), None)
        container = {"id": found, "name": self._container_name(found)} if found else None
        return {**self.describe(pid), "unit": _service(paths), "container": container}

    def _cgroups(self, pid: int) -> list[str]:
        text = self._reader.text(self._reader.proc(f"{pid}/cgroup")) or ""
        return [line.split(":", 2)[-1] for line in text.splitlines()]

    def _unit(self, pid: int) -> t.Optional[str]:
        """The container's id, or else the innermost systemd unit."""
        paths = self._cgroups(pid)
        return next((match.group(1) for match in map(_CONTAINER.search, paths) if match), None) or _service(paths)

    def _container_name(self, found: str) -> t.Optional[str]:
        """The name that people gave it, from the engine's own files: asking an engine could take long."""
        docker = self._json(f"/var/lib/docker/containers/{found}/config.v2.json")
        if isinstance(docker, dict) and docker.get("Name"):
            return str(docker["Name"]).lstrip("/")
        for entry in self._json("/var/lib/containers/storage/overlay-containers/containers.json") or []:
            if isinstance(entry, dict) and entry.get("id") == found and entry.get("names"):
                return str(entry["names"][0])
        return None

    def _json(self, path: str) -> t.Any:
        try:
            return json.loads(self._reader.data(self._reader.fs(path)) or b"null")
        except ValueError:
            return None


def _service(paths: t.Iterable[str]) -> t.Optional[str]:
    units = [unit for path in paths for unit in _UNIT.findall(path) if not unit.startswith("user@")]
    return units[-1] if units else None
