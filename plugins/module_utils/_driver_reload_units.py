# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which units and kernel modules a reload of the driver may take away and bring back. Private to the collection."""

from __future__ import annotations

import typing as t

OURS = (
    "dcgm-exporter.service",
    "nvidia-dcgm-exporter.service",
    "nvidia-dcgm.service",
    "dcgm.service",
    "nvidia-powerd.service",
    "gpufleet-power-governor.service",
    "gpufleet-gpu-settings.service",
    "nvidia-persistenced.service",
)
"""In the order to stop: who uses the GPUs goes before what keeps them up. Settings come back with their unit."""

REMOVABLE = (
    "nvidia",
    "nvidia_uvm",
    "nvidia_modeset",
    "nvidia_drm",
    "nvidia_peermem",
    "nvidia_fs",
    "gdrdrv",
)
"""Of the driver or built against it; any other module that holds one of them belongs to somebody else."""


def stop_order(units: t.Iterable[str]) -> list[str]:
    """Units of the site first, then those that are always ours."""
    named = [unit if "." in unit else unit + ".service" for unit in units]
    return list(dict.fromkeys([*(unit for unit in named if unit not in OURS), *OURS]))
