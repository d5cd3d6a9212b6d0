# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between driver and hardware: first and last branch, minimum, mixed hosts. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from ._contracts import Finding
from ._matrix_case import Case, GpuGroup
from ._matrix_findings import finding
from ._matrix_types import Row
from ._versions import key


def rules(case: Case) -> t.Iterator[Finding]:
    for group in case.groups:
        if group.row is None:
            yield _unknown_gpu(case, group)
    if case.driver is None or case.branch is None or not case.groups:
        yield from _unknown_branch(case)
        return
    branch = case.matrix.branch(case.branch)
    if branch is None:
        yield from _unknown_branch(case)
    for group in case.groups:
        if group.row is not None:
            yield from _gpu(case, group, group.row)
        elif branch is not None and group.architecture and group.architecture not in branch["architectures"]:
            yield _architecture(case, group, branch)
    yield from _common(case)


def _unknown_gpu(case: Case, group: GpuGroup) -> Finding:
    return finding(
        "gpu.unknown",
        case.policy.unknown,
        subject=group.subject,
        found=group.label,
        needed="a row in matrix/gpus.yml or an overlay",
        message=f"The matrix does not know {group.product}, so it cannot tell which drivers, modules and limits fit it.",
        fix="Add a row for it with gpu_stack_matrix_overlay, or set gpu_stack_unknown: warn to go on without an answer.",
        source="matrix/gpus.yml",
    )


def _unknown_branch(case: Case) -> t.Iterator[Finding]:
    if case.branch is None or case.matrix.branch(case.branch) is not None:
        return
    known = sorted(case.matrix.branches, key=lambda number: abs(number - (case.branch or 0)))
    yield finding(
        "driver.branch_unknown",
        case.policy.unknown if case.driver_asked else "warn",
        found=f"branch {case.branch}",
        needed="a row in matrix/drivers.yml or an overlay",
        nearest=case.nearest_driver(),
        message=f"The matrix does not know driver branch {case.branch}; the nearest ones it knows are {known[0]} and {known[1]}.",
        fix=case.driver_fix(),
        source="matrix/drivers.yml",
    )


def _gpu(case: Case, group: GpuGroup, gpu: Row) -> t.Iterator[Finding]:
    branch, driver = t.cast("int", case.branch), t.cast("str", case.driver)
    asked = case.severity(case.driver_asked)
    last = gpu.get("branch_last")
    listed = gpu.get("driver_listed")

    def about(name: str, needed: str, message: str, severity: t.Any = asked) -> Finding:
        return finding(
            name,
            severity,
            row=gpu,
            subject=group.subject,
            found=f"{group.label} with driver {driver}",
            needed=needed,
            nearest=case.nearest_driver(),
            message=message,
            fix=case.driver_fix(),
        )

    if branch < gpu["branch_min"]:
        yield about(
            "driver.branch_too_old",
            f"branch {gpu['branch_min']} or newer",
            f"Driver branch {branch} cannot drive {group.product}: the first branch that does is {gpu['branch_min']}.",
        )
    elif last is not None and branch > last:
        yield about(
            "driver.branch_too_new",
            f"branch {last} or older",
            f"Driver branch {branch} no longer drives {group.product}: the last branch that does is {last}.",
        )
    elif gpu.get("driver_min") and key(driver) < key(gpu["driver_min"]):
        yield about(
            "driver.too_old_for_gpu",
            f"driver {gpu['driver_min']} or newer",
            f"{group.product} needs driver {gpu['driver_min']} or newer, {driver} is older.",
        )
    elif listed and key(driver) < key(listed):
        runs = gpu.get("below_listed") == "warn"
        yield about(
            "driver.not_listed_for_gpu",
            f"driver {listed} or newer",
            f"Driver {driver} does not name {group.product}; {listed} is the first release that does"
            + (" (the part is known to run below it)." if runs else "."),
            "warn" if runs else asked,
        )


def _architecture(case: Case, group: GpuGroup, branch: Row) -> Finding:
    return finding(
        "driver.architecture_unsupported",
        case.severity(case.driver_asked),
        row=branch,
        subject=group.subject,
        found=f"{group.label} ({group.architecture})",
        needed=f"one of {', '.join(branch['architectures'])}",
        message=f"Driver branch {branch['branch']} does not drive {group.architecture} GPUs such as {group.product}.",
        fix="Choose a branch that lists the architecture (docs/matrix.md).",
    )


def _common(case: Case) -> t.Iterator[Finding]:
    known = [group.row for group in case.groups if group.row]
    if len(known) < 2 or case.best_driver() is not None:
        return
    parts = ", ".join(
        f"{gpu['id']}: branch {gpu['branch_min']} to {gpu.get('branch_last', 'newest')}, open modules {gpu['open_modules']}"
        for gpu in known
    )
    yield finding(
        "driver.no_common_driver",
        case.severity(case.driver_asked),
        found=parts,
        needed="GPUs that share a driver",
        message=f"No supported driver drives all GPUs of this host ({parts}).",
        fix="Put GPUs that exclude each other into different hosts.",
        source="matrix/gpus.yml",
    )
