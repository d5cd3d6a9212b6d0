# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rows know of an engine's flags and environment variables, in memory. Pure.

Private to the collection. A row holds text, one flag a line, which is parsed when a question about that engine is first asked:

    NAME, ALIAS…: TYPE[*] [= VALUE, VALUE (RELEASES) …] [| in RELEASES] [| open in RELEASES] [| bool in RELEASES]
        [| deprecated VERSION]

`*`: takes several values. RELEASES: comparisons as elsewhere in the matrix, joined by ` or ` at a gap; see docs/engines.md.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ._matrix_types import Row
from ._versions import key, matches

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix


def within(version: str, releases: str | None) -> bool:
    """Whether a version is among releases such as `<0.17.0 or >=0.33.0`; None and empty text mean all."""
    return not releases or any(matches(version, part) for part in releases.split(" or "))


@dataclass(frozen=True)
class Flag:
    """One flag of an engine's server."""

    name: str
    type: str
    """flag (a switch) | bool (--no-NAME works too) | truth (--NAME=False works) | int | size (8k) | size_or_auto | float | str | json"""
    many: bool
    choices: tuple[tuple[str, str | None], ...]
    """Values with the releases that have each."""
    releases: str | None
    open_in: str | None
    """Releases that take any value although others have choices."""
    bool_in: str | None
    deprecated: str | None
    """First release that calls it deprecated."""
    row: Row

    def values(self, version: str) -> list[str]:
        """The values that a release takes; empty where any."""
        if self.open_in is not None and within(version, self.open_in):
            return []
        return [value for value, releases in self.choices if within(version, releases)]

    def negatable(self, version: str) -> bool:
        return self.type == "bool" and within(version, self.bool_in)


@dataclass
class Table:
    """All flags and variables of one engine."""

    first: str
    last: str
    """Oldest and newest release that the rows were read from."""
    flags: dict[str, Flag] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    prefixes: tuple[str, ...] = ()
    variables: dict[str, tuple[str, Row]] = field(default_factory=dict)

    def knows(self, version: str) -> bool:
        """Whether the rows speak for a version."""
        return key(self.first) <= key(version) <= key(self.last)

    def find(self, name: str) -> Flag | None:
        return self.flags.get(self.aliases.get(name, name))

    def names(self, version: str) -> list[str]:
        """Flags that a release has."""
        return [flag.name for flag in self.flags.values() if within(version, flag.releases)]


def table(matrix: Matrix, engine: str) -> Table | None:
    """The table of an engine; None for one without rows. Rows of an overlay add to the collection's, flag by flag."""
    question = ("engine_flags", engine)
    if question not in matrix.memo:
        matrix.memo[question] = _table(matrix, engine)
    return t.cast("Table | None", matrix.memo[question])


def _table(matrix: Matrix, engine: str) -> Table | None:
    rows = [row for row in matrix.section("engine_flags") if row["engine"] == engine]
    if not rows:
        return None
    out = Table(min((row["first"] for row in rows), key=key), max((row["last"] for row in rows), key=key))
    for row in rows:
        for line in _lines(row["flags"]):
            flag, aliases = parse(line, row)
            out.flags[flag.name] = flag
            out.aliases.update(dict.fromkeys(aliases, flag.name))
    for row in matrix.section("engine_environment"):
        if row["engine"] == engine:
            out.prefixes += tuple(row["prefixes"])
            for line in _lines(row["variables"]):
                name, _space, releases = line.partition(" ")
                out.variables[name] = (releases, row)
    return out


def _lines(text: str) -> list[str]:
    """Lines, with those that are indented joined to the one before."""
    return re.sub(r"\n\s+", " ", text).strip().splitlines()


def parse(line: str, row: Row) -> tuple[Flag, list[str]]:
    """One line and its aliases. Raises ValueError with the line in it: rows of the collection are tested, overlays are checked on load."""
    head, *clauses = line.split(" | ")
    names, _colon, kind = head.partition(": ")
    kind, _equals, choices = kind.partition(" = ")
    name, *aliases = [word.strip() for word in names.split(",")]
    said = dict(clause.replace("open in", "open").replace("bool in", "bool").split(" ", 1) for clause in clauses)
    if not re.fullmatch(r"[A-Za-z][\w.-]*", name) or not re.fullmatch(r"(flag|bool|truth|int|size|size_or_auto|float|str|json)\*?", kind):
        raise ValueError(f"{line!r} is not a line of flags: expected NAME: TYPE …, for example max-model-len: int | in >=0.7.0")
    return (
        Flag(
            name=name,
            type=kind.rstrip("*"),
            many=kind.endswith("*"),
            choices=tuple(_choice(text) for text in choices.split(", ")) if choices else (),
            releases=said.get("in"),
            open_in=said.get("open"),
            bool_in=said.get("bool"),
            deprecated=said.get("deprecated"),
            row=row,
        ),
        aliases,
    )


def _choice(text: str) -> tuple[str, str | None]:
    value, _space, releases = text.partition(" (")
    return value, releases.rstrip(")") or None
