# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A configuration file as it is, with a named reason where it cannot be used. Private to the collection.

The text goes to the controller, which parses it: hosts with Python 3.9 or 3.10 have no TOML parser.
"""

from __future__ import annotations

import glob
import os
import re
import stat
import time
import typing as t

LIMIT = 1 << 20
"""Bytes; a larger file is not one that a person or an engine wrote."""

_IMPORTS = re.compile(r"^\s*imports\s*=\s*\[(.*?)\]", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"[\"']([^\"']+)[\"']")


def read_config(path: str) -> dict[str, t.Any]:
    """{path, real, state: absent|ok|unreadable|huge|not_a_file, reason, text, changed_at (None where that cannot be said)}"""
    out: dict[str, t.Any] = {
        "path": path,
        "real": os.path.realpath(path),
        "state": "absent",
        "reason": "",
        "text": None,
        "changed_at": None,
    }
    try:
        found = os.stat(path)
    except FileNotFoundError:
        if os.path.islink(path):
            out.update(state="unreadable", reason=f"it is a link to {os.readlink(path)}, which does not exist")
        return out
    except OSError as exc:
        return {**out, "state": "unreadable", "reason": exc.strerror}
    # Not the mtime, which anybody may set to any year; and a time that is yet to come (the clock was put back) says nothing.
    out["changed_at"] = found.st_ctime if found.st_ctime <= time.time() else None
    if not stat.S_ISREG(found.st_mode):
        return {**out, "state": "not_a_file", "reason": "it is not a regular file"}
    if found.st_size > LIMIT:
        return {**out, "state": "huge", "reason": f"it has {found.st_size} bytes, more than {LIMIT}"}
    try:
        with open(path, "rb") as source:
            out["text"] = source.read(LIMIT + 1).decode("utf-8")
        out["state"] = "ok"
    except UnicodeDecodeError as exc:
        out.update(state="unreadable", reason=f"it is not UTF-8 text (byte {exc.start})")
    except OSError as exc:
        out.update(state="unreadable", reason=exc.strerror)
    return out


def with_imports(root: dict[str, t.Any], *more: str) -> list[dict[str, t.Any]]:
    """The root file, the files that its `imports` list names, and `more`. The list is found without parsing: it only says what to read."""
    files = {root["path"]: root}
    listed = _IMPORTS.search(root["text"] or "")
    folder = os.path.dirname(root["path"])  # where containerd takes a relative import from
    patterns = [os.path.join(folder, pattern) for pattern in _QUOTED.findall(listed.group(1))] if listed else []
    for pattern in [*patterns, *more]:
        for path in sorted(glob.glob(pattern)) if set(pattern) & set("*?[") else [pattern]:
            files.setdefault(path, read_config(path))
    return list(files.values())
