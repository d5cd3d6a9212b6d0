# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container toolkit, engines and CDI of a host, with the text of their files. Private to the collection."""

from __future__ import annotations

import base64
import binascii
import glob
import json
import os
import re
import typing as t

from . import _dnf_locks
from ._cdi_host import read_cdi
from ._config_files import read_config
from ._engines_host import UNITS, read_engines, running_containers, show_units
from ._files import read_text, sha256
from ._paths import CONTAINER_FILES, CONTAINER_RECORD, DOCKER_CDI_SWITCHED, RUN_DIR
from ._subprocess import run

REFRESH = ("nvidia-cdi-refresh.service", "nvidia-cdi-refresh.path", "gpufleet-cdi-refresh.service", "gpufleet-docker-cdi.service")
ENGINES_RECORD = RUN_DIR + "/container_engines.json"
_KEY_ID = bytes.fromhex("DDCAE044F796ECB0")
_SOURCE_FILES = ("/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources", "/etc/yum.repos.d/*.repo")
_DPKG_JOURNAL = "/var/lib/dpkg/updates/[0-9]*"
_TOOLKIT_URL = re.compile(r"libnvidia-container|nvidia-docker|nvidia-container-runtime", re.IGNORECASE)


def collect(rootless_users: t.Sequence[str] = ()) -> dict[str, t.Any]:
    """The whole answer of container_info."""
    units = show_units([*UNITS.values(), *REFRESH])
    return {
        "engines": read_engines(units, rootless_users),
        "engines_record": _json(ENGINES_RECORD),
        "cdi_switched": (_json(DOCKER_CDI_SWITCHED) or {}).get("files") or [],
        "running_containers": running_containers(),
        "cdi": read_cdi(),
        "toolkit": {
            "ctk": _ctk_version(),
            "config": read_config("/etc/nvidia-container-runtime/config.toml"),
            "units": {name: _unit(units[name]) for name in REFRESH if name in units and _on_disk(units[name])},
            "record": _json(CONTAINER_RECORD),
        },
        "sources": _sources(),
        "versionlock": _versionlock(),
        "dpkg_journal": _dpkg_journal(),
        "old_keys": _old_keys(),
        "owned": {path: _owned(path) for path in CONTAINER_FILES},
    }


def _on_disk(unit: t.Mapping[str, str]) -> bool:
    """systemd knows a unit until its next reload, though the package that brought it has taken the file along."""
    return os.path.exists(unit.get("FragmentPath") or "")


def _unit(unit: t.Mapping[str, str]) -> dict[str, t.Any]:
    return {
        "active": unit.get("ActiveState", ""),
        "enabled": unit.get("UnitFileState", ""),
        "need_daemon_reload": unit.get("NeedDaemonReload") == "yes",
        "after": unit.get("After", "").split(),
        "before": unit.get("Before", "").split(),
    }


def _ctk_version() -> t.Optional[str]:
    if not os.path.exists("/usr/bin/nvidia-ctk"):
        return None
    found = re.search(r"(\d+\.\d+\.\d+)", run(["/usr/bin/nvidia-ctk", "--version"], timeout=10).out)
    return found.group(1) if found else "unknown"


def _sources() -> list[dict[str, t.Any]]:
    """Package sources that name a repository of the toolkit."""
    files = [read_config(path) for pattern in _SOURCE_FILES for path in sorted(glob.glob(pattern))]
    return [file for file in files if file["text"] and _TOOLKIT_URL.search(file["text"])]


def _versionlock() -> t.Optional[dict[str, str]]:
    """The list of dnf's plugin; None where dnf has none."""
    path = _dnf_locks.list_file()
    return {"path": path, "text": read_text(path) or ""} if path else None


def _dpkg_journal() -> list[str]:
    """Packages in what dpkg has not yet put into its status file: it runs, or it was killed and apt refuses to work until this is done."""
    found: set[str] = set()
    for path in glob.glob(_DPKG_JOURNAL):
        found.update(re.findall(r"^Package: (\S+)$", read_text(path) or "", re.MULTILINE))
    return sorted(found)


def _old_keys() -> list[str]:
    """Files by which apt trusts the toolkit repository's key everywhere: the key's signature on itself names it, whatever the file is."""
    found = []
    for path in ("/etc/apt/trusted.gpg", *sorted(glob.glob("/etc/apt/trusted.gpg.d/*"))):
        try:
            with open(path, "rb") as source:
                content = source.read(1 << 20)
        except OSError:
            continue
        if _KEY_ID in content or _KEY_ID in _unarmoured(content):
            found.append(path)
    return found


def _unarmoured(content: bytes) -> bytes:
    body = re.search(rb"\n\r?\n(.*?)\n[=-]", content, re.DOTALL)
    try:
        return base64.b64decode(body.group(1)) if body else b""
    except binascii.Error:
        return b""


def _owned(path: str) -> t.Optional[dict[str, t.Any]]:
    digest = sha256(path)
    return None if digest is None else {"sha256": digest, "text": read_text(path)}


def _json(path: str) -> t.Optional[dict[str, t.Any]]:
    try:
        content = json.loads(read_text(path) or "null")
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
