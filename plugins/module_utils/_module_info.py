# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nvidia module on disk, as modinfo tells it. Private to the collection.

modinfo unpacks all of a compressed module (42 MB: a second at work, 21 s seen on an emulated host), at each question and for each kernel.
Its answer is kept for the file that it was about, until the next boot, by root: same path, size, inode and time of change.
"""

from __future__ import annotations

import contextlib
import os
import re
import typing as t

from . import _paths
from ._errors import HostError
from ._reader import Reader
from ._state import read_state, write_state
from ._subprocess import run

UNREAD = "driver.installed.module_version"
"""Part that is noted as unread where modinfo gave no answer: whether there is a module is not known then."""
KIND = "kernel_modules"
_NAMES = ("nvidia", "nvidia-current", "nvidia-current-open")
"""The usual one, and Debian's by kind. The first is an alias of one of them where its packages or the driver role say so."""
_TIMEOUT = 60.0


def read_module(reader: Reader, kernel: t.Optional[str] = None) -> t.Optional[dict[str, str]]:
    """`version` and `license` of the module that a load would take, in the running or another kernel; {}: none, None: no answer."""
    release = kernel or reader.text(reader.proc("sys/kernel/osrelease")) or ""
    for name in _NAMES:
        path = _listed(reader, release, name)
        kept = _answers(reader).get(path or "")
        if kept and kept.get("file") == _identity(reader, path or ""):
            return {key: kept[key] for key in ("version", "license") if key in kept}
        result = run(["modinfo", *reader.base("-b"), *(["-k", kernel] if kernel else []), name], timeout=_TIMEOUT)
        if result.state in ("timeout", "hung"):
            reader.note(UNREAD, f"modinfo gave no answer in {_TIMEOUT:g} s")
            return None
        fields = dict(re.findall(r"^(version|license):\s+(.+?)\s*$", result.out, re.MULTILINE))
        if result.success and fields:
            told = re.search(r"^filename:.*?(/lib/modules/\S+)\s*$", result.out, re.MULTILINE)
            if path and told and told.group(1) == path:
                _keep(reader, path, fields)
            return fields
    return {}


def _listed(reader: Reader, release: str, name: str) -> t.Optional[str]:
    """The module's file by depmod's list, where modinfo looks it up too; None where the list has no such module."""
    name = re.escape(name).replace(r"\-", "[-_]")
    text = reader.text(reader.fs(f"/lib/modules/{release}/modules.dep")) or ""
    found = re.search(rf"^((?:\S*/)?{name}\.ko(?:\.\w+)?):", text, re.MULTILINE)
    return f"/lib/modules/{release}/{found.group(1)}" if found else None


def _identity(reader: Reader, path: str) -> str:
    try:
        stat = os.stat(reader.fs(path))
    except OSError:
        return "not there"
    return f"{stat.st_size} {stat.st_ino} {stat.st_mtime_ns} {stat.st_ctime_ns}"


def _answers(reader: Reader) -> dict[str, t.Any]:
    with contextlib.suppress(HostError, OSError):
        kept = (read_state(reader.fs(_paths.KERNEL_MODULES), KIND) or {}).get("modules")
        if isinstance(kept, dict):
            return {path: entry for path, entry in kept.items() if isinstance(entry, dict)}
    return {}


def _keep(reader: Reader, path: str, fields: t.Mapping[str, str]) -> None:
    """Facts may be read without root: then there is nothing to keep them in."""
    if os.geteuid() != 0:
        return
    there = {other: entry for other, entry in _answers(reader).items() if os.path.exists(reader.fs(other))}
    with contextlib.suppress(HostError, OSError):
        write_state(reader.fs(_paths.KERNEL_MODULES), KIND, {"modules": {**there, path: {"file": _identity(reader, path), **fields}}})
