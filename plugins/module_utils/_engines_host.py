# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container engines as they are on a host: binary, version, unit, files, running configuration. Private to the collection."""

from __future__ import annotations

import http.client
import json
import os
import pwd
import re
import shutil
import socket
import time
import typing as t

from ._config_files import read_config, with_imports
from ._subprocess import PATH, run

PROPERTIES = (
    "Id,LoadState,ActiveState,UnitFileState,NeedDaemonReload,ExecStart,InvocationID,ExecMainStartTimestampMonotonic,"
    "After,Before,RequiredBy,BoundBy,FragmentPath,DropInPaths"
)
UNITS = {"docker": "docker.service", "containerd": "containerd.service", "crio": "crio.service"}
BINARIES = {"docker": "dockerd", "containerd": "containerd", "crio": "crio", "podman": "podman"}
_INFO = ("ServerVersion", "Runtimes", "DefaultRuntime", "CDISpecDirs", "LiveRestoreEnabled", "ContainersRunning", "CgroupDriver")
DOCKER_SOCKET = "/run/docker.sock"
_VERSION = re.compile(r"\bv?(\d+\.\d+(?:\.\d+)?)")

Units = t.Mapping[str, t.Mapping[str, str]]


def show_units(names: t.Sequence[str], timeout: float = 10.0) -> dict[str, dict[str, str]]:
    """Properties of the units that exist."""
    result = run(["systemctl", "show", "--property=" + PROPERTIES, "--", *names], timeout=timeout)
    units = {}
    for block in result.out.split("\n\n"):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if fields.get("Id") and fields.get("LoadState", "not-found") != "not-found":
            units[fields["Id"]] = fields
    return units


def read_engines(units: Units, rootless: t.Sequence[str]) -> dict[str, dict[str, t.Any]]:
    """Engine → facts; engines that are not there are left out. `rootless`: users of rootless Docker."""
    found = {}
    for engine in BINARIES:
        unit = units.get(UNITS.get(engine, ""), {})
        binary = _binary(engine, unit)
        if not binary:
            continue
        version = None if engine == "podman" else _version(binary)  # nothing of podman is configured
        facts: dict[str, t.Any] = {"binary": binary, "version": version, "unit": _unit(unit), "files": [], "running": None, "rootless": []}
        if engine == "docker":
            facts["files"] = [read_config(_option(unit, ("--config-file",)) or "/etc/docker/daemon.json")]
            facts["arguments"] = _arguments(unit)
            facts["running"] = docker_info() if facts["unit"]["active"] == "active" else None
            facts["rootless"] = [_rootless(user) for user in rootless]
        elif engine == "containerd":
            root = read_config(_option(unit, ("--config", "-c")) or "/etc/containerd/config.toml")
            facts["files"] = with_imports(root, "/etc/containerd/conf.d/*.toml", "/etc/containerd/conf.d/99-nvidia.toml")
            facts["root"] = root["path"]
            facts["dump"] = _dump([binary, "--config", root["path"], "config", "dump"])
        elif engine == "crio":
            root = read_config("/etc/crio/crio.conf")
            facts["files"] = with_imports(root, "/etc/crio/crio.conf.d/*", "/etc/crio/crio.conf.d/99-nvidia.toml")
        found[engine] = facts
    return found


class _DockerConnection(http.client.HTTPConnection):
    """The daemon's API: the command-line client is a package of its own on some systems."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("docker", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def docker_socket(user: str = "") -> str:
    """Where the host's Docker listens, or the rootless one of a user."""
    return f"/run/user/{pwd.getpwnam(user).pw_uid}/docker.sock" if user else DOCKER_SOCKET


def docker_info(timeout: float = 15.0, path: str = DOCKER_SOCKET) -> t.Optional[dict[str, t.Any]]:
    """What the running daemon says of itself; None if it does not answer."""
    connection = _DockerConnection(path, timeout)
    try:
        connection.request("GET", "/info")
        answer = json.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return {key: answer.get(key) for key in _INFO} if answer.get("ServerVersion") else None


def running_containers() -> int:
    """Containers of any engine, by the processes that watch over them."""
    count = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/comm", encoding="utf-8", errors="replace") as source:
                    count += source.read().strip() in ("containerd-shim", "conmon")
            except OSError:
                continue
    return count


def _unit(unit: t.Mapping[str, str]) -> dict[str, t.Any]:
    start = int(unit.get("ExecMainStartTimestampMonotonic") or 0)
    offset = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
    return {
        "active": unit.get("ActiveState", "not-found"),
        "enabled": unit.get("UnitFileState", ""),
        "invocation": unit.get("InvocationID", ""),
        "started_at": start / 1e6 + offset if start else None,
        "pulls_down": sorted(
            {*unit.get("RequiredBy", "").split(), *unit.get("BoundBy", "").split()} & {"docker.service", "kubelet.service"}
        ),
    }


def _binary(engine: str, unit: t.Mapping[str, str]) -> str:
    """The binary that the unit runs, not the one that happens to come first on the PATH."""
    found = re.search(r"path=(\S+)", unit.get("ExecStart", ""))
    if found and found.group(1).rpartition("/")[2] == BINARIES[engine] and os.access(found.group(1), os.X_OK):
        return found.group(1)
    return shutil.which(BINARIES[engine], path=PATH) or ""


def _arguments(unit: t.Mapping[str, str]) -> list[str]:
    """Arguments that the unit gives: a key that is in the file as well stops the daemon at its next start."""
    words = unit.get("ExecStart", "").partition("argv[]=")[2].partition(" ;")[0].split()[1:]
    return [word for word in words if "$" not in word]


def _option(unit: t.Mapping[str, str], names: t.Sequence[str]) -> str:
    words = unit.get("ExecStart", "").partition("argv[]=")[2].partition(" ;")[0].split()
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else "".join(words[index + 1 : index + 2])
    return ""


def _version(binary: str) -> t.Optional[str]:
    found = _VERSION.search(run([binary, "--version"], timeout=10).out)
    return found.group(1) if found else None


def _dump(argv: t.Sequence[str]) -> dict[str, t.Any]:
    result = run(argv, timeout=15)
    return {"state": "ok" if result.success else "failed", "text": result.out if result.success else "", "error": result.err.strip()[-600:]}


def _rootless(user: str) -> dict[str, t.Any]:
    """Rootless Docker of one user: its file, what its daemon says, and whether it sees /run/cdi; uid None where there is no such user."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        return {"user": user, "uid": None}
    file = read_config(f"{entry.pw_dir}/.config/docker/daemon.json")
    if file["state"] == "ok" and os.stat(file["real"]).st_uid != entry.pw_uid:
        # root must not be led to somebody else's file by a link in a user's home.
        file.update(state="unreadable", text=None, reason=f"it does not belong to {user}")
    return {
        "user": user,
        "uid": entry.pw_uid,
        "running": docker_info(path=docker_socket(user)),
        "sees_cdi": _sees_cdi(entry.pw_uid),
        **file,
    }


def _sees_cdi(uid: int) -> t.Optional[bool]:
    """rootlesskit gives its daemon a copy of the names in /run as they were at its start: a /run/cdi that came later is not in it."""
    try:
        with open(f"/run/user/{uid}/dockerd-rootless/child_pid", encoding="ascii") as source:
            return os.path.isdir(f"/proc/{int(source.read())}/root/run/cdi")
    except (OSError, ValueError):
        return None
