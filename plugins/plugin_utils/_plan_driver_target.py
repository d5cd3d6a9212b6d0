# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which driver a host should have: source, branch, version, kind of kernel modules, package names.

Private to the collection, pure. Versions never move by themselves: where neither version nor branch is asked for, what is
installed stays; the matrix is asked for a driver only where there is none yet.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from dataclasses import dataclass

from ..module_utils._package_sets import driver_version
from ._contracts import Context, Finding
from ._matrix_model import Matrix
from ._matrix_types import DriverPackages, OsSupport
from ._plan_driver_facts import HostDriver
from ._plan_driver_input import CHOICES, Settings, bad_input, branch_of
from ._plan_driver_kind import kernel_modules
from ._plan_driver_refusals import no_choice, no_packages, only_with_modules, os_unsupported

KERNEL_PACKAGE = re.compile(r"dkms$|-dkms-|kmod-|linux-(modules|objects)-nvidia|^(nvidia-open|cuda-drivers)|^nvidia-driver(-\d+.*)?$")
"""Packages that are or bring kernel modules; nvidia-driver-cuda is none of them."""


Source = t.Literal["nvidia", "distribution", "runfile"]
NO_PACKAGES = DriverPackages(None, "", "nvidia", (), (), (), (), None, None, "apt-mark", "")
"""A .run file brings none."""


@dataclass(frozen=True)
class Target:
    """The driver a host should have."""

    source: Source
    branch: int
    version: str
    """Exact, or empty: the newest of the branch that the repository has."""
    expected: str
    """The version as far as it is known before the repository was asked."""
    kernel_modules: t.Literal["open", "proprietary"]
    names: tuple[str, ...]
    packages: DriverPackages
    os: OsSupport
    others: tuple[str, ...] = ()
    """Packages of the other kind of kernel modules: not every distribution has them conflict, and both build."""
    signed_modules: bool = False
    """Modules that the distribution built and signed: no DKMS, no key to enrol."""

    def stack(self) -> dict[str, t.Any]:
        """This target as the gate's `stack.driver`."""
        stack = {
            "branch": self.branch,
            "version": self.version or self.expected,
            "kernel_modules": self.kernel_modules,
            "source": self.source,
        }
        return {key: value for key, value in stack.items() if value}


def choose(settings: Settings, host: HostDriver, matrix: Matrix, context: Context) -> tuple[Target | None, list[Finding]]:
    """The target, or None with findings that say why there is none."""
    settings = _with_lock(settings, (context.lock or {}).get("driver") or {})
    os = matrix.os(host.os, host.arch)
    if not os.supported or os.gate_only:
        return None, [os_unsupported(os, host, context)]
    source = _source(settings, host, os, matrix)
    branch, version, findings = _branch_and_version(settings, host, matrix, context, source)
    if branch is None:
        return None, findings
    kind, contradictions = kernel_modules(settings, host, matrix, branch)
    findings.extend(contradictions)
    if kind is None:
        return None, findings
    if source == "runfile":
        target = _runfile(branch, version, kind, os, matrix)
        return (target, findings) if isinstance(target, Target) else (None, [*findings, target])
    packages = matrix.driver_packages(os, branch, kind, _needs(settings, host), source)
    if packages.rule is None or not packages.install:
        return None, [*findings, no_packages(packages, os, branch, kind, source)]
    wanted = _wanted(packages.install, settings)
    if not wanted:
        return None, [*findings, only_with_modules(packages)]
    names = tuple(dict.fromkeys([*wanted, *settings.packages_extra]))
    other = matrix.driver_packages(os, branch, "open" if kind == "proprietary" else "proprietary", _needs(settings, host), source)
    others = tuple(name for name in other.install if name not in names and KERNEL_PACKAGE.search(name))
    signed = bool((matrix.rows.get(packages.rule) or {}).get("signed_modules"))
    return Target(source, branch, version, version or _newest(matrix, branch, host), kind, names, packages, os, others, signed), findings


def _runfile(branch: int, version: str, kind: t.Literal["open", "proprietary"], os: OsSupport, matrix: Matrix) -> Target | Finding:
    """One .run file is one version: a branch alone does not name it."""
    if version:
        return Target("runfile", branch, version, version, kind, (), NO_PACKAGES, os)
    newest = str((matrix.branch(branch) or {}).get("latest") or "")
    return bad_input("version", "", "an exact version: a .run file is one version of the driver", newest or None)


def _with_lock(settings: Settings, lock: t.Mapping[str, t.Any]) -> Settings:
    """The stack lock speaks where the site's own variables name neither branch nor version."""
    if not lock or settings.branch is not None or settings.version:
        return settings
    values: dict[str, t.Any] = {"branch": lock.get("branch"), "version": str(lock.get("version") or "")}
    if settings.kernel_modules == "auto" and lock.get("kernel_modules") in CHOICES["kernel_modules"]:
        values["kernel_modules"] = lock["kernel_modules"]
    if settings.source == "auto" and lock.get("source") in CHOICES["source"]:
        values["source"] = lock["source"]
    return dataclasses.replace(settings, **values)


def _source(settings: Settings, host: HostDriver, os: OsSupport, matrix: Matrix) -> Source:
    if settings.source != "auto":
        return t.cast("Source", settings.source)
    if host.record_source in CHOICES["source"][1:]:
        return t.cast("Source", host.record_source)
    if host.version and not host.repository_url and host.origin == "package":
        return "distribution"
    return "nvidia" if os.repository else "distribution"


def _branch_and_version(
    settings: Settings, host: HostDriver, matrix: Matrix, context: Context, source: str
) -> tuple[int | None, str, list[Finding]]:
    version = settings.version
    branch = settings.branch or (branch_of(version) if version else None)
    # A transaction that was cut off after the driver before it went is finished with the version that it began with.
    known = host.version or driver_version(host.record_pending)
    if branch is None and known:
        branch = branch_of(known)
    if branch is None and source == "distribution":
        branch = _distribution_branch(host, matrix)
    if branch is None:
        choice = matrix.driver_for(host.gpu_rows(matrix), context.today)
        if choice is None:
            return None, "", [no_choice(host)]
        branch = choice.branch
    if not version and known and branch_of(known) == branch:
        version = known
    return int(branch), version, []


def _distribution_branch(host: HostDriver, matrix: Matrix) -> int | None:
    """The one driver of its own that a distribution has (Debian); None where it has several (Ubuntu)."""
    row = matrix.rows.get(matrix.os(host.os, host.arch).rule or "") or {}
    branch = (row.get("distribution_driver") or {}).get("branch")
    return int(branch) if branch else None


def _needs(settings: Settings, host: HostDriver) -> list[str]:
    needs = ["compute_only"] if settings.compute_only or not settings.install_kernel_modules else []
    if wants_imex(settings, host):
        return [*needs, "imex"]
    if not wants_fabric_manager(settings, host):
        return needs
    return [*needs, "fabric_manager", *(["nvlink5"] if host.fabric_kind == "nvlink5" else [])]


def wants_fabric_manager(settings: Settings, host: HostDriver) -> bool:
    """auto: NVSwitch machines whose switches this host manages; compute trays of racks run IMEX instead."""
    if settings.fabric_manager == "auto":
        return host.fabric_kind in ("nvswitch", "nvlink5")
    return settings.fabric_manager == "present"


def wants_imex(settings: Settings, host: HostDriver) -> bool:
    """Compute trays of a rack, as NVML says or, before there is a driver, as the site says by naming the domain's group."""
    if settings.fabric_manager != "auto" or wants_fabric_manager(settings, host):
        return False
    return host.fabric_kind == "imex" or bool(settings.imex.get("group"))


def _wanted(install: t.Sequence[str], settings: Settings) -> list[str]:
    if settings.install_kernel_modules:
        return list(install)
    # The persistence daemon needs the module: without one its unit, enabled by its package, fails at each boot.
    return [name for name in install if not KERNEL_PACKAGE.search(name) and name != "nvidia-persistenced"]


def _newest(matrix: Matrix, branch: int, host: HostDriver) -> str:
    if host.version and branch_of(host.version) == branch:
        return host.version
    row = matrix.branch(branch) or {}
    return str(row.get("latest") or "")
