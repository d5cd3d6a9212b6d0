# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must be true before CUDA is touched: system, folders, compilers, and the CUDA majors that libraries are for.

Private to the collection, pure.
"""

from __future__ import annotations

from ._contracts import Context
from ._matrix_model import Matrix
from ._matrix_types import OsSupport
from ._plan_cuda_facts import HostCuda, folder
from ._plan_cuda_input import Settings, near
from ._plan_cuda_packages import toolkit_package
from ._plan_driver_part import Part
from ._versions import major_of, minor_of, newest


def check_os(part: Part, os: OsSupport, host: HostCuda) -> None:
    """Packages need a repository of NVIDIA's for the system, and a package manager that module cuda_packages knows."""
    if os.supported and os.package_manager in ("apt", "dnf") and not os.gate_only:
        return
    why = os.reason or os.gate_only or f"packages are installed with apt or dnf, and {os.name} has {os.package_manager or 'none'}"
    part.find(
        "os_unsupported",
        "block",
        f"CUDA packages cannot be installed on {os.name} ({host.arch}): {why.rstrip('.')}.",
        subject=os.name,
        found=f"{os.name} on {host.arch}",
        needed="a system with NVIDIA's repository and apt or dnf",
        nearest=os.nearest or "a runfile (cuda_toolkit_runfiles), which needs no package manager",
        fix="List the toolkits in cuda_toolkit_runfiles, and leave cuDNN and NCCL to the engines' own wheels.",
    )


def check_toolkits(part: Part, settings: Settings, host: HostCuda, matrix: Matrix) -> None:
    for version in settings.versions:
        there = host.at(folder(version))
        if not there:
            continue
        _folder_taken(part, settings, version, str(there.get("version") or ""), host, matrix)
        _compiler(part, version, there)


def _folder_taken(part: Part, settings: Settings, version: str, found: str, host: HostCuda, matrix: Matrix) -> None:
    """Another release of the minor that neither our runfile nor its package put there: nothing can be installed over it."""
    package = toolkit_package(matrix, version)
    ours = any(folder(old) == folder(version) for old in host.our_runfiles) or host.runfile_pending == version
    if found == version or ours or (package in host.packages and version not in settings.runfiles) or package in host.ours:
        return
    part.find(
        "folder_taken",
        "block",
        f"{folder(version)} holds CUDA {found}, which this role did not put there; CUDA {version} would be written over it.",
        subject=folder(version),
        found=f"CUDA {found}",
        needed=f"CUDA {version}, or no folder",
        nearest=found,
        fix=f"Remove it the way it was installed ({folder(version)}/bin/cuda-uninstaller, apt purge, dnf remove), or ask for {found}.",
    )


def _compiler(part: Part, version: str, there: dict[str, str | bool | None]) -> None:
    if there.get("version") != version:
        return
    nvcc = there.get("nvcc", "")
    if nvcc is None:
        part.find(
            "nvcc_missing",
            "warn",
            f"CUDA {version} is in {folder(version)}, but its compiler is not.",
            subject=version,
            found=f"no {folder(version)}/bin/nvcc",
            needed="nvcc",
            fix=f"Install package cuda-nvcc-{str(minor_of(version)).replace('.', '-')} if programs are to be compiled here.",
        )
    elif nvcc and minor_of(str(nvcc)) != minor_of(version):
        part.find(
            "nvcc_mismatch",
            "block",
            f"{folder(version)} says it is CUDA {version}, but its compiler is of {nvcc}: two toolkits were mixed.",
            subject=version,
            found=f"nvcc {nvcc}",
            needed=f"nvcc {minor_of(version)}.*",
            fix="Remove the folder's contents the way they were installed, then run this role again.",
        )


def check_libraries(part: Part, settings: Settings, host: HostCuda, matrix: Matrix, context: Context) -> None:
    """cuDNN and NCCL are built for a CUDA major, which must be there."""
    majors = host.majors() | {major for version in settings.versions if (major := major_of(version))}
    for library, title in (("cudnn", "cuDNN"), ("nccl", "NCCL")):
        rows = {row["version"]: row for row in matrix.section(library)}
        for major, version in sorted(getattr(settings, library).items()):
            row = rows.get(version)
            fitting = [known for known, other in rows.items() if major in other["cuda_majors"]]
            nearest = near(version, fitting) or newest(fitting)
            if row is None:
                part.find(
                    "unknown",
                    context.unknown,
                    f"The matrix does not know {title} {version}" + (f"; the nearest for CUDA {major} is {nearest}." if nearest else "."),
                    about=library,
                    subject=version,
                    found=f"{title} {version}",
                    needed="a row in matrix/cuda.yml or an overlay",
                    nearest=nearest,
                    fix=f"Ask for {nearest}, add a row by gpu_stack_matrix_overlay, or set gpu_stack_unknown: warn.",
                )
            elif major not in row["cuda_majors"]:
                part.find(
                    "cuda_mismatch",
                    "block",
                    f"{title} {version} is built for CUDA {' and '.join(map(str, row['cuda_majors']))}, not for CUDA {major}.",
                    about=library,
                    subject=version,
                    found=f"{title} {version} for CUDA {major}",
                    needed=f"a build for CUDA {major}",
                    nearest=nearest,
                    fix=f"Set cuda_toolkit_{library}['{major}'] to {nearest or 'a version that has one'}.",
                )
            if major not in majors:
                part.find(
                    "cuda_not_installed",
                    "block",
                    f"{title} for CUDA {major} is asked for, but no toolkit of CUDA {major} is wanted or installed.",
                    about=library,
                    subject=str(major),
                    found="toolkits of CUDA " + (", ".join(map(str, sorted(majors))) or "none"),
                    needed=f"a toolkit of CUDA {major}",
                    nearest=str(max(majors)) if majors else None,
                    fix=f"Add a toolkit {major}.x to cuda_toolkit_versions, or drop '{major}' from cuda_toolkit_{library}.",
                )
