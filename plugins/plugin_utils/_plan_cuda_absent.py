# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA taken away again: what this role put there, and nothing else.

Private to the collection, pure.
"""

from __future__ import annotations

from ..module_utils._paths import CUDA_COMPAT_LD, CUDA_LD, CUDA_PROFILE
from ._contracts import Plan
from ._plan_cuda_facts import HostCuda, folder
from ._plan_driver_part import Part


def plan_absent(plan: Plan, host: HostCuda) -> None:
    """Fill `plan` with the removal of recorded packages, runfile toolkits, files, link and record."""
    part = Part(component="cuda", source="docs/cuda.md")
    ours = sorted(name for name in {*host.ours, *host.pending} if name in host.packages or name in host.broken)
    if ours:
        part.change("package", ", ".join(ours), "installed", None, f"remove {len(ours)} CUDA packages", "engine_restart")
    for version in sorted(host.our_runfiles):
        part.change("runfile", folder(version), version, None, f"remove CUDA {version}, which its runfile put there", "engine_restart")
    for path in (CUDA_PROFILE, CUDA_LD, CUDA_COMPAT_LD):
        if host.files.get(path):
            part.change("file", path, "ours", None, f"remove {path}")
    # It goes with the last that uses it, whichever role configured it: the driver's packages come from there as well.
    repository = host.recorded and host.repository_owned and not host.driver_recorded
    if repository:
        part.change("repository", str(host.repository_url), host.repository_url, None, f"remove package repository {host.repository_url}")
    if host.recorded and not part.changes:
        part.change("record", "cuda.json", "recorded", None, "forget CUDA, which is gone already")
    others = {path: one for path, one in host.toolkits.items() if one.get("version") not in host.our_runfiles}
    foreign = sorted(path for path in others if not _packaged(path, host))
    if foreign:
        part.find(
            "not_ours",
            "info",
            f"{', '.join(foreign)} was not put there by this role and is left alone.",
            subject=", ".join(foreign),
            found="toolkits without a record in /var/lib/gpufleet/cuda.json",
            needed="nothing",
            fix="Remove it the way it was installed, if it should go.",
        )
    plan.changes.extend(part.changes)
    plan.findings.extend(part.findings)
    plan.decision = "converge" if part.changes else "nothing"
    if part.changes:
        kept = [one for path, one in host.toolkits.items() if path in foreign]
        plan.details.update(
            {
                "absent": True,
                "packages": {"state": "absent", "repository_remove": host.recorded and not host.driver_recorded},
                "runfiles_absent": sorted(host.our_runfiles),
                "environment": {"state": "absent"},
            }
        )
        plan.predicted = {"cuda": {"toolkits": kept, "compat": [], "cudnn": [], "nccl": []}, "state_files": {"cuda": None}}


def _packaged(path: str, host: HostCuda) -> bool:
    return f"cuda-toolkit-{path.rpartition('cuda-')[2].replace('.', '-')}" in host.ours
