# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of single GPUs: health and pending modes. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from ._contracts import Finding, Severity
from ._matrix_case import Case, Facts
from ._matrix_findings import finding

SOURCE = "NVML of the host"


def rules(case: Case) -> t.Iterator[Finding]:
    for gpu in case.gpus:
        yield from _one(case, gpu)


def _one(case: Case, gpu: Facts) -> t.Iterator[Finding]:
    name = str(gpu.get("uuid") or gpu.get("pci_address") or "?")

    def about(id: str, severity: Severity, found: str, needed: str, message: str, fix: str) -> Finding:
        return finding(id, severity, subject=name, found=found, needed=needed, message=message, fix=fix, source=SOURCE)

    state = gpu.get("state")
    if state == "lost":
        yield about(
            "gpu.lost",
            "block",
            f"{gpu.get('product') or 'GPU'} at {gpu.get('pci_address')} is lost",
            "a GPU that answers",
            f"GPU {name} at {gpu.get('pci_address')} has fallen off the bus.",
            "Look for Xid 79 in the kernel log; drain the host, reboot, reseat or replace the GPU.",
        )
    elif state == "reset_required":
        yield about(
            "gpu.reset_required",
            "block",
            "reset required",
            "a GPU in working state",
            f"GPU {name} needs a reset before it can work.",
            "Drain the host; nvidia-smi --gpu-reset, or reboot on NVSwitch machines.",
        )
    yield from _bound(case, gpu, about)
    yield from _memory(gpu, name, about)
    for mode, reload in (("ecc", "a reboot"), ("mig", "a GPU reset or reboot")):
        have = gpu.get(mode) or {}
        if have.get("pending") is not None and have.get("current") is not None and have["pending"] != have["current"]:
            yield about(
                f"gpu.{mode}_pending",
                "warn",
                f"current {_on(have['current'])}, pending {_on(have['pending'])}",
                reload,
                f"{mode.upper()} mode of GPU {name} is {_on(have['current'])} and set to become {_on(have['pending'])}; it takes {reload}.",
                "Drain and reboot the host, or set the mode back.",
            )
    action = gpu.get("recovery_action")
    if action and action != "none":
        yield about(
            "gpu.recovery_action",
            "warn" if action.startswith("drain") else "block",
            action,
            "none",
            f"The driver recommends for GPU {name}: {action.replace('_', ' ')}.",
            "Drain the host and do what the driver recommends.",
        )


def _bound(case: Case, gpu: Facts, about: t.Callable[..., Finding]) -> t.Iterator[Finding]:
    bound = gpu.get("driver_bound")
    if bound == "nouveau":
        yield about(
            "gpu.bound_to_nouveau",
            "warn" if case.cures_driver else "block",
            f"{gpu.get('pci_address')} is bound to nouveau",
            "the nvidia driver",
            f"nouveau owns the GPU at {gpu.get('pci_address')}; the nvidia module cannot take it before a reboot with nouveau blacklisted.",
            "Run the role nvidia_driver: it blacklists nouveau and asks for the reboot.",
        )
    elif bound == "vfio-pci":
        yield about(
            "gpu.passed_through",
            "info",
            f"{gpu.get('pci_address')} is bound to vfio-pci",
            "nothing",
            f"The GPU at {gpu.get('pci_address')} is given to a virtual machine; this host does not use it.",
            "Nothing.",
        )


def _memory(gpu: Facts, name: str, about: t.Callable[..., Finding]) -> t.Iterator[Finding]:
    remap = gpu.get("row_remap") or {}
    if remap.get("failure"):
        yield about(
            "gpu.row_remap_failure",
            "block",
            f"remapped rows: {remap.get('uncorrectable')} uncorrectable, failure",
            "no failed remapping",
            f"Row remapping failed on GPU {name}: its memory has no spare rows left.",
            "Take the GPU out of service and have it replaced.",
        )
    elif remap.get("pending"):
        yield about(
            "gpu.row_remap_pending",
            "warn",
            "row remapping pending",
            "a GPU reset",
            f"GPU {name} has a memory row that waits to be remapped; until a reset it may fail again.",
            "Drain the host and reset the GPU (nvidia-smi --gpu-reset, or reboot).",
        )
    if (gpu.get("retired_pages") or {}).get("pending"):
        yield about(
            "gpu.retired_pages_pending",
            "warn",
            "page retirement pending",
            "a reboot",
            f"GPU {name} has memory pages that wait to be retired.",
            "Drain and reboot the host.",
        )


def _on(value: t.Any) -> str:
    return "on" if value else "off"
