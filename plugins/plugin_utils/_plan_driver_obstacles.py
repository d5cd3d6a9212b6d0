# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in the way of a package change: broken packages, a .run driver, a downgrade, holds of others. Pure.

Private to the collection.
"""

from __future__ import annotations

from ._plan_driver_facts import HostDriver
from ._plan_driver_input import Settings
from ._plan_driver_part import Part, unhold
from ._plan_driver_target import Target


def in_set(name: str, target: Target) -> bool:
    """Whether a package belongs to the driver's set."""
    return name in target.names or name == target.packages.pinning or target.packages.is_member(name)


def broken(part: Part, host: HostDriver) -> None:
    ours = {*host.record_packages, *host.record_pending}
    foreign = [name for name in host.broken if name not in ours]
    if foreign:
        part.find(
            "packages_broken",
            "block",
            f"Packages that this role did not install are not fully configured: {', '.join(foreign)}.",
            found=", ".join(foreign),
            needed="no interrupted package transaction of others",
            fix="Look at `dpkg --audit` (or `dnf check`) on the host and finish that work there: dpkg --configure -a",
            subject=", ".join(foreign),
        )


def origin(part: Part, host: HostDriver) -> None:
    """A driver that no package brought would stay below the packages' files, or mix with them."""
    if not host.version or host.origin == "package":
        return
    runfile = host.origin == "runfile"
    part.find(
        "foreign_install",
        "block",
        f"Driver {host.version} was installed {'by a .run file' if runfile else 'without packages'}; "
        "packages over it would leave a mixture of both.",
        found=f"driver {host.version} without packages",
        needed="no driver, or one from packages",
        fix="Set nvidia_driver_convert: true to have it replaced once the packages are on the host, or run `nvidia-uninstall` there "
        "(with its GPUs idle) and this role again."
        if runfile
        else "Remove it the way it was installed, then run this role again; or ask for the installed version.",
    )


def downgrade(part: Part, settings: Settings, target: Target, host: HostDriver) -> None:
    wanted = target.version or target.expected
    if not host.version or not wanted or _key(wanted) >= _key(host.version) or settings.allow_downgrade:
        return
    part.find(
        "downgrade",
        "block",
        f"Driver {wanted} is older than the installed {host.version}; a downgrade has to be asked for.",
        found=host.version,
        needed=f"{wanted} asked for, so nvidia_driver_allow_downgrade: true",
        fix="Set nvidia_driver_allow_downgrade: true for this run, or ask for the installed version or a newer one.",
        subject="nvidia_driver_version",
        nearest=host.version,
    )


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def holds_of_others(part: Part, target: Target, host: HostDriver) -> None:
    foreign_holds(part, host, [name for name in {*host.packages, *host.package_set} if in_set(name, target)])


def foreign_holds(part: Part, host: HostDriver, names: list[str]) -> None:
    for name in sorted(name for name in names if host.is_held(name) and name not in host.record_holds):
        part.find(
            "foreign_hold",
            "block",
            f"Package {name} is held by someone else, and the asked change would have to move it.",
            found=f"{name} on hold, not by this role",
            needed="no foreign hold on the packages that change",
            fix=f"If the hold has served its time: {unhold(host.manager, name)}. Otherwise ask for the installed version.",
            subject=name,
        )
