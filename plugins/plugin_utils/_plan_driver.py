# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan of component `driver`: from what a site wants and what a host has to findings, changes and a decision.

Private to the collection, pure. The parts are one file each: input, target (which driver), packages, modules (files,
initramfs), running (load, daemons), reboot (evidence, policy), absent, predict.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..module_utils import _paths
from ._contracts import Context, Decision, Finding, Plan
from ._matrix_model import Matrix
from ._plan_driver_absent import plan_absent
from ._plan_driver_cuda import cuda_part
from ._plan_driver_fabric import fabric_part
from ._plan_driver_facts import HostDriver
from ._plan_driver_input import Settings, parse
from ._plan_driver_kernels import compiler_part, next_boot_part
from ._plan_driver_modules import module_part
from ._plan_driver_packages import headers_wanted, package_part
from ._plan_driver_part import SOURCE, Part
from ._plan_driver_predict import predict
from ._plan_driver_reboot import reasons, reboot_part
from ._plan_driver_reload import gentler, keeps_modules, reload_part, reloads
from ._plan_driver_rollback import as_present, rollback_part, rollback_target, way_back
from ._plan_driver_runfile import runfile_part, without_fabric_manager
from ._plan_driver_running import running_part
from ._plan_driver_secure_boot import secure_boot_part, waits, withdraw
from ._plan_driver_target import Target, choose
from ._plan_state_files import PACKAGE_RECORDS, unreadable_state

MANAGERS = ("apt", "dnf")
STATE_FILES = (*PACKAGE_RECORDS, _paths.REBOOT_REQUIRED, _paths.DRIVER_RELOAD)


def plan(desired: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any], matrix: Matrix, context: Context) -> Plan:
    """`desired`: the variables of role nvidia_driver without their prefix."""
    result = Plan(component="driver")
    settings, wrong = parse(desired)
    if wrong:
        result.findings.extend(wrong)
        return result
    result.findings.extend(unreadable_state("driver", SOURCE, facts, STATE_FILES))
    if result.findings:
        return result
    host = HostDriver(facts)
    if settings.state == "absent":
        # What does not work with this driver is no reason to keep it.
        result.details["stack"] = {"component": "driver"}
        plan_absent(result, settings, host, context)
        key = Part()
        withdraw(key, host)
        _add(result, key)
        return result
    back = settings.state == "rolled_back"
    target, findings = (rollback_target if back else choose)(settings, host, matrix, context)
    result.findings.extend(findings)
    if target is None:
        return result
    if target.os.package_manager not in MANAGERS and target.source != "runfile":
        result.findings.append(_package_manager(target))
        return result
    if back:
        settings, packages = as_present(settings), rollback_part(settings, target, host)
    elif target.source == "runfile":
        packages = runfile_part(settings, target, host, matrix)
    else:
        packages = package_part(settings, target, host)
        way_back(packages, settings, target, host)
    _plan_present(result, settings, target, host, matrix, context, packages)
    return result


def _package_manager(target: Target) -> Finding:
    return Finding(
        id="driver.package_manager",
        severity="block",
        component="driver",
        subject=target.os.name,
        found=f"{target.os.name} with {target.os.package_manager}",
        needed=f"a system with {' or '.join(MANAGERS)}",
        message=f"This version of the collection changes driver packages with {' and '.join(MANAGERS)}, "
        f"{target.os.name} has {target.os.package_manager}.",
        fix="Install the driver by other means and leave this role out; the other roles work with any driver.",
        source="docs/driver.md, systems",
    )


def _plan_present(
    result: Plan, settings: Settings, target: Target, host: HostDriver, matrix: Matrix, context: Context, packages: Part
) -> None:
    moving = any(change.id in ("driver.packages", "driver.runfile") for change in packages.changes)
    back = moving and packages.details.get("packages", {}).get("state") == "rolled_back"
    # A broken driver or fabric is this role's work. What stays as it is was not asked for: the gate warns of it and does not block.
    result.details["stack"] = {"component": "driver", **({"driver": target.stack()} if moving and not back else {})}
    files = module_part(settings, host, target.source, target.kernel_modules)
    future = (target.version or target.expected) if moving else host.module_version or host.library_version or ""
    because = reasons(settings, host, future, target.kernel_modules if moving else host.kernel_modules)
    reload = reload_part(settings, host, because, future)
    cured = reloads(reload)
    if cured:
        because, packages.changes = [], gentler(packages.changes)
    runs = dataclasses.replace(settings, fabric_manager="absent") if without_fabric_manager(target, host) else settings
    brings = moving or "runfile" in packages.details
    running = running_part(runs, host, brings, because)
    fabric = fabric_part(runs, host, brings, bool(because))
    work = bool(packages.changes or files.changes or running.changes or fabric.changes)
    new = bool(packages.changes or files.changes)
    reboot = reboot_part(settings, host, context, because, work, new, *keeps_modules(settings, host, because))
    reboots = bool(because) and bool(reboot.details["reboot"]["now"])
    guard = _guard(settings, target, host, moving)
    boot = secure_boot_part(settings, target, host, moving, bool(running.details.get("load")) or cured)
    if waits(boot):
        # Nothing else is done before the kernel would take the modules; what stands in the way of it is said at once.
        result.details.pop("stack", None)
        _add(result, boot)
        result.findings.extend([*packages.findings, *guard.findings])
        result.decision = "converge" if result.changes else "nothing"
        return
    cuda = cuda_part(target, host, matrix) if moving else Part()
    kernels = compiler_part(host) if moving and not target.signed_modules else Part()
    ahead = next_boot_part(host, future, reboots) if settings.install_kernel_modules and not new and host.version else Part()
    for part in (packages, files, reload, running, fabric, reboot, guard, boot, cuda, kernels, ahead):
        _add(result, part)
    result.decision = _decision(result, bool(because), cured)
    result.predicted = predict(settings, target, host, result.details, reboots or cured)


def _add(result: Plan, part: Part) -> None:
    result.changes.extend(part.changes)
    result.findings.extend(part.findings)
    result.details.update(part.details)


def _decision(result: Plan, reboot: bool, reload: bool) -> Decision:
    return "reboot" if reboot else "reload" if reload else "converge" if result.changes else "nothing"


def _guard(settings: Settings, target: Target, host: HostDriver, moving: bool) -> Part:
    """What must be true of the host before its driver is touched."""
    part = Part()
    if not host.gpus:
        part.find(
            "no_gpu",
            "warn",
            "No NVIDIA GPU is seen on the PCI bus; the driver can be installed here, but neither loaded nor verified.",
            found="no PCI device 10de of class 0300 or 0302",
            needed="at least one NVIDIA GPU",
            fix="Check the host's hardware, or leave it out of the group of GPU hosts.",
        )
    if moving and host.state == "hung":
        part.find(
            "hung",
            "block",
            "The loaded driver does not answer; packages are not changed below it.",
            found="state hung",
            needed="a driver that answers, or none loaded",
            fix="Reboot the host first; see playbook gpufleet.inference.doctor.",
        )
    missing = headers_wanted(settings, target, host) if moving and not host.module_version and target.source != "runfile" else []
    if missing:
        part.find(
            "headers_missing",
            "warn",
            f"There are no kernel headers for {', '.join(missing)}. They are installed along with the driver if a repository has them; "
            "if none does, DKMS builds no module.",
            found=f"headers for: {', '.join(host.kernel.get('headers') or []) or 'no kernel'}",
            needed=f"headers for {', '.join(missing)}",
            fix="Offer the headers of these kernels in a repository of the host, or use packages with prebuilt modules.",
            subject=", ".join(missing),
        )
    return part
