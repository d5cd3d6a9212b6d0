# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of cuDNN and NCCL. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from ._contracts import Finding
from ._matrix_case import Case
from ._matrix_findings import finding
from ._versions import major_of, matches, nearest, newest


def rules(case: Case) -> t.Iterator[Finding]:
    for library in ("cudnn", "nccl"):
        yield from _library(case, library)


def _library(case: Case, library: str) -> t.Iterator[Finding]:
    asked = case.stack.get(library)
    version = str(asked.get("version") or "") if isinstance(asked, t.Mapping) else str(asked or "")
    if not version:
        return
    title = {"cudnn": "cuDNN", "nccl": "NCCL"}[library]
    rows = {row["version"]: row for row in case.matrix.section(library)}
    row = rows.get(version)
    majors = {major for toolkit in case.toolkits if (major := major_of(toolkit))}
    if row is None and any(library in deny and matches(version, deny[library]) for deny in case.matrix.section("deny")):
        return  # a deny row says more
    if row is None:
        near = nearest(version, rows) or "none"
        yield finding(
            f"{library}.unknown",
            case.policy.unknown,
            subject=version,
            found=f"{title} {version}",
            needed=f"a row in matrix/cuda.yml ({library})",
            nearest=near,
            message=f"The matrix does not know {title} {version}; the nearest that it knows is {near}.",
            fix=f"Ask for {near}, or add a row with gpu_stack_matrix_overlay. Engines bring their own {title} wheel.",
            source="matrix/cuda.yml",
        )
        return
    for major in sorted(majors - set(row["cuda_majors"])):
        fit = newest(other for other, candidate in rows.items() if major in candidate["cuda_majors"])
        yield finding(
            f"{library}.cuda_mismatch",
            "block",
            row=row,
            subject=version,
            found=f"{title} {version} with CUDA {major}",
            needed=f"a build for CUDA {major}",
            nearest=fit,
            message=f"{title} {version} is built for CUDA {' and '.join(map(str, row['cuda_majors']))}, not for CUDA {major}.",
            fix=f"Use {title} {fit}." if fit else f"No {title} for CUDA {major} is known.",
        )
