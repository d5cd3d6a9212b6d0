# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back: the recorded set as the target, whatever branch or version is asked for.

Private to the collection, pure. Everything beside the packages (module files, what runs, reboots) is planned as for any driver.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..module_utils._package_sets import driver_version, kernel_modules
from ._contracts import Finding, named_finding
from ._matrix_model import Matrix
from ._matrix_types import DriverPackages
from ._plan_driver_facts import HostDriver
from ._plan_driver_input import Settings, branch_of
from ._plan_driver_obstacles import broken
from ._plan_driver_packages import own_holds, patience
from ._plan_driver_part import SOURCE, Part
from ._plan_driver_refusals import os_unsupported
from ._plan_driver_target import Target


def rollback_target(settings: Settings, host: HostDriver, matrix: Matrix, context: t.Any) -> tuple[Target | None, list[Finding]]:
    """The set before the last change; after the rollback, the set that it brought back. None where nothing is recorded."""
    os = matrix.os(host.os, host.arch)
    if not os.supported:
        return None, [os_unsupported(os, host, context)]
    back = host.record_previous.get("packages") or (host.record_packages if host.rolled_back else {})
    version = driver_version(back)
    if not back or not version:
        return None, [_nothing(host)]
    source = t.cast("t.Literal['nvidia', 'distribution']", host.record_previous.get("source") or host.record_source or "nvidia")
    kind = t.cast("t.Literal['open', 'proprietary']", kernel_modules(back) or host.kernel_modules or "open")
    names = tuple(sorted(back))
    packages = DriverPackages(None, "", source, names, names, (), names, None, None, "apt-mark", "{version}")
    return Target(source, branch_of(version), version, version, kind, names, packages, os), []


def as_present(settings: Settings) -> Settings:
    """Settings for the parts that know only present and absent."""
    return dataclasses.replace(settings, state="present", branch=None, version="", packages_extra=(), allow_downgrade=True)


def rollback_part(settings: Settings, target: Target, host: HostDriver) -> Part:
    """Changes, findings and details `packages` of going back."""
    part = Part()
    broken(part, host)
    wanted = host.record_previous.get("packages") or {}
    if wanted:
        what = f"go back from driver {host.version or '(interrupted)'} to {target.version}, {len(wanted)} packages from their kept files"
        disruption: t.Literal["none", "reboot"] = "reboot" if host.loaded_version and host.loaded_version != target.version else "none"
        before = {"version": host.version, "kernel_modules": host.kernel_modules} if host.version else None
        part.change(
            "packages",
            ", ".join(target.names),
            before,
            {"version": target.version, "kernel_modules": target.kernel_modules},
            what,
            disruption,
        )
        if host.previous_stream:
            module, stream = host.previous_stream.split(":", 1)
            message = f"enable module stream {host.previous_stream}" if stream else f"reset module {module}"
            part.change("module_stream", module, host.streams.get(module), stream or None, message)
        part.details["packages"] = {"state": "rolled_back", "names": list(target.names), "hold": settings.hold, **patience(settings)}
        if host.record_previous.get("unavailable"):
            _unavailable(part, host, "block")
    own_holds(part, settings, target, host, bool(wanted))
    return part


def way_back(part: Part, settings: Settings, target: Target, host: HostDriver) -> None:
    """Beside state present: whether there is a way back, and whether this leads to where one was taken."""
    if host.record_previous.get("unavailable") and settings.rollback != "none":
        _unavailable(part, host, "warn")
    if any(change.id == "driver.packages" for change in part.changes):
        _moves_forward_again(part, host, target.version or target.expected)


def _unavailable(part: Part, host: HostDriver, severity: t.Literal["block", "warn"]) -> None:
    """A rollout reads this finding and stops before it changes a host that could not go back."""
    version, why = host.record_previous.get("version"), str(host.record_previous.get("unavailable"))
    part.find(
        "rollback_unavailable",
        severity,
        f"Driver {version}, the one before this, could not be brought back from its package files: {why}.",
        found=why,
        needed=f"the files of {version} under /var/lib/gpufleet/packages/driver",
        fix="Ask for it by nvidia_driver_version and nvidia_driver_allow_downgrade: true from a repository that has it; "
        "nvidia_driver_rollback: required refuses changes without a way back.",
        subject=str(version),
    )


def _moves_forward_again(part: Part, host: HostDriver, version: str) -> None:
    """Present, after a rollback: what is asked for wins, but nobody should be surprised."""
    left = host.rolled_back.get("version")
    if left and left == version:
        part.find(
            "rolled_back",
            "warn",
            f"Driver {left} was rolled back on this host, and is installed again, because it is asked for.",
            found=f"{host.version}, rolled back from {left}",
            needed=f"nvidia_driver_version: {host.version} (or the lock's) until {left} is known to work",
            fix=f"Ask for {host.version} to stay there; branch and version empty leave the host as it is, too.",
            subject=str(left),
        )


def _nothing(host: HostDriver) -> Finding:
    return named_finding(
        "driver",
        "nothing_to_roll_back",
        "block",
        f"nvidia_driver_state is rolled_back, but no earlier set is recorded on this host (driver {host.version or 'none'}).",
        SOURCE,
        subject="nvidia_driver_state",
        found="no `previous` in /var/lib/gpufleet/driver.json",
        needed="a change of the driver's version by this role",
        fix="Ask for that driver by nvidia_driver_version and nvidia_driver_allow_downgrade: true, with nvidia_driver_state: present.",
        nearest="present",
    )
