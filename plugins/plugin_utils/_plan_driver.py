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

from ._contracts import Context, Decision, Finding, Plan
from ._matrix_model import Matrix
from ._plan_driver_absent import plan_absent
from ._plan_driver_cuda import cuda_part
from ._plan_driver_facts import HostDriver
from ._plan_driver_input import Settings, parse
from ._plan_driver_modules import module_part
from ._plan_driver_packages import headers_wanted, package_part
from ._plan_driver_part import Part
from ._plan_driver_predict import predict
from ._plan_driver_reboot import reasons, reboot_part
from ._plan_driver_runfile import runfile_part, without_fabric_manager
from ._plan_driver_running import running_part
from ._plan_driver_target import Target, choose


def plan(desired: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any], matrix: Matrix, context: Context) -> Plan:
    """`desired`: the variables of role nvidia_driver without their prefix."""
    result = Plan(component="driver")
    settings, wrong = parse(desired)
    if wrong:
        result.findings.extend(wrong)
        return result
    host = HostDriver(facts)
    if settings.state == "absent":
        plan_absent(result, settings, host, context)
        return result
    target, findings = choose(settings, host, matrix, context)
    result.findings.extend(findings)
    if target is None:
        return result
    if target.os.package_manager != "apt" and target.source != "runfile":
        result.findings.append(_package_manager(target))
        return result
    _plan_present(result, settings, target, host, matrix, context)
    return result


def _package_manager(target: Target) -> Finding:
    # dnf and zypper belong here once driver_packages has their backends.
    return Finding(
        id="driver.package_manager",
        severity="block",
        component="driver",
        subject=target.os.name,
        found=f"{target.os.name} with {target.os.package_manager}",
        needed="a system with apt",
        message=f"This version of the collection changes driver packages with apt only, {target.os.name} has {target.os.package_manager}.",
        fix="Install the driver by other means and leave this role out; the other roles work with any driver.",
        source="docs/driver.md, systems",
    )


def _plan_present(result: Plan, settings: Settings, target: Target, host: HostDriver, matrix: Matrix, context: Context) -> None:
    runfile = target.source == "runfile"
    packages = runfile_part(settings, target, host, matrix) if runfile else package_part(settings, target, host)
    moving = any(change.id in ("driver.packages", "driver.runfile") for change in packages.changes)
    if moving:
        # What stays as it is was not asked for by this run: the gate then warns about it and does not block.
        result.details["stack"] = {"driver": target.stack()}
    files = module_part(settings, host, target.source)
    future = (target.version or target.expected) if moving else host.module_version or host.library_version or ""
    because = reasons(settings, host, future, target.kernel_modules if moving else host.kernel_modules)
    runs = dataclasses.replace(settings, fabric_manager="absent") if without_fabric_manager(target, host) else settings
    running = running_part(runs, host, moving or "runfile" in packages.details, bool(because))
    work = bool(packages.changes or files.changes or running.changes)
    reboot = reboot_part(settings, host, context, because, work, bool(packages.changes or files.changes))
    guard = _guard(settings, target, host, moving, bool(running.details.get("load")))
    cuda = cuda_part(target, host, matrix) if moving else Part()
    for part in (packages, files, running, reboot, guard, cuda):
        result.changes.extend(part.changes)
        result.findings.extend(part.findings)
        result.details.update(part.details)
    result.decision = _decision(result, bool(because))
    reboots = bool(because) and bool(reboot.details["reboot"]["now"])
    result.predicted = predict(settings, target, host, result.details, reboots)


def _decision(result: Plan, reboot: bool) -> Decision:
    # `reload` (replacing a loaded module without a reboot) belongs here once the role can do it.
    return "reboot" if reboot else "converge" if result.changes else "nothing"


def _guard(settings: Settings, target: Target, host: HostDriver, moving: bool, loads: bool) -> Part:
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
    signed = target.signed_modules or host.secure_boot.get("state") != "enabled" or host.secure_boot.get("mok_enrolled") is True
    if settings.install_kernel_modules and (moving or loads) and not host.loaded_version and not signed:
        part.find(
            "secure_boot",
            "block",
            "Secure Boot is on and no machine owner key is enrolled, so the kernel would refuse the driver's modules.",
            found="Secure Boot enabled, MOK not enrolled",
            needed="an enrolled key that signs the modules, or Secure Boot off",
            fix="Enrol a key (mokutil --import, confirmed on the console at the next boot), use modules that the distribution signs, "
            "or switch Secure Boot off.",
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
