# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to use instead of a flag, a value or a variable: the matrix's rows of changes between releases. Pure.

Private to the collection.
"""

from __future__ import annotations

import re
import typing as t

from ._engine_flag_rows import Table, within
from ._matrix_types import Row
from ._versions import key

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix


class Hints:
    """Rows of engine_boundaries about flags and variables, by what they are about."""

    def __init__(self, matrix: Matrix, engine: str, version: str | None, table: Table | None) -> None:
        self.version, self.table = version, table
        self.rows = {
            item: row for row in matrix.section("engine_boundaries") if row["engine"] == engine for item in row["item"].split(", ")
        }

    def row(self, item: str) -> Row | None:
        return self.rows.get(item)

    def never(self, shown: str, value: t.Any) -> Row | None:
        """The row of a flag, or of a flag's value, that is in no release."""
        for item in (shown, f"{shown} {value}"):
            row = self.rows.get(item)
            if row and row["kind"] == "never":
                return row
        return None

    def applies(self, row: Row) -> bool:
        """Whether the release is at or behind the change."""
        return bool(self.version) and "removed_in" in row and key(str(self.version)) >= key(row["removed_in"])

    def instead(self, row: Row) -> str | None:
        """What to use: the first of the row's proposals that this release has."""
        for text in row.get("use", ()):
            flag = self.table.find(text.split()[0].lstrip("-")) if self.table and text.startswith("--") else None
            if flag is None or not self.version or within(self.version, flag.releases):
                return str(text)
        after = str(row.get("after") or "")
        return after if row["kind"] == "never" else after.partition("use ")[2] or None


def _bounds(releases: str, operator: str) -> list[str]:
    return re.findall(rf"(?:^|[ ,]){operator}([0-9][^,\s]*)", releases)


def ended(version: str, releases: str) -> str | None:
    """The release that took it away, for a version that has it no more."""
    return max((bound for bound in _bounds(releases, "<") if key(bound) <= key(version)), key=key, default=None)


def starts(version: str, releases: str) -> str | None:
    """The release that brings it, for a version that does not have it yet."""
    return min((bound for bound in _bounds(releases, ">=") if key(bound) > key(version)), key=key, default=None)
