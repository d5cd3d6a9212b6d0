# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What GPUs are, where no driver answered: product, architecture and compute capability from PCI ids. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from ._matrix_model import Matrix


def complete(info: dict[str, t.Any], matrix: Matrix) -> dict[str, t.Any]:
    """A gpu_info document with missing product data filled in from the matrix; the argument is not changed.

    What NVML said is kept. A GPU whose PCI id the matrix does not know stays as it is.
    """
    gpus = info.get("gpus") or []
    filled = [_filled(gpu, matrix) for gpu in gpus]
    return {**info, "gpus": filled} if filled != gpus else info


def _filled(gpu: dict[str, t.Any], matrix: Matrix) -> dict[str, t.Any]:
    if gpu.get("product") and gpu.get("architecture") and gpu.get("compute_capability"):
        return gpu
    pci = str(gpu.get("pci_device_id") or "")
    row = matrix.gpu(product=gpu.get("product"), pci_device_id=pci)
    if row is None:
        return gpu
    known = {"product": matrix.product(pci), "architecture": row["architecture"], "compute_capability": row["compute_capability"]}
    return {**gpu, **{name: gpu.get(name) or value for name, value in known.items()}}
