# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host needs cuda-compat, and may have it: data-center GPUs, and a driver older than a wanted toolkit.

Private to the collection, pure. One compat package serves all toolkits: it is a newer driver's user-mode half, so the newest one that
is needed wins. When the driver has outgrown it, it is worse than nothing: its libcuda would be older than the kernel module.
"""

from __future__ import annotations

from ._matrix_model import Matrix
from ._plan_cuda_facts import HostCuda, folder
from ._plan_cuda_input import Settings
from ._plan_cuda_packages import Package
from ._plan_driver_part import Part
from ._versions import branch_of, key, minor_of


def choose_compat(settings: Settings, host: HostCuda, matrix: Matrix) -> tuple[str, Package | None, Part]:
    """(toolkit whose compat is wanted or '', its package, findings)."""
    part = Part(component="cuda", source="matrix/cuda.yml, rule.cuda.forward")
    _foreign(part, settings, host)
    if settings.compat == "absent":
        return "", None, part
    required = settings.compat == "required"
    if host.driver is None:
        if required:
            _refuse(part, "no driver is installed, so there is nothing to raise", "an installed driver", "Run role nvidia_driver first.")
        return "", None, part
    levels = {version: str(level) for version in settings.versions if (level := (matrix.toolkits.get(version) or {}).get("driver_level"))}
    behind = [version for version, level in levels.items() if key(host.driver) < key(level)]
    if not behind:
        if required:
            part.find(
                "compat_outgrown",
                "info",
                f"Driver {host.driver} is not older than any wanted toolkit, so no cuda-compat is installed.",
                found=f"driver {host.driver}",
                needed="nothing: the driver runs these toolkits fully",
                fix="Nothing; cuda_toolkit_compat: auto says the same.",
            )
        return "", None, part
    version = max(behind, key=key)
    classes = matrix.value("rule.cuda.forward", "classes", ["datacenter"])
    gpus = host.gpu_rows(matrix)
    wrong = sorted({name for name, row in gpus if row is None or row.get("class") not in classes})
    if wrong or not gpus:
        if required:
            _refuse(
                part,
                f"forward compatibility does not work on {', '.join(wrong) or 'a host without NVIDIA GPU'}",
                "data-center GPUs only",
                f"Set cuda_toolkit_compat: absent, and use driver {levels[version]} or newer, or an older toolkit.",
                f"driver {levels[version]}",
            )
        return "", None, part
    base = matrix.value("rule.cuda.forward_base", "branch_min", 0)
    if (branch_of(host.driver) or 0) < base:
        part.find(
            "compat_base",
            "warn",
            f"Driver {host.driver} is of a branch that cuda-compat is no longer tested with; CUDA may answer 803 or 804.",
            found=f"driver {host.driver}",
            needed=f"branch {base} or newer",
            fix="Use a supported driver branch.",
        )
    name = str((matrix.toolkits.get(version) or {}).get("compat_package") or f"cuda-compat-{(minor_of(version) or '').replace('.', '-')}")
    return version, Package(name, "", f"CUDA {version} on driver {host.driver}"), part


def compat_folder(version: str) -> str:
    return f"{folder(version)}/compat"


def _refuse(part: Part, why: str, needed: str, fix: str, nearest: str | None = None) -> None:
    part.find(
        "compat_unsupported",
        "block",
        f"cuda_toolkit_compat is required, but {why}.",
        subject="cuda_toolkit_compat",
        found=why,
        needed=needed,
        nearest=nearest,
        fix=fix,
    )


def _foreign(part: Part, settings: Settings, host: HostCuda) -> None:
    """A compat library that somebody else put there and that the driver has outgrown."""
    for path, version in host.compat.items():
        package = f"cuda-compat-{path.split('cuda-')[-1].split('/')[0].replace('.', '-')}"
        if package not in host.ours and host.driver and key(version) <= key(host.driver):
            part.find(
                "compat_outgrown",
                "warn",
                f"{path} holds libcuda {version}, not newer than driver {host.driver}: a program that uses it fails or gains nothing.",
                subject=path,
                found=f"libcuda {version}",
                needed=f"newer than driver {host.driver}, or none",
                fix=f"Remove it the way it was installed ({'dnf remove' if host.manager == 'dnf' else 'apt purge'} {package}).",
            )
