# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading an instance's args, a mapping or the words of a command line, into flags and values. Pure.

Private to the collection.
"""

from __future__ import annotations

import re
import shlex
import typing as t
from dataclasses import dataclass

from ._engine_flag_rows import Flag, Table, within


@dataclass(frozen=True)
class Given:
    """One argument as a site wrote it."""

    name: str
    """Without dashes, in the engine's own spelling where it is known: a mapping may write max_model_len for max-model-len."""
    value: t.Any
    flag: Flag | None
    """What it is by the rows; None where they know nothing of that name."""

    @property
    def shown(self) -> str:
        return f"--{self.name}"


def read(args: t.Any, table: Table | None, version: str | None) -> list[Given]:
    """All arguments in order. Words that belong to no flag come as arguments whose name is the word."""
    if isinstance(args, t.Mapping):
        return [_given(str(name), value, table, version) for name, value in args.items() if value is not None]
    words = shlex.split(args) if isinstance(args, str) else [str(word) for word in args or ()]
    out: list[Given] = []
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        given = _given(name, value if equals else True, table, version)
        if not equals and name.startswith("-") and (given.flag is None or given.flag.type not in ("flag", "bool")):
            values: list[str] = []
            while words and not _is_flag(words[0]) and (not values or given.flag is None or given.flag.many):
                values.append(words.pop(0))
            if values:
                given = Given(given.name, values[0] if len(values) == 1 else values, given.flag)
        out.append(given)
    return out


def _is_flag(word: str) -> bool:
    return bool(re.match(r"--?[A-Za-z]", word))


def _given(typed: str, value: t.Any, table: Table | None, version: str | None) -> Given:
    name = typed.lstrip("-")
    if table is None:
        return Given(name, value, None)
    for spelling in dict.fromkeys((name, name.replace("_", "-"), name.replace("-", "_"))):
        flag, turned = table.find(spelling), _negation(table, spelling, version)
        if flag and (version is None or within(version, flag.releases) or not turned):
            return Given(flag.name, value, flag)
        base = table.find(spelling.partition(".")[0]) if "." in spelling else None
        if base and base.type == "json":  # vLLM: --compilation-config.mode 3
            return Given(spelling, value, base)
        if turned and isinstance(value, bool):
            return Given(turned.name, not value, turned)
    short = name.replace("_", "-")
    size = table.find(f"{short}-size")
    if size:  # SGLang's --tp. argparse takes any unambiguous beginning, so that a wrong flag may switch on something else: not here.
        return Given(size.name, value, size)
    return Given(short if typed.startswith("-") or "_" not in name else name, value, None)


def _negation(table: Table, name: str, version: str | None) -> Flag | None:
    """The switch that --no-NAME turns off; from 0.33 vLLM also takes --disable-x for --enable-x and the reverse."""
    if name.startswith("no-"):
        flag = table.find(name[3:])
        return flag if flag and (version is None or flag.negatable(version)) else None
    for word, other in (("disable-", "enable-"), ("enable-", "disable-")):
        flag = table.find(other + name[len(word) :]) if name.startswith(word) else None
        if flag and flag.type == "bool" and version and within(version, flag.row.get("pairs_in") or "<0"):
            return flag
    return None
