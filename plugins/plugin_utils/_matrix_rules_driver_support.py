# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of a driver release itself: end of support, advisories, packages. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from . import _matrix_driver as rows
from ._contracts import Finding
from ._matrix_case import Case
from ._matrix_findings import finding
from ._matrix_types import Row
from ._versions import key


def rules(case: Case) -> t.Iterator[Finding]:
    branch = case.matrix.branch(case.branch) if case.branch is not None else None
    if case.driver is None or not case.groups:
        return
    if branch is not None:
        yield from _ended(case, branch)
        yield from _newer(case, branch)
    yield from _advisories(case)
    yield from _packages(case)


def _ended(case: Case, branch: Row) -> t.Iterator[Finding]:
    if rows.ended(branch, case.policy.today):
        when = f" in {branch['eol']}" if branch.get("eol") else ""
        yield finding(
            "driver.branch_ended",
            case.severity(case.driver_asked),
            row=branch,
            found=f"driver {case.driver} of branch {case.branch}",
            needed="a branch in support",
            nearest=case.nearest_driver(),
            message=f"Support of driver branch {case.branch} ended{when}; it gets no more fixes.",
            fix=case.driver_fix(),
        )


def _newer(case: Case, branch: Row) -> t.Iterator[Finding]:
    latest = branch.get("latest")
    if latest and key(t.cast("str", case.driver)) > key(latest):
        yield finding(
            "driver.newer_than_matrix",
            "info",
            row=branch,
            found=f"driver {case.driver}",
            needed=f"at most {latest} to be fully known",
            message=f"Driver {case.driver} is newer than {latest}, the newest that the matrix knows of branch {case.branch}.",
            fix="Nothing to do; update the collection to have its rows.",
        )


def _advisories(case: Case) -> t.Iterator[Finding]:
    driver = t.cast("str", case.driver)
    bulletins = rows.open_bulletins(case.matrix, driver, case.geforce)
    if not bulletins:
        return
    newest = bulletins[-1]
    safe = case.matrix.driver_safe.get(case.branch or 0) or {}
    names = ", ".join(row["id"].removeprefix("psirt.") for row in bulletins)
    worst = max(row.get("max_cvss", 0) for row in bulletins)
    in_branch = safe.get("version")
    them = "it" if len(bulletins) == 1 else "them"
    why = f"{in_branch} fixes {them} in this branch" if in_branch else safe.get("reason", "no fix in this branch is known")
    yield finding(
        "driver.advisory",
        case.severity(case.driver_asked),
        row=newest,
        found=f"driver {driver}, bulletins {names} (CVSS up to {worst})",
        needed=f"driver {in_branch} or newer" if in_branch else "a branch that still gets fixes",
        nearest=in_branch or case.nearest_driver(),
        message=f"{len(bulletins)} NVIDIA security bulletin{'s apply' if len(bulletins) > 1 else ' applies'} to driver {driver} "
        f"({names}; CVSS up to {worst}): {why.rstrip('.')}.",
        fix=f"Set nvidia_driver_version: '{in_branch}'." if in_branch else case.driver_fix(),
    )


def _packages(case: Case) -> t.Iterator[Finding]:
    if not case.driver_asked or not case.os.supported or case.driver_source == "runfile":
        return
    best = None if case.kernel_modules else case.best_driver()
    modules = case.kernel_modules or (best.kernel_modules if best else "open")
    answer = case.matrix.driver_packages(case.os, t.cast("int", case.branch), modules, (), case.driver_source)
    if answer.rule is None:
        from_distribution = case.driver_source == "distribution"
        yield finding(
            "driver.no_packages",
            "block",
            found=f"branch {case.branch} from {case.driver_source} on {case.os.name}",
            needed="a row of driver_packages",
            nearest=case.nearest_driver() if from_distribution else None,
            message=answer.reason,
            fix="Use nvidia_driver_source: nvidia, or another branch." if from_distribution else "Choose another branch.",
            source="matrix/os.yml",
        )
