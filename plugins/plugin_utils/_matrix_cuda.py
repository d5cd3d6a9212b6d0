# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rows say of CUDA: how a driver runs a version, which architectures a version knows. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from ._matrix_types import Row
from ._versions import branch_of, key, major_of, matches, minor_of

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

Mode = t.Literal["native", "minor", "backward", "none", "unknown"]


def driver_min(matrix: Matrix, version: str) -> str | None:
    """Oldest driver that runs a CUDA version by minor-version compatibility."""
    major = matrix.majors.get(major_of(version) or 0)
    return major["driver_min"] if major else None


def driver_level(matrix: Matrix, version: str) -> str | None:
    """Driver that belongs to a CUDA version; where it is not known, the oldest known of its minor."""
    row = matrix.toolkits.get(version)
    if row and row.get("driver_level"):
        return str(row["driver_level"])
    minor = minor_of(version)
    same = [row["driver_level"] for row in matrix.toolkits.values() if row.get("driver_level") and minor_of(row["version"]) == minor]
    return min(same, key=key, default=None) if minor else None


def mode(matrix: Matrix, driver: str, version: str) -> Mode:
    """How a driver runs a CUDA version: fully, by minor-version or backward compatibility, or not at all."""
    question = ("cuda_mode", driver, version)
    if question not in matrix.memo:
        matrix.memo[question] = _mode(matrix, driver, version)
    return t.cast("Mode", matrix.memo[question])


def _mode(matrix: Matrix, driver: str, version: str) -> Mode:
    major = matrix.majors.get(major_of(version) or 0)
    if major is None:
        return "unknown"
    if key(driver) < key(major["driver_min"]):
        return "none"
    if "backward_from" in major and (branch_of(driver) or 0) >= major["backward_from"]:
        return "backward"
    level = driver_level(matrix, version)
    return "native" if level is None or key(driver) >= key(level) else "minor"


def architectures(matrix: Matrix, version: str) -> tuple[frozenset[str], frozenset[str]] | None:
    """Compute capabilities that a version supports and those dropped up to it; None where its minor is not known.

    A minor without a row of its own is as the newest row before it (a minor that changes nothing needs no row).
    """
    minor = minor_of(version)
    if minor is None:
        return None
    question = ("cuda_archs", minor)
    if question not in matrix.memo:
        matrix.memo[question] = _architectures(matrix, minor)
    return t.cast("tuple[frozenset[str], frozenset[str]] | None", matrix.memo[question])


def _architectures(matrix: Matrix, minor: str) -> tuple[frozenset[str], frozenset[str]] | None:
    has: set[str] = set()
    dropped: set[str] = set()
    for row in sorted(matrix.minors.values(), key=lambda row: key(row["minor"])):
        if key(row["minor"]) > key(minor):
            break
        has |= set(row.get("architectures") or ())
        has |= set(row.get("adds") or ())
        has -= set(row.get("drops") or ())
        dropped |= set(row.get("drops") or ())
    return (frozenset(has), frozenset(dropped)) if has else None


def newest_with(matrix: Matrix, capabilities: t.Iterable[str], driver: str | None, spec: str = ">=0") -> Row | None:
    """Newest toolkit that knows all these architectures and that a driver runs fully (any driver where none is given)."""
    wanted = frozenset(capabilities)
    question = ("cuda_newest", wanted, driver, spec)
    if question not in matrix.memo:
        fit = [row for row in matrix.toolkits.values() if matches(row["version"], spec) and _fits(matrix, row, wanted, driver)]
        matrix.memo[question] = max(fit, key=lambda row: key(row["version"]), default=None)
    return t.cast("Row | None", matrix.memo[question])


def _fits(matrix: Matrix, row: Row, wanted: frozenset[str], driver: str | None) -> bool:
    known = architectures(matrix, row["version"])
    if known is None or not wanted <= known[0]:
        return False
    if driver is None:
        return True
    # A toolkit whose own driver level is unknown is never offered.
    return bool(row.get("driver_level")) and mode(matrix, driver, row["version"]) in ("native", "backward")
