# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan of component `cuda`: toolkits side by side, one default, cuDNN, NCCL and cuda-compat.

Private to the collection, pure. The parts are one file each: input, packages (and runfiles), compat, environment, checks, absent, predict.
What runs on what (driver, architecture, repository) is the matrix's judgement over `details.stack`.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ._contracts import Context, Finding, Plan
from ._matrix_model import Matrix
from ._plan_cuda_absent import plan_absent
from ._plan_cuda_checks import check_libraries, check_os, check_toolkits
from ._plan_cuda_compat import choose_compat
from ._plan_cuda_environment import environment_part
from ._plan_cuda_facts import HostCuda
from ._plan_cuda_input import Settings, bad_input, parse
from ._plan_cuda_packages import Package, library_packages, package_part, runfile_part, toolkit_package
from ._plan_cuda_predict import predict
from ._plan_cuda_repository import add_repository
from ._plan_driver_part import Part
from ._plan_state_files import PACKAGE_RECORDS, unreadable_state


def plan(desired: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any], matrix: Matrix, context: Context) -> Plan:
    """`desired`: the variables of role cuda_toolkit without their prefix."""
    result = Plan(component="cuda")
    settings, wrong = parse(desired, matrix)
    if wrong:
        result.findings.extend(wrong)
        return result
    result.findings.extend(unreadable_state("cuda", "docs/cuda.md", facts, PACKAGE_RECORDS))
    if result.findings:
        return result
    host = HostCuda(facts)
    if settings.state == "absent":
        plan_absent(result, host)
        return result
    settings = _with_lock(settings, context)
    if not (settings.versions or settings.cudnn or settings.nccl or settings.packages_extra):
        result.findings.append(_nothing_asked(host))
        return result
    _plan_present(result, settings, host, matrix, context)
    return result


def _nothing_asked(host: HostCuda) -> Finding:
    """Nothing to do where nothing is ours; an empty list alone never takes toolkits away."""
    if host.recorded:
        return bad_input("versions", [], "at least one exact version; cuda_toolkit_state: absent takes away what this role put there")
    return Finding(
        id="cuda.nothing_asked",
        severity="info",
        component="cuda",
        subject="cuda_toolkit_versions",
        found="no toolkit, cuDNN, NCCL or package is asked for",
        needed="nothing: engines bring their own CUDA libraries",
        message="No CUDA toolkit is asked for, and this role has put none here.",
        fix="Set cuda_toolkit_versions if programs are to be compiled on this host.",
        source="docs/cuda.md",
    )


def _with_lock(settings: Settings, context: Context) -> Settings:
    """The stack lock fills what the site leaves open."""
    toolkit = str(((context.lock or {}).get("cuda") or {}).get("toolkit") or "")
    return dataclasses.replace(settings, versions=(toolkit,)) if toolkit and not settings.versions else settings


def _plan_present(result: Plan, settings: Settings, host: HostCuda, matrix: Matrix, context: Context) -> None:
    os = matrix.os(host.os, host.arch)
    compat, compat_package, compat_part = choose_compat(settings, host, matrix)
    wanted = _wanted(settings, host, matrix, compat_package)
    packages = package_part(settings, wanted, host)
    runfiles = runfile_part(settings, host, matrix, os.repository_arch or "")
    environment = environment_part(settings, host, compat)
    checks = Part(component="cuda", source="docs/cuda.md")
    check_toolkits(checks, settings, host, matrix)
    check_libraries(checks, settings, host, matrix, context)
    if "packages" in packages.details:
        check_os(checks, os, host)
        add_repository(packages, settings, host, os)
    for part in (packages, runfiles, environment, compat_part, checks):
        result.changes.extend(part.changes)
        result.findings.extend(part.findings)
        result.details.update(part.details)
    result.details["stack"] = {"cuda": {"toolkits": list(settings.versions), "compat": bool(compat), "runfiles": sorted(settings.runfiles)}}
    result.decision = "converge" if result.changes else "nothing"
    if result.changes:
        result.predicted = predict(settings, host, compat)


def _wanted(settings: Settings, host: HostCuda, matrix: Matrix, compat: Package | None) -> list[Package]:
    packages = []
    for version in settings.versions:
        name = toolkit_package(matrix, version)
        if version not in settings.runfiles and not host.has_elsewise(version, name):
            packages.append(Package(name, version, f"CUDA {version}"))
    for library in ("cudnn", "nccl"):
        for major, version in sorted(getattr(settings, library).items()):
            packages.extend(library_packages(library, major, version, settings.development, host.manager == "dnf"))
    if compat:
        packages.append(compat)
    packages.extend(Package(name, "", "cuda_toolkit_packages_extra") for name in settings.packages_extra)
    return packages
