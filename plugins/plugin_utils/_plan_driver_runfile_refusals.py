# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must be true of a host before the driver's installer is run there. Private to the collection, pure."""

from __future__ import annotations

from ._plan_driver_facts import HostDriver
from ._plan_driver_input import Settings
from ._plan_driver_obstacles import foreign_holds
from ._plan_driver_part import Part
from ._plan_driver_target import Target

SIGNING = ("--module-signing-secret-key=", "--module-signing-public-key=")


def foreign(part: Part, settings: Settings, target: Target, host: HostDriver) -> None:
    """Packages and a .run file own the same files: one takes the other's place only when asked."""
    if not host.version or host.origin == "runfile" or host.record_runfile_pending:
        return
    if host.origin == "package" and settings.convert:
        foreign_holds(part, host, sorted(host.packages))
        return
    packaged = host.origin == "package"
    part.find(
        "foreign_install",
        "block",
        f"Driver {host.version} was installed {'from packages' if packaged else 'neither by packages nor by a .run file'}; "
        "a .run file over it would leave a mixture of both.",
        found=f"driver {host.version}, {'packages' if packaged else 'of unknown origin'}",
        needed=f"no driver, or one of a .run file, before {target.version} is installed",
        fix="Set nvidia_driver_convert: true to have the packages removed once the file is on the host, or nvidia_driver_source: auto."
        if packaged
        else "Remove it the way it was installed, then run this role again.",
    )


def guard(part: Part, settings: Settings, target: Target, host: HostDriver) -> None:
    """The installer builds for the running kernel, and signs nothing unless it is given a key."""
    if not settings.install_kernel_modules:
        return
    release = str(host.kernel.get("release") or "")
    if release not in (host.kernel.get("headers") or []):
        part.find(
            "headers_missing",
            "block",
            f"There are no headers of the running kernel {release}, so the installer of driver {target.version} cannot build its modules.",
            found=f"headers for: {', '.join(host.kernel.get('headers') or []) or 'no kernel'}",
            needed=f"headers for {release}",
            fix=f"Install {'kernel-devel' if host.manager == 'dnf' else 'linux-headers'}-{release}, with gcc, make and dkms; "
            "or reboot into the kernel whose headers are there.",
            subject=release,
        )
    given = [name for name in SIGNING if any(option.startswith(name) for option in settings.runfile_options)]
    if host.secure_boot.get("state") == "enabled" and len(given) < len(SIGNING):
        part.find(
            "runfile_unsigned",
            "block",
            "Secure Boot is on, and the installer signs the modules only with a key that it is given; the kernel would refuse them.",
            found=f"Secure Boot enabled, {', '.join(given) or 'no signing key'} in nvidia_driver_runfile_options",
            needed=" and ".join(SIGNING) + " of a key that is enrolled",
            fix="Add both options with an enrolled key's files to nvidia_driver_runfile_options, or use nvidia_driver_source: nvidia, "
            "where DKMS signs, or distribution, where the modules are signed already.",
            subject="nvidia_driver_runfile_options",
        )
