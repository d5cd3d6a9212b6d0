# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of kernel modules: open or proprietary, and the kernel under them. Pure.

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
    if case.branch is None:
        return
    for group in case.groups:
        if group.row is not None:
            yield from _modules(case, group, group.row)
    if case.groups:
        yield from _proprietary(case, case.matrix.branch(case.branch))
        yield from _kernel(case)


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
