# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which release of a container engine reads which CDI specifications. Pure.

Private to the collection. From 1.19 on the toolkit writes the lowest version that the contents need, and what needs 0.7.0 are additional
groups for device nodes that not everybody may open (/dev/dri); without them it is 0.5.0 (rule.toolkit.cdi_readers).
"""

from __future__ import annotations

import typing as t

from ._versions import key

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

RULE = "rule.toolkit.cdi_readers"
Reach = t.Literal["all", "older", "none"]
NEW = "0.6.0"
"""A specification of this version or newer is none that an engine of reach `older` reads."""


def needed(matrix: Matrix, toolkit: str) -> tuple[t.Any, dict[str, str]]:
    """(row, engine → first release that reads all that this toolkit writes); nothing where the toolkit writes old ones only."""
    rows = [row for row in matrix.section("toolkit_releases") if row.get("needs_engines") and key(row["version"]) <= key(toolkit)]
    row = max(rows, key=lambda item: key(item["version"]), default=None)
    return row, (row["needs_engines"] if row else {})


def reach(matrix: Matrix, engine: str, version: str, all_from: str) -> Reach:
    """How much of CDI a release of an engine reads."""
    if key(version) >= key(all_from):
        return "all"
    first = matrix.value(RULE, "reads_from", {}).get(engine)
    return "older" if first and key(version) >= key(first) else "none"


def older_engines(matrix: Matrix, toolkit: str, engines: t.Mapping[str, str | None]) -> list[str]:
    """Engines (name → version) for whose sake specifications must be of an older version than this toolkit writes by itself."""
    limits = needed(matrix, toolkit)[1]
    found = {name: version for name, version in engines.items() if version and name in limits}
    return [name for name, version in found.items() if reach(matrix, name, version, limits[name]) == "older"]


def is_new(version: str) -> bool:
    return bool(version) and key(version) >= key(NEW)
