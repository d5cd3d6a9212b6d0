# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA toolkits of the host against the driver that is to come. Private to the collection, pure.

Role cuda_toolkit judges a toolkit that is asked for; this is about those that are there, whoever installed them.
"""

from __future__ import annotations

from ._matrix_cuda import driver_min, mode
from ._matrix_model import Matrix
from ._plan_driver_facts import HostDriver
from ._plan_driver_part import Part
from ._plan_driver_target import Target


def cuda_part(target: Target, host: HostDriver, matrix: Matrix) -> Part:
    """A driver under which the programs of an installed toolkit stop working is refused; where they do not work now, it is said."""
    part = Part()
    cuda = host.facts.get("cuda") or {}
    coming = target.version or target.expected
    for toolkit in cuda.get("toolkits") or [] if coming else []:
        version = str(toolkit.get("version") or "")
        if mode(matrix, coming, version) != "none":
            continue
        works = bool(host.version) and mode(matrix, str(host.version), version) != "none" and not cuda.get("compat")
        needed = driver_min(matrix, version) or ""
        part.find(
            "breaks_cuda",
            "block" if works else "warn",
            f"CUDA {version} in {toolkit.get('path')} needs driver {needed} or newer; under {coming} its programs do not run"
            + (f", under {host.version} they do." if works else "."),
            found=f"driver {coming}, CUDA {version}",
            needed=f"driver {needed} or newer, or no CUDA {version}",
            fix=f"Take driver {needed} or newer, or remove that toolkit first, or have cuda-compat installed (data-center GPUs).",
            subject=version,
            nearest=needed or None,
        )
    return part
