# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which driver a host should have: source, branch, version, kind of kernel modules, package names.

Private to the collection, pure. Versions never move by themselves: where neither version nor branch is asked for, what is
installed stays; the matrix is asked for a driver only where there is none yet.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ._contracts import Context, Finding
from ._matrix_model import Matrix
from ._matrix_types import DriverPackages, OsSupport
from ._plan_driver_facts import HostDriver
from ._plan_driver_input import Settings, branch_of

KERNEL_PACKAGE = re.compile(r"dkms$|-dkms-|kmod-|linux-(modules|objects)-nvidia|^(nvidia-open|cuda-drivers)|^nvidia-driver(-\d+.*)?$")
"""Packages that are or bring kernel modules; nvidia-driver-cuda is none of them."""
OPEN_BY_DEFAULT = 560
"""First branch whose installer takes the open modules unless told otherwise (matrix/drivers.yml, branch 560)."""


@dataclass(frozen=True)
class Target:
    """The driver a host should have."""

    source: t.Literal["nvidia", "distribution"]
    branch: int
    version: str
    """Exact, or empty: the newest of the branch that the repository has."""
    expected: str
    """The version as far as it is known before the repository was asked."""
    kernel_modules: t.Literal["open", "proprietary"]
    names: tuple[str, ...]
    packages: DriverPackages
    os: OsSupport
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
    os = matrix.os(host.os, host.arch)
    if not os.supported:
        return None, [_os_unsupported(os, host, context)]
    source = _source(settings, host, os, matrix)
    branch, version, findings = _branch_and_version(settings, host, matrix, context, source)
    if branch is None:
        return None, findings
    kind, contradictions = _kernel_modules(settings, host, matrix, branch)
    findings.extend(contradictions)
    if kind is None:
        return None, findings
    packages = matrix.driver_packages(os, branch, kind, _needs(settings, host), source)
    if packages.rule is None or not packages.install:
        return None, [*findings, _no_packages(packages, os, branch, kind, source)]
    wanted = _wanted(packages.install, settings)
    if not wanted:
        return None, [*findings, _only_with_modules(packages)]
    names = tuple(dict.fromkeys([*wanted, *settings.packages_extra]))
    signed = bool((matrix.rows.get(packages.rule) or {}).get("signed_modules"))
    return Target(source, branch, version, version or _newest(matrix, branch, host), kind, names, packages, os, signed), findings


def _source(settings: Settings, host: HostDriver, os: OsSupport, matrix: Matrix) -> t.Literal["nvidia", "distribution"]:
    if settings.source != "auto":
        return t.cast("t.Literal['nvidia', 'distribution']", settings.source)
    if host.record_source in ("nvidia", "distribution"):
        return t.cast("t.Literal['nvidia', 'distribution']", host.record_source)
    if host.version and not host.repository_url and host.origin == "package":
        return "distribution"
    return "nvidia" if os.repository else "distribution"


def _branch_and_version(
    settings: Settings, host: HostDriver, matrix: Matrix, context: Context, source: str
) -> tuple[int | None, str, list[Finding]]:
    lock = (context.lock or {}).get("driver") or {}
    version = settings.version or (str(lock.get("version") or "") if settings.branch is None else "")
    branch = settings.branch or (branch_of(version) if version else None) or lock.get("branch")
    if branch is None and host.version:
        branch = branch_of(host.version)
    if branch is None and source == "distribution":
        branch = _distribution_branch(host, matrix)
    if branch is None:
        choice = matrix.driver_for(host.gpu_rows(matrix), context.today)
        if choice is None:
            return None, "", [_no_choice(host)]
        branch = choice.branch
    if not version and host.version and branch_of(host.version) == branch:
        version = host.version
    return int(branch), version, []


def _distribution_branch(host: HostDriver, matrix: Matrix) -> int | None:
    """The one driver of its own that a distribution has (Debian); None where it has several (Ubuntu)."""
    row = matrix.rows.get(matrix.os(host.os, host.arch).rule or "") or {}
    branch = (row.get("distribution_driver") or {}).get("branch")
    return int(branch) if branch else None


def _kernel_modules(
    settings: Settings, host: HostDriver, matrix: Matrix, branch: int
) -> tuple[t.Literal["open", "proprietary"] | None, list[Finding]]:
    """auto: from what the GPUs demand, then what is installed, then the branch. A contradiction is no choice at all."""
    demands = host.module_demands(matrix)
    only_open = sorted({name for name, demand in demands if demand == "required"})
    only_proprietary = sorted({name for name, demand in demands if demand == "unsupported"})
    if only_open and only_proprietary:
        return None, [_contradiction("auto", only_open, only_proprietary, "a host whose GPUs accept the same kind of kernel modules")]
    demanded = "open" if only_open else "proprietary" if only_proprietary else None
    if settings.kernel_modules != "auto":
        asked = t.cast("t.Literal['open', 'proprietary']", settings.kernel_modules)
        if demanded and asked != demanded:
            return None, [_contradiction(asked, only_open, only_proprietary, demanded)]
        return asked, []
    if demanded:
        return t.cast("t.Literal['open', 'proprietary']", demanded), []
    if host.kernel_modules in ("open", "proprietary") and host.version and branch_of(host.version) == branch:
        return t.cast("t.Literal['open', 'proprietary']", host.kernel_modules), []
    return ("open" if branch >= OPEN_BY_DEFAULT else "proprietary"), []


def _contradiction(asked: str, only_open: list[str], only_proprietary: list[str], nearest: str) -> Finding:
    rules = [f"{', '.join(only_open)} run only with the open modules"] if only_open else []
    rules += [f"{', '.join(only_proprietary)} only with the proprietary modules"] if only_proprietary else []
    return Finding(
        id="driver.kernel_modules_contradiction",
        severity="block",
        component="driver",
        subject="nvidia_driver_kernel_modules",
        found=asked,
        needed="; ".join(rules),
        nearest=nearest,
        message=f"nvidia_driver_kernel_modules is {asked}, but {' and '.join(rules)}.",
        fix=f"Set nvidia_driver_kernel_modules to auto or {nearest}." if nearest in ("open", "proprietary") else f"Use {nearest}.",
        source="matrix/gpus.yml",
    )


def _needs(settings: Settings, host: HostDriver) -> list[str]:
    needs = ["compute_only"] if settings.compute_only or not settings.install_kernel_modules else []
    if not wants_fabric_manager(settings, host):
        return [*needs, "imex"] if host.fabric_kind == "imex" and settings.fabric_manager == "auto" else needs
    return [*needs, "fabric_manager", *(["nvlink5"] if host.fabric_kind == "nvlink5" else [])]


def wants_fabric_manager(settings: Settings, host: HostDriver) -> bool:
    """auto: NVSwitch machines whose switches this host manages; compute trays of racks run IMEX instead."""
    if settings.fabric_manager == "auto":
        return host.fabric_kind in ("nvswitch", "nvlink5")
    return settings.fabric_manager == "present"


def _wanted(install: t.Sequence[str], settings: Settings) -> list[str]:
    return [name for name in install if settings.install_kernel_modules or not KERNEL_PACKAGE.search(name)]


def _newest(matrix: Matrix, branch: int, host: HostDriver) -> str:
    if host.version and branch_of(host.version) == branch:
        return host.version
    row = matrix.branch(branch) or {}
    return str(row.get("latest") or "")


def _os_unsupported(os: OsSupport, host: HostDriver, context: Context) -> Finding:
    return Finding(
        id="driver.os_unsupported",
        # Without package names there is nothing that `unknown: warn` could let through.
        severity="block",
        component="driver",
        subject=os.name,
        rule=os.rule,
        found=f"{os.name} on {host.arch}",
        needed="a system with driver packages that the matrix knows",
        nearest=os.nearest,
        message=f"No driver can be installed on {os.name} ({host.arch}): {os.reason.rstrip('.') or 'the matrix has no row for it'}.",
        fix="Use a supported system"
        + (f" ({os.nearest})" if os.nearest else "")
        + ", or install the driver by other means and leave this role out; gpu_stack_matrix_overlay can add a row.",
        source=os.source or "matrix/os.yml",
    )


def _no_packages(packages: DriverPackages, os: OsSupport, branch: int, kind: str, source: str) -> Finding:
    return Finding(
        id="driver.no_packages",
        severity="block",
        component="driver",
        found=f"branch {branch}, {kind} modules, source {source} on {os.name}",
        needed="a row that names the packages",
        message=f"The matrix names no packages of branch {branch} ({kind} kernel modules) for {os.name} from {source}: "
        f"{packages.reason.rstrip('.')}.",
        fix="Choose another nvidia_driver_source, _branch or _kernel_modules, or add a row by gpu_stack_matrix_overlay.",
        source="matrix/os.yml",
    )


def _only_with_modules(packages: DriverPackages) -> Finding:
    return Finding(
        id="driver.no_user_space_set",
        severity="block",
        component="driver",
        subject="nvidia_driver_install_kernel_modules",
        rule=packages.rule,
        found=", ".join(packages.install),
        needed="packages without kernel modules",
        message="nvidia_driver_install_kernel_modules is false, but for this branch and system the matrix names only packages "
        "that bring kernel modules.",
        fix="Name the user-space packages in a row of gpu_stack_matrix_overlay (compute_only_open), or choose another branch.",
        source="matrix/os.yml",
    )


def _no_choice(host: HostDriver) -> Finding:
    return Finding(
        id="driver.no_choice",
        severity="block",
        component="driver",
        found=", ".join(host.gpu_names()) or "no GPU",
        needed="one supported driver branch that drives all GPUs of this host",
        message="No supported driver branch in the matrix drives all GPUs of this host.",
        fix="Set nvidia_driver_branch to the branch to use.",
        source="matrix/gpus.yml, matrix/drivers.yml",
    )
