# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What later roles would see after a CUDA plan: for check mode on a host that has no toolkit yet.

Private to the collection, pure.
"""

from __future__ import annotations

import typing as t

from ._plan_cuda_compat import compat_folder
from ._plan_cuda_facts import HostCuda, folder
from ._plan_cuda_input import Settings, default_of


def predict(settings: Settings, host: HostCuda, compat: str) -> dict[str, t.Any]:
    """Partial gpu_info document; toolkits of others stay, ours that are not asked for go."""
    wanted = {folder(version): version for version in settings.versions}
    default = folder(default_of(settings)) if settings.versions else str(host.link["target"] or "")
    toolkits = [
        {
            "version": version,
            "path": path,
            "origin": "runfile" if version in settings.runfiles else "package",
            "default": path == default,
            "nvcc": "",
        }
        for path, version in wanted.items()
    ]
    gone = {folder(version) for version in host.our_runfiles} | {path for path in host.toolkits if _package(path) in host.ours}
    toolkits += [{**one, "default": path == default} for path, one in host.toolkits.items() if path not in wanted and path not in gone]
    cuda: dict[str, t.Any] = {
        "toolkits": toolkits,
        "compat": [{"version": "", "path": compat_folder(compat)}] if compat else [],
        "cudnn": [{"version": version, "cuda_major": major} for major, version in settings.cudnn.items()] or host.cudnn,
        "nccl": [{"version": version, "cuda_major": major} for major, version in settings.nccl.items()] or host.nccl,
    }
    if settings.versions:
        cuda["link"] = {"mode": "manual", "target": default, "alternatives": sorted({*host.link["alternatives"], *wanted})}
    return {"cuda": cuda}


def _package(path: str) -> str:
    return f"cuda-toolkit-{path.rpartition('cuda-')[2].replace('.', '-')}"
