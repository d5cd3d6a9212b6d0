# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the driver: GPU, kernel modules, kernel, end of life, advisories, packages. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from . import _matrix_driver as rows
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
            yield from _modules(case, group, group.row)
        elif branch is not None and group.architecture and group.architecture not in branch["architectures"]:
            yield _architecture(case, group, branch)
    yield from _proprietary(case, branch)
    yield from _kernel(case)
    yield from _common(case)
    if branch is not None:
        yield from _ended(case, branch)
        yield from _newer(case, branch)
    yield from _advisories(case)
    yield from _packages(case)


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


def _modules(case: Case, group: GpuGroup, gpu: Row) -> t.Iterator[Finding]:
    asked = case.severity(case.modules_asked)
    if case.kernel_modules == "open" and gpu["open_modules"] == "unsupported":
        yield finding(
            "driver.open_unsupported",
            asked,
            row=gpu,
            subject=group.subject,
            found="open kernel modules",
            needed="proprietary kernel modules (branch 580 or older)",
            nearest=case.nearest_driver(),
            message=f"Open kernel modules do not drive {group.product} ({gpu['architecture']}): they begin with Turing.",
            fix="Set nvidia_driver_kernel_modules: proprietary, on branch 580.",
        )
    if case.kernel_modules == "proprietary" and gpu["open_modules"] == "required":
        yield finding(
            "driver.open_required",
            asked,
            row=gpu,
            subject=group.subject,
            found="proprietary kernel modules",
            needed="open kernel modules",
            nearest=case.nearest_driver(),
            message=f"{group.product} works with open kernel modules only.",
            fix="Set nvidia_driver_kernel_modules: open (or leave it at auto).",
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


def _proprietary(case: Case, branch: Row | None) -> t.Iterator[Finding]:
    first = case.matrix.value("rule.driver.open_only", "branch", 620)
    gone = not branch["proprietary"] if branch else t.cast("int", case.branch) >= first
    if not gone or case.kernel_modules != "proprietary":
        return
    yield finding(
        "driver.proprietary_gone",
        case.severity(case.modules_asked, case.driver_asked),
        row=case.matrix.rows.get("rule.driver.open_only"),
        found=f"proprietary kernel modules of branch {case.branch}",
        needed="open kernel modules",
        nearest=case.nearest_driver(),
        message=f"Branch {case.branch} has no proprietary kernel modules: from branch {first} on there are only open ones.",
        fix="Set nvidia_driver_kernel_modules: open (or auto); GPUs before Turing stay on branch 580.",
    )


def _kernel(case: Case) -> t.Iterator[Finding]:
    needed = case.matrix.value("rule.driver.open_kernel", "kernel_min", None)
    kernel = str((case.host.get("kernel") or {}).get("release") or "")
    if case.kernel_modules == "open" and needed and kernel and key(kernel) < key(needed):
        yield finding(
            "driver.open_kernel_too_old",
            case.severity(case.driver_asked),
            row=case.matrix.rows["rule.driver.open_kernel"],
            found=f"Linux {kernel}",
            needed=f"Linux {needed} or newer",
            message=f"Open kernel modules need Linux {needed} or newer; this host runs {kernel}.",
            fix="Boot a newer kernel.",
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
    why = f"{in_branch} fixes them in this branch" if in_branch else safe.get("reason", "no fix in this branch is known")
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
    if not case.driver_asked or not case.os.supported:
        return
    modules = case.kernel_modules or (best.kernel_modules if (best := case.best_driver()) else "open")
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
