# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the NVLink fabric: fabric manager, NVLink 5, IMEX. Pure.

Private to the collection. The role that moves the driver installs these packages in the same transaction: what is missing then is part of
its plan, not a finding.
"""

from __future__ import annotations

import typing as t

from ._contracts import Finding, Severity
from ._matrix_case import Case, Facts
from ._matrix_findings import finding

RULE = "rule.fabric.manager"


def rules(case: Case) -> t.Iterator[Finding]:
    fabric: Facts = case.facts.get("fabric") or {}
    kind = fabric.get("kind") or "none"
    if not fabric.get("needed") or kind == "none" or case.driver is None:
        return
    row = case.matrix.rows.get(RULE)
    manager: Facts = (fabric.get("imex") if kind == "imex" else fabric.get("manager")) or {}
    title, package = ("IMEX", "nvidia-imex") if kind == "imex" else ("fabric manager", "nvidia-fabricmanager")
    installed = manager.get("installed_version")
    if case.cures_driver and case.driver_moves:
        return
    severity: Severity = "warn" if case.cures_driver else "block"
    if not installed:
        yield finding(
            "fabric.imex_missing" if kind == "imex" else "fabric.manager_missing",
            severity,
            row=row,
            found=f"no {title}, fabric of kind {kind}",
            needed=f"{title} of version {case.driver_found}",
            nearest=f"{package} {case.driver_found}",
            message=f"This machine has an NVLink fabric ({kind}) and no {title}: CUDA does not start on its GPUs.",
            fix="Run the role nvidia_driver, which installs it with the driver" + (" and nvlsm." if kind == "nvlink5" else "."),
        )
        return
    if case.driver_found and installed != case.driver_found:
        yield finding(
            "fabric.version_mismatch",
            severity,
            row=row,
            found=f"{title} {installed}, driver {case.driver_found}",
            needed=f"{title} {case.driver_found}",
            nearest=f"{package} {case.driver_found}",
            message=f"The {title} ({installed}) must have exactly the driver's version ({case.driver_found}); it does not start otherwise.",
            fix="Run the role nvidia_driver, which moves both in one transaction; or reboot if the driver on disk is the right one.",
        )
    elif manager.get("active") != "active":
        yield finding(
            "fabric.manager_inactive",
            severity,
            row=row,
            subject=manager.get("unit"),
            found=f"{manager.get('unit')} is {manager.get('active') or 'unknown'}",
            needed="active",
            message=f"The {title} is installed and does not run ({manager.get('active')}).",
            fix=f"See journalctl -u {manager.get('unit')}; start it.",
        )
    elif fabric.get("ready") is False:
        yield finding(
            "fabric.not_ready",
            severity,
            row=row,
            found=str(fabric.get("reason") or "not ready"),
            needed="fabric state completed, status success on all GPUs",
            message=f"The GPU fabric is not ready: {fabric.get('reason') or 'no reason given'}.",
            fix=f"See journalctl -u {manager.get('unit')} and nvidia-smi -q (Fabric); reset or reboot after draining.",
        )
    if kind == "nvlink5" and (case.facts.get("pci") or {}).get("ib_umad") is False:
        yield finding(
            "fabric.ib_umad_missing",
            "warn",
            row=row,
            found="ib_umad is not loaded",
            needed="ib_umad loaded",
            message="NVLink 5 is managed over InfiniBand devices and needs the kernel module ib_umad, which is not loaded.",
            fix="modprobe ib_umad, and name it in /etc/modules-load.d.",
        )
