# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why there is no driver for a host: findings that stop the plan before it begins. Pure.

Private to the collection.
"""

from __future__ import annotations

from ._contracts import Context, Finding
from ._matrix_types import DriverPackages, OsSupport
from ._plan_driver_facts import HostDriver


def contradiction(asked: str, only_open: list[str], only_proprietary: list[str], nearest: str) -> Finding:
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


def os_unsupported(os: OsSupport, host: HostDriver, context: Context) -> Finding:
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
        message=f"No driver can be installed on {os.name} ({host.arch}): "
        f"{(os.reason or os.gate_only).rstrip('.') or 'the matrix has no row for it'}.",
        fix="Use a supported system"
        + (f" ({os.nearest})" if os.nearest else "")
        + ", or install the driver by other means and leave this role out; gpu_stack_matrix_overlay can add a row.",
        source=os.source or "matrix/os.yml",
    )


def no_packages(packages: DriverPackages, os: OsSupport, branch: int, kind: str, source: str) -> Finding:
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


def only_with_modules(packages: DriverPackages) -> Finding:
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


def no_choice(host: HostDriver) -> Finding:
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
