# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver from NVIDIA's .run file: which file, with which options of its installer, and what stands in the way.

Private to the collection, pure. The options are those of the installer's version (matrix/runfile.yml).
"""

from __future__ import annotations

import re
import typing as t

from ._contracts import Disruption
from ._matrix_model import Matrix
from ._plan_driver_facts import FABRIC_MANAGER, PERSISTENCED, HostDriver
from ._plan_driver_input import Settings, bad_input
from ._plan_driver_obstacles import broken, downgrade
from ._plan_driver_part import Part
from ._plan_driver_runfile_options import arguments
from ._plan_driver_runfile_refusals import foreign, guard
from ._plan_driver_target import Target

FILE = re.compile(r"NVIDIA-Linux-(?P<arch>x86_64|aarch64)-(?P<version>[0-9]+(?:\.[0-9]+){1,2})(?:-[a-z0-9-]+)?\.run")


def runfile_part(settings: Settings, target: Target, host: HostDriver, matrix: Matrix) -> Part:
    """Changes and findings; details `runfile` for converge."""
    part = Part(source="docs/driver_runfile.md")
    broken(part, host)
    why = _why(settings, target, host)
    wanted = _unit_wanted(settings, host, bool(why))
    unit = wanted and not host.unit(PERSISTENCED)
    if why:
        foreign(part, settings, target, host)
        downgrade(part, settings, target, host)
        guard(part, settings, target, host)
        url = _file(part, settings, target, host, matrix)
        _checksum(part, settings)
        given = arguments(part, settings, target, host, matrix)
        after = {"version": target.version, "kernel_modules": target.kernel_modules}
        before = {"version": host.version, "kernel_modules": host.kernel_modules} if host.version else None
        part.change("runfile", url, before, after, why, _disruption(host))
        part.details["runfile"] = _request(settings, target, url, given, wanted)
        if host.origin == "package":
            part.details["runfile_replaces"] = sorted(name for name in host.packages if host.is_installed(name))
    elif unit:
        part.details["runfile"] = _request(settings, target, _url(settings, target, host, matrix), [], True)
    if unit:
        message = f"write the unit {PERSISTENCED}, of which a .run file has a sample only"
        part.change("persistenced_unit", PERSISTENCED, None, "a unit of ours", message)
    _fabric_manager(part, settings, target, host)
    return part


def without_fabric_manager(target: Target, host: HostDriver) -> bool:
    """A .run file has no fabric manager: only one that came by other means can be started."""
    return target.source == "runfile" and not host.unit(FABRIC_MANAGER)


def _why(settings: Settings, target: Target, host: HostDriver) -> str:
    if host.record_runfile_pending:
        return f"finish the interrupted installation of driver {host.record_runfile_pending.get('version')} with {target.version}"
    if not host.version:
        return f"install driver {target.version} ({target.kernel_modules} modules) from its .run file"
    if target.version != host.version:
        return f"change the driver from {host.version} to {target.version}, from its .run file"
    if settings.install_kernel_modules and host.kernel_modules and host.kernel_modules != target.kernel_modules:
        return f"change the kernel modules from {host.kernel_modules} to {target.kernel_modules}"
    return f"replace the packages of driver {host.version} by its .run file" if host.origin == "package" else ""


def _request(settings: Settings, target: Target, url: str, given: list[str], unit: bool) -> dict[str, t.Any]:
    """Options of module driver_runfile."""
    return {
        "version": target.version,
        "url": url,
        "sha256": settings.runfile_sha256,
        "unverified": settings.runfile_unverified,
        "arguments": given,
        "tmpdir": settings.runfile_tmpdir,
        "kernel_modules": target.kernel_modules if settings.install_kernel_modules else "none",
        "persistenced_unit": unit,
        "timeout": settings.runfile_timeout,
    }


def _url(settings: Settings, target: Target, host: HostDriver, matrix: Matrix) -> str:
    pattern = str(matrix.value("rule.runfile.url", "url", ""))
    return settings.runfile_url or pattern.format(version=target.version, arch=host.arch)


def _file(part: Part, settings: Settings, target: Target, host: HostDriver, matrix: Matrix) -> str:
    """The file's URL; a name that tells of another version or machine is an error, any other name is the site's own."""
    url = _url(settings, target, host, matrix)
    named = FILE.fullmatch(url.rpartition("/")[2])
    if not url or (named and (named["version"], named["arch"]) != (target.version, host.arch)):
        nearest = f"…/NVIDIA-Linux-{host.arch}-{target.version}.run"
        part.findings.append(bad_input("runfile_url", url, f"the file of driver {target.version} for {host.arch}", nearest))
    return url


def _checksum(part: Part, settings: Settings) -> None:
    if not settings.runfile_sha256 and not settings.runfile_unverified:
        expected = "the SHA-256 of the .run file (64 hexadecimal digits): it is run as root"
        nearest = "the digest that sha256sum prints for a file you trust, or nvidia_driver_runfile_unverified: true"
        part.findings.append(bad_input("runfile_sha256", "", expected, nearest))


def _disruption(host: HostDriver) -> Disruption:
    """The installer unloads modules that nobody uses; below those in use it leaves other libraries."""
    return "reboot" if host.loaded_version else "none"


def _unit_wanted(settings: Settings, host: HostDriver, moving: bool) -> bool:
    """Whether there is to be one.

    With a new driver only the host sees whether somebody else's file is there: systemd still knows the unit of a package that is gone, as
    long as its daemon runs.
    """
    ours = moving or bool(host.record_runfile)
    return ours and settings.persistenced and settings.install_kernel_modules and bool(host.gpus)


def _fabric_manager(part: Part, settings: Settings, target: Target, host: HostDriver) -> None:
    needed = settings.fabric_manager == "present" or (settings.fabric_manager == "auto" and host.fabric_kind in ("nvswitch", "nvlink5"))
    if not needed or host.unit(FABRIC_MANAGER):
        return
    more = " and nvlsm" if host.fabric_kind == "nvlink5" else ""
    part.find(
        "runfile_fabric_manager",
        "warn",
        f"This machine needs a fabric manager of version {target.version}, and a .run file has none: no GPU computes until it runs.",
        found=f"no {FABRIC_MANAGER}",
        needed=f"nvidia-fabricmanager {target.version}",
        fix=f"Install nvidia-fabricmanager {target.version}{more} from NVIDIA's CUDA repository, or its archive below "
        "https://developer.download.nvidia.com/compute/nvidia-driver/redist/fabricmanager/, and run this role again; "
        "nvidia_driver_source: nvidia brings it along.",
        subject=FABRIC_MANAGER,
    )
