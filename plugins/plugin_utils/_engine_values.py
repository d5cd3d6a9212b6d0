# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of one flag: do they fit its type, and how are they written on a command line. Pure.

Private to the collection.
"""

from __future__ import annotations

import json
import re
import typing as t

from ._engine_flag_rows import Flag

_NUMBERS = {
    "int": (re.compile(r"-?\d+"), "a whole number"),
    "size": (re.compile(r"-?\d+(\.\d+)?[kKmMgGtT]?"), "a whole number, also as 8k or 1M"),
    "size_or_auto": (re.compile(r"-?\d+(\.\d+)?[kKmMgGtT]?|auto"), "a whole number, also as 8k or 1M, or auto"),
    "float": (re.compile(r"-?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?"), "a number"),
}
_TRUTH = {"true": True, "false": False, "yes": True, "no": False}


def truth(value: t.Any) -> bool | None:
    """true or false, also as templated text; None for anything else."""
    return value if isinstance(value, bool) else _TRUTH.get(value.lower()) if isinstance(value, str) else None


def expected(flag: Flag, version: str, value: t.Any) -> str | None:
    """What was expected in place of a value that does not fit; None where it fits."""
    if flag.type in ("flag", "bool", "truth"):
        return None if truth(value) is not None else "true or false (it is a switch)"
    if isinstance(value, (list, tuple)):
        if flag.type == "json":
            return None
        if not flag.many:
            return f"one value ({_word(flag)})"
        return next((text for item in value if (text := _one(flag, version, item))), None)
    return _one(flag, version, value)


def _one(flag: Flag, version: str, value: t.Any) -> str | None:
    choices = flag.values(version)
    if isinstance(value, bool):
        return f"a value ({_word(flag)}), not true or false"
    if choices:
        return None if str(value) in choices else f"one of {', '.join(choices)}"
    if flag.type == "json":
        return None if isinstance(value, dict) or _json(value) else "a mapping, or JSON as text"
    if isinstance(value, dict):
        return None if flag.type == "str" else _word(flag)
    if flag.type in _NUMBERS:
        return None if _NUMBERS[flag.type][0].fullmatch(str(value).strip()) else _word(flag)
    return None


def _word(flag: Flag) -> str:
    return _NUMBERS[flag.type][1] if flag.type in _NUMBERS else "JSON" if flag.type == "json" else "text"


def _json(value: t.Any) -> bool:
    try:
        json.loads(str(value))
    except ValueError:
        return False
    return True


def words(flag: Flag, version: str, value: t.Any) -> list[str]:
    """The flag as words of a command line. False writes a negation only where the release has one: elsewhere off is the absence."""
    if value is None:
        return []
    if flag.type in ("flag", "bool", "truth"):
        if truth(value):
            return [f"--{flag.name}"]
        # 0.33 shows --disable-x for --enable-x, but every release takes --no-x.
        return [f"--no-{flag.name}"] if flag.negatable(version) else [f"--{flag.name}=False"] if flag.type == "truth" else []
    many = list(value) if isinstance(value, (list, tuple)) and flag.many else [value]
    texts = [text(item) for item in many]
    # A value that begins with a dash would be taken for the next flag.
    return [f"--{flag.name}={texts[0]}"] if len(texts) == 1 and texts[0].startswith("-") else [f"--{flag.name}", *texts]


def text(value: t.Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True) if isinstance(value, (dict, list, tuple)) else str(value)
