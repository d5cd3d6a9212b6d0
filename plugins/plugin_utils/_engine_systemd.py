# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writing unit files: words, assignments, sections. Pure.

Private to the collection.
"""

from __future__ import annotations

import re
import typing as t

_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./\[\]{}-]+")


def word(text: str, command: bool = True) -> str:
    """One word as systemd reads it back: no specifier, no variable, no quote of it has a meaning."""
    text = text.replace("%", "%%")
    if command:
        text = text.replace("$", "$$")
    if _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def line(words: t.Iterable[str]) -> str:
    """A command; the first word is an absolute path."""
    return " ".join(map(word, words))


def assignment(name: str, value: str) -> str:
    """NAME=value of Environment=, where $ has no meaning."""
    return word(f"{name}={value}", command=False)


def section(name: str, settings: t.Mapping[str, t.Any]) -> str:
    """A section. None leaves a setting out, a list of Wants or After is one line, any other list one line each, an empty list none."""
    lines = []
    for key, value in settings.items():
        items = value if isinstance(value, list) else [value]
        if key in ("Wants", "After", "BindsTo"):
            items = [" ".join(part for part in items if part)] if any(items) else []
        lines += [f"{key}={item}\n" for item in items if item is not None]
    return f"[{name}]\n{''.join(lines)}\n"
