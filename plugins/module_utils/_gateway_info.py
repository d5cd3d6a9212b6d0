# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway as it is: HAProxy's version, files, unit, the process that runs. Private to the collection."""

from __future__ import annotations

import hashlib
import os
import re
import typing as t

from . import _gateway_paths as paths
from ._errors import HostError
from ._files import read_text, sha256
from ._gateway_marks import read_marks
from ._gpu_settings_core import installed_sha256
from ._gpu_settings_systemd import ask as ask_systemd
from ._gpu_settings_systemd import running as systemd_runs
from ._haproxy_socket import ask
from ._haproxy_state import parse
from ._state import read_state
from ._subprocess import run

BINARIES = ("/usr/sbin/haproxy", "/usr/local/sbin/haproxy")
_VERSION = re.compile(r"version (\d+\.\d+[^ ]*)")
_LOADED = re.compile(r"^description: gpufleet ([0-9a-f]{64})$", re.M)


def collect() -> dict[str, t.Any]:
    """The whole answer of gateway_info. It holds hashes of the secret files, not their content."""
    binary = next((path for path in BINARIES if os.path.exists(path)), None)
    config = read_text(paths.CONFIG)
    return {
        "binary": binary,
        "version": version_of(binary) if binary else None,
        "config": config,
        "pristine": config is None or _pristine(config),
        "files": {path: _file(path) for path in (paths.CONFIG, paths.CLIENTS, paths.ENGINE_KEYS, paths.POOLS)},
        "drop_in": read_text(paths.DROP_IN),
        "runtime_sha256": installed_sha256(paths.RUNTIME),
        "record": read_state(paths.RECORD, "gateway_record"),
        "unit": (ask_systemd([paths.UNIT]).get(paths.UNIT) if systemd_runs() else None),
        **_process(),
        **_marks(),
    }


def version_of(binary: str) -> t.Optional[str]:
    found = _VERSION.search(run([binary, "-v"]).out)
    return found.group(1) if found else None


def loaded(socket: str = paths.SOCKET) -> t.Optional[str]:
    """Identity of the files that the running process was made with; None where it is not ours or does not run."""
    try:
        found = _LOADED.search(ask(socket, "show info"))
    except HostError:
        return None
    return found.group(1) if found else None


def _process() -> dict[str, t.Any]:
    try:
        rows = parse(ask(paths.SOCKET, "show servers state"))
    except HostError:
        rows = []
    keys = {"be_name": "backend", "srv_name": "server", "srv_op_state": "operation", "srv_admin_state": "admin", "srv_uweight": "weight"}
    return {"loaded": loaded(), "servers": [{new: row[old] for old, new in keys.items()} for row in rows]}


def _marks() -> dict[str, t.Any]:
    try:
        return {"marks": read_marks(), "marks_error": None}
    except HostError as exc:
        return {"marks": {}, "marks_error": str(exc)}


def _file(path: str) -> t.Optional[dict[str, t.Any]]:
    try:
        return {"sha256": sha256(path), "mode": os.stat(path).st_mode & 0o7777}
    except FileNotFoundError:
        return None


def _pristine(config: str) -> bool:
    """Whether the configuration is as its package brought it."""
    dpkg = run(["dpkg-query", "-W", "-f", "${Conffiles}\n", "haproxy"])
    if dpkg.success:
        digest = hashlib.md5(config.encode(errors="surrogateescape")).hexdigest()  # noqa: S324 - what dpkg keeps
        return f"{paths.CONFIG} {digest}" in dpkg.out
    verified = run(["rpm", "-V", "haproxy"])
    return verified.state == "ok" and not any(line.endswith(paths.CONFIG) for line in verified.out.splitlines())
