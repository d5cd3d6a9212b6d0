# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages CUDA needs, and how what is installed differs: toolkits, cuDNN, NCCL, cuda-compat, extras, holds.

Private to the collection, pure. Which versions a repository has is not a fact of the host: software versions are planned here, the
host resolves them to packages (module cuda_packages) and changes nothing if it cannot.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ._contracts import Disruption
from ._matrix_model import Matrix
from ._plan_cuda_facts import HostCuda, folder
from ._plan_cuda_input import Settings
from ._plan_driver_part import Part, unhold
from ._versions import key, minor_of

TOP = re.compile(r"^(cuda-toolkit-\d+-\d+|cuda-compat-\d+-\d+|libcudnn\d+(-(dev|devel|headers))?(-cuda-\d+)?|libnccl(2|-dev|-devel)?)$")
"""Packages that somebody asks for; the others come as their parts."""


@dataclass(frozen=True)
class Package:
    """One package that is wanted."""

    name: str
    version: str
    title: str
    cuda_major: int = 0

    def option(self) -> dict[str, t.Any]:
        return {"name": self.name, "version": self.version, "cuda_major": self.cuda_major}


def toolkit_package(matrix: Matrix, version: str) -> str:
    row = matrix.toolkits.get(version) or {}
    return str(row.get("package") or f"cuda-toolkit-{(minor_of(version) or version).replace('.', '-')}")


def library_packages(name: str, major: int, version: str, development: bool, rpm: bool = False) -> list[Package]:
    """cuDNN 9 has the CUDA major in its packages' names; cuDNN 8 and NCCL have it in the packages' versions."""
    dev = "devel" if rpm else "dev"
    title = {"cudnn": "cuDNN", "nccl": "NCCL"}[name] + f" {version} for CUDA {major}"
    if name == "nccl":
        return [Package(one, version, title, major) for one in ("libnccl" if rpm else "libnccl2", f"libnccl-{dev}")[: 1 + development]]
    generation = version.split(".")[0]
    if int(generation) >= 9:
        stem = f"libcudnn{generation}"
        names = [f"{stem}-cuda-{major}", *([f"{stem}-{dev}-cuda-{major}", f"{stem}-headers-cuda-{major}"] if development else [])]
        return [Package(one, version, title) for one in names]
    return [Package(one, version, title, major) for one in (f"libcudnn{generation}", f"libcudnn{generation}-{dev}")[: 1 + development]]


def package_part(settings: Settings, wanted: list[Package], host: HostCuda) -> Part:
    """Changes and findings about packages; detail `packages` for converge."""
    part = Part(component="cuda", source="docs/cuda.md")
    names = {package.name for package in wanted}
    for package in wanted:
        _one(part, settings, package, host)
    for name in sorted(name for name in host.ours if TOP.match(name) and name not in names and name in host.packages):
        part.change("package", name, host.packages[name], None, f"remove {name}, which is not asked for any more", "engine_restart")
    _repair(part, host)
    _moved(part, host)
    _holds(part, settings, host)
    if part.changes:
        part.details["packages"] = {
            "packages": [package.option() for package in wanted],
            "hold": settings.hold,
            "allow_downgrade": settings.allow_downgrade,
            "transaction_timeout": settings.package_timeout,
        }
    return part


def _one(part: Part, settings: Settings, package: Package, host: HostCuda) -> None:
    there = host.version_of(package.name)
    built = re.search(r"\+cuda(\d+)", host.packages.get(package.name, ""))
    right_build = not package.cuda_major or built is None or int(built.group(1)) == package.cuda_major
    if there and right_build and package.version in ("", there):
        return
    disruption: Disruption = "engine_restart" if there else "none"
    verb = f"change {package.name} from {there}" if there else f"install {package.name}"
    part.change("package", package.name, there, package.version or "newest", f"{verb} for {package.title}", disruption)
    if there and key(package.version) < key(there) and not settings.allow_downgrade:
        part.find(
            "downgrade",
            "block",
            f"{package.name} {package.version} is older than the installed {there}; a downgrade has to be asked for.",
            subject=package.name,
            found=there,
            needed=f"{package.version} asked for, so cuda_toolkit_allow_downgrade: true",
            nearest=there,
            fix="Set cuda_toolkit_allow_downgrade: true for this run, or ask for the installed version or a newer one.",
        )
    if there and package.name in host.holds and package.name not in host.our_holds:
        part.find(
            "foreign_hold",
            "block",
            f"Package {package.name} is held by someone else, and the asked change would have to move it.",
            subject=package.name,
            found=f"{package.name} {there} on hold, not by this role",
            needed="no foreign hold on the packages that change",
            fix=f"If the hold has served its time: {unhold(host.manager, package.name)}. Otherwise ask for {there}.",
        )


def _repair(part: Part, host: HostCuda) -> None:
    ours = {**host.ours, **host.pending}
    missing = [name for name in sorted(host.ours) if name not in host.packages and not TOP.match(name)]
    broken = [name for name in host.broken if name in ours]
    if host.pending or missing or broken:
        subject = ", ".join(broken or missing or sorted(host.pending))
        part.change("repair", subject, "interrupted" if host.pending or broken else "absent", "installed", f"finish or repair {subject}")
    foreign = [name for name in host.broken if name not in ours]
    if foreign and part.changes:
        part.find(
            "packages_broken",
            "block",
            f"Packages that this role did not install are not fully configured: {', '.join(foreign)}.",
            subject=", ".join(foreign),
            found=", ".join(foreign),
            needed="no interrupted package transaction of others",
            fix="Look at `dpkg --audit` on the host and finish that work there: dpkg --configure -a",
        )


def _moved(part: Part, host: HostCuda) -> None:
    """Somebody else's upgrade of a part: said, not undone, because undoing it would be a downgrade nobody asked for."""
    moved = {name: host.packages[name] for name, version in sorted(host.ours.items()) if host.packages.get(name, version) != version}
    parts = {name: version for name, version in moved.items() if not TOP.match(name)}
    if parts:
        listed = ", ".join(f"{name} {host.ours[name]} → {version}" for name, version in list(parts.items())[:5])
        part.find(
            "parts_moved",
            "warn",
            f"Parts of toolkits were changed by someone else: {listed}.",
            found=listed,
            needed="the parts that were installed with their toolkit",
            fix="Find what upgrades them (unattended-upgrades, a person) and exclude them there; cuda_toolkit_hold: true prevents it.",
        )


def _holds(part: Part, settings: Settings, host: HostCuda) -> None:
    installed = {name for name in host.ours if name in host.packages}
    if settings.hold:
        for name in sorted(installed - host.holds):
            part.change("hold", name, "free", "held", f"hold {name}")
    else:
        for name in sorted(host.our_holds & host.holds):
            part.change("hold", name, "held", "free", f"lift our hold of {name}")


def runfile_part(settings: Settings, host: HostCuda, matrix: Matrix, arch: str) -> Part:
    """Toolkits from runfiles; details `runfiles_absent`, `runfiles_present` for converge."""
    part = Part(component="cuda", source="docs/cuda.md")
    gone = sorted(version for version in host.our_runfiles if version not in settings.runfiles)
    for version in gone:
        part.change("runfile", folder(version), version, None, f"remove CUDA {version}, which its runfile put there", "engine_restart")
    present = []
    for version, runfile in settings.runfiles.items():
        there = str(host.at(folder(version)).get("version") or "")
        owner = toolkit_package(matrix, version)
        free = not there or owner in host.ours or any(folder(old) == folder(version) for old in gone)
        if version == host.runfile_pending or (version not in host.our_runfiles and free) or not there:
            part.change("runfile", folder(version), there or None, version, f"install CUDA {version} from its runfile")
            url = runfile.url or _usual_place(part, settings, matrix, version, arch)
            present.append({"version": version, "url": url, "sha256": runfile.sha256})
    if gone:
        part.details["runfiles_absent"] = gone
    if present:
        part.details["runfiles_present"] = present
    return part


def _usual_place(part: Part, settings: Settings, matrix: Matrix, version: str, arch: str) -> str:
    """The runfile's name differs by version: up to 13.3 it carries the driver's."""
    row = matrix.toolkits.get(version) or {}
    file = (row.get("runfile") or {}).get(arch)
    if not file or row.get("runfile_confidence") == "unverified":
        part.find(
            "runfile_unknown",
            "block",
            f"The name of the runfile of CUDA {version} for {arch or 'this machine'} is not known for sure"
            + (f"; it may be {file}." if file else "."),
            subject=version,
            found=file or "no name in the matrix",
            needed="a name that is known, or the URL",
            nearest=file,
            fix=f"Set url in cuda_toolkit_runfiles['{version}'], or add a row by gpu_stack_matrix_overlay.",
        )
        return ""
    base = settings.runfile_url.rstrip("/")
    pattern = matrix.value(
        "rule.cuda.runfile_url", "url", "https://developer.download.nvidia.com/compute/cuda/{version}/local_installers/{file}"
    )
    return f"{base}/{version}/local_installers/{file}" if base else str(pattern).format(version=version, file=file)
