# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dnf's versionlock list: which packages are locked, by name. Private to the collection.

The plugin's own command asks all repositories before it writes one line, and takes a name for a pattern. The file is one line per lock,
NAME-EPOCH:VERSION-RELEASE.ARCH, read at the start of each dnf.
"""

from __future__ import annotations

import os
import re
import typing as t

from ._files import read_text, write_text

CONF = "/etc/dnf/plugins/versionlock.conf"
PLUGIN = "python3-dnf-plugin-versionlock"
LIST = "/etc/dnf/plugins/versionlock.list"
_ENTRY = re.compile(r"(?P<name>[^\s#!].*?)-(?:\d+:)?[^-\s]+-[^-\s]+$")
_NOTE = "# Added lock by gpufleet.inference"


def list_file() -> t.Optional[str]:
    """Where the plugin's list is; None where there is no plugin, or it is switched off."""
    text = read_text(CONF)
    if text is None or re.search(r"(?mi)^\s*enabled\s*=\s*(0|no|false)\s*$", text):
        return None
    found = re.search(r"(?m)^\s*locklist\s*=\s*(\S+)", text)
    return found.group(1) if found else LIST


def locked(text: str) -> dict[str, str]:
    """name → its line; excludes (a line that begins with !) keep a version away and hold none."""
    found = {}
    for line in text.splitlines():
        match = _ENTRY.match(line.strip())
        if match:
            found[match.group("name")] = line.strip()
    return found


def entry(name: str, version: str) -> str:
    """The line for an installed package; epoch 0 is written out, as the plugin does."""
    return f"{name}-{version if ':' in version else '0:' + version}.*"


def changed(text: str, remove: t.Iterable[str], add: t.Mapping[str, str]) -> str:
    """The list with locks of `remove` gone and those of `add` (name → version) there, once; comments above a lock go with it."""
    gone = {*remove, *add}
    kept: list[str] = []
    for line in text.splitlines():
        match = _ENTRY.match(line.strip())
        if match and match.group("name") in gone:
            if kept and kept[-1].startswith("# Added lock"):
                kept.pop()
            continue
        kept.append(line)
    kept += [line for name, version in sorted(add.items()) for line in (_NOTE, entry(name, version))]
    return "\n".join(kept).rstrip("\n") + "\n" if kept else ""


def write(path: str, text: str) -> None:
    if not os.path.exists(path) or read_text(path) != text:
        write_text(path, text)
