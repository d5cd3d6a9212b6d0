# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the host: number of GPUs, packages, Secure Boot, system. Pure.

Private to the collection. Who else manages the host is judged over a plan (_conduct.py), since only a change can clash.
"""

from __future__ import annotations

import typing as t

from ._contracts import Finding
from ._matrix_case import Case
from ._matrix_findings import finding

STATES = "docs/states.md"


def rules(case: Case) -> t.Iterator[Finding]:
    yield from _count(case)
    yield from _missing(case)
    yield from _packages(case)
    yield from _secure_boot(case)
    yield from _system(case)
    for path, reason in ((case.facts.get("state_files") or {}).get("errors") or {}).items():
        yield finding(
            "host.state_file_unreadable",
            "warn",
            subject=path,
            found=reason,
            needed="a readable state file",
            message=f"{path} cannot be read: {reason.rstrip('.')}.",
            fix="Run with the privileges that the file needs (become), or restore it from the last good run.",
            source=STATES,
        )


def _count(case: Case) -> t.Iterator[Finding]:
    counts = case.facts.get("counts") or {}
    pci, nvml, expected = counts.get("pci"), counts.get("nvml"), counts.get("expected")
    away = sum(1 for gpu in case.gpus if gpu.get("driver_bound") in ("vfio-pci",))
    visible = (pci or 0) - away
    if expected is not None and pci is not None and pci != expected:
        text, needed = f"The PCI bus shows {pci} GPUs, the inventory expects {expected}.", str(expected)
    elif nvml is not None and pci is not None and nvml != visible:
        text, needed = f"The PCI bus shows {visible} GPUs, NVML answers for {nvml}.", str(visible)
    else:
        return
    yield finding(
        "host.gpu_count",
        "block",
        found=f"PCI {pci}, NVML {nvml if nvml is not None else 'no answer'}, expected {expected if expected is not None else 'any'}",
        needed=needed,
        message=text,
        fix="Look for Xid 79 in the kernel log, check power and seating; correct the expected number if the machine is right.",
        source="gpu_info: sysfs, NVML, gpu_preflight_expected_gpus",
    )


def _missing(case: Case) -> t.Iterator[Finding]:
    """GPUs in our own record that are gone; told only where every GPU that is there says who it is."""
    recorded = ((case.facts.get("state_files") or {}).get("gpu_settings_recorded") or {}).get("gpus") or {}
    present = {gpu.get("uuid") for gpu in case.gpus}
    gone = sorted(set(recorded) - present)
    if not gone or None in present:
        return
    yield finding(
        "host.gpu_missing",
        "warn",
        found=f"{len(present)} GPUs; not there: {', '.join(gone)}",
        needed=f"the {len(recorded)} GPUs that were set up",
        message=f"{len(gone)} of {len(recorded)} GPUs that were set up on this host are not there any more: {', '.join(gone)}.",
        fix="Look for Xid 79 in the kernel log, check power and seating; if they were taken out for good, run gpu_power once with "
        "gpu_power_forget_missing.",
        source="/var/lib/gpufleet/gpu_settings.json",
    )


def _packages(case: Case) -> t.Iterator[Finding]:
    packages = case.facts.get("packages") or {}
    record = (case.facts.get("state_files") or {}).get("driver") or {}
    healed = {*record.get("packages", ()), *record.get("pending", ())} if case.cures_driver else set()
    healed |= set((case.stack.get("container_toolkit") or {}).get("heals") or ())
    for name in packages.get("broken") or ():
        yield finding(
            "host.packages_broken",
            "info" if name in healed else case.severity(case.driver_asked, case.toolkits_asked, case.container_toolkit_asked),
            subject=name,
            found=f"{name} is not fully configured",
            needed="fully configured packages",
            message=f"The package {name} is not fully configured: an earlier transaction broke off.",
            fix="dpkg --configure -a and apt-get -f install (dnf: dnf history, rpm -Va), then run again.",
            source="package manager of the host",
        )
    ours = set(((case.facts.get("state_files") or {}).get("driver") or {}).get("holds") or ())
    for name in packages.get("holds") or ():
        if name not in ours:
            yield finding(
                "host.foreign_hold",
                "warn",
                subject=name,
                found=f"{name} is held, and not by this collection",
                needed="no foreign hold on what is to change",
                message=f"Somebody else holds the package {name}; this collection leaves it as it is.",
                fix=f"Lift the hold (apt-mark unhold {name}, dnf versionlock delete {name}) if it is not wanted.",
                source="package manager of the host, /var/lib/gpufleet/driver.json",
            )


def _secure_boot(case: Case) -> t.Iterator[Finding]:
    boot = case.host.get("secure_boot") or {}
    if boot.get("state") != "enabled" or boot.get("mok_enrolled") is True or not case.driver_asked:
        return
    answer = case.matrix.driver_packages(case.os, case.branch or 0, case.kernel_modules or "open", (), case.driver_source)
    if answer.rule and (case.matrix.rows.get(answer.rule) or {}).get("signed_modules"):
        return
    known = boot.get("mok_enrolled") is False
    yield finding(
        "host.secure_boot_key",
        "block" if known else "warn",
        row=case.matrix.rows.get("rule.secure_boot.dkms"),
        found="Secure Boot enabled, " + ("no machine-owner key enrolled" if known else "machine-owner key unknown (needs root)"),
        needed="an enrolled key, or modules signed by the distribution",
        message="Secure Boot is on and modules built on this host are signed with a key that is not enrolled, so they would not load.",
        fix="Enrol the key (mokutil --import, confirm at the console), use the distribution's signed modules, or switch Secure Boot off.",
    )


def _system(case: Case) -> t.Iterator[Finding]:
    system = case.os
    if system.supported or not case.host.get("os"):
        return
    from_nvidia = (case.driver_asked and case.driver_source == "nvidia") or case.toolkits_asked
    row = case.matrix.rows.get(system.rule or "")
    yield finding(
        "os.unsupported" if system.known else "os.unknown",
        case.severity(from_nvidia) if system.known else case.policy.unknown if from_nvidia else "warn",
        row=row,
        found=f"{system.name} on {case.host.get('machine_arch')}",
        needed="a system with a row in matrix/os.yml",
        nearest=system.nearest,
        message=system.reason,
        fix=f"Use {system.nearest}." if system.nearest else "Use a supported system (docs/matrix.md), or add a row with an overlay.",
        source=system.source,
    )
