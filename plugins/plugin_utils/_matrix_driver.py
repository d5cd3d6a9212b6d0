# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rows say of drivers: support, advisories, fit to GPUs, choice. Pure.

Private to the collection.
"""

from __future__ import annotations

import calendar
import datetime
import typing as t

from ._matrix_types import DriverChoice, Row
from ._versions import branch_of, key

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

CHANNELS: dict[str, tuple[str, ...]] = {
    "lts": ("lts",),
    "production": ("lts", "production"),
    "newest": ("lts", "production", "new_feature"),
}


def ended(branch: Row, today: datetime.date) -> bool:
    """Whether support of a branch is over; an end of life is the last day of its month."""
    if branch.get("ended"):
        return True
    if not branch.get("eol"):
        return False
    year, month = (int(part) for part in branch["eol"].split("-"))
    return today > datetime.date(year, month, calendar.monthrange(year, month)[1])


def open_bulletins(matrix: Matrix, version: str, geforce: bool) -> list[Row]:
    """Bulletins whose fixes a driver lacks, oldest first.

    A branch that a bulletin does not name is open where newer branches are named in it (it gets no fix any more) and not
    affected where it is newer than all of them (it was released with the fix).
    """
    question = ("bulletins", version, geforce)
    if question not in matrix.memo:
        branch, have = branch_of(version), key(version)
        matrix.memo[question] = [row for row in matrix.bulletins if branch is not None and _lacks(row, branch, have, geforce)]
    return t.cast("list[Row]", matrix.memo[question])


def _lacks(bulletin: Row, branch: int, have: t.Any, geforce: bool) -> bool:
    fixed = {int(number): version for number, version in bulletin["fixed"].items()}
    if geforce:
        fixed.update({int(number): version for number, version in (bulletin.get("fixed_geforce") or {}).items()})
    if branch in fixed:
        return bool(have < key(fixed[branch]))
    return branch < max(fixed)


def fits(gpu: Row, branch: int, version: str) -> bool:
    """Whether a driver drives a GPU according to its row."""
    if branch < gpu["branch_min"] or branch > gpu.get("branch_last", branch):
        return False
    have = key(version)
    if gpu.get("driver_min") and have < key(gpu["driver_min"]):
        return False
    return not (gpu.get("driver_listed") and gpu.get("below_listed", "block") == "block" and have < key(gpu["driver_listed"]))


def modules_for(gpus: t.Iterable[Row], open_only: bool) -> t.Literal["open", "proprietary"] | None:
    """Kernel modules for all these GPUs; open where both work; None where no choice serves all."""
    needs = {gpu["open_modules"] for gpu in gpus}
    if "unsupported" not in needs:
        return "open"
    return None if "required" in needs or open_only else "proprietary"


def driver_for(matrix: Matrix, gpu_ids: t.Iterable[str], today: datetime.date, channel: str) -> DriverChoice | None:
    """The newest branch of the channel that works, then of wider channels: a host without an LTS choice gets a production one."""
    gpus = [matrix.rows[gpu] for gpu in sorted(gpu_ids) if gpu in matrix.rows]
    widening = [CHANNELS[channel], *(types for types in CHANNELS.values() if len(types) > len(CHANNELS[channel]))]
    for types in widening:
        for number in sorted(matrix.branches, reverse=True):
            row = matrix.branches[number]
            choice = _candidate(matrix, row, gpus, today) if row["type"] in types else None
            if choice:
                return choice
    return None


def _candidate(matrix: Matrix, branch: Row, gpus: list[Row], today: datetime.date) -> DriverChoice | None:
    number = branch["branch"]
    safe = matrix.driver_safe.get(number)
    if ended(branch, today) or not safe or not safe.get("version"):
        return None
    version = max(safe["version"], branch.get("latest") or safe["version"], key=key)
    modules = modules_for(gpus, open_only=not branch["proprietary"])
    if modules is None or not all(fits(gpu, number, version) for gpu in gpus):
        return None
    rows = (branch["id"], safe["id"], *(gpu["id"] for gpu in gpus))
    return DriverChoice(branch=number, version=version, kernel_modules=modules, type=branch["type"], rows=rows)
