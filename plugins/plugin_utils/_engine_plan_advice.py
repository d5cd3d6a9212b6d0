# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which engine for which work: rows of the matrix with their reasons. Pure.

Private to the collection. A site changes the advice by an overlay row of the same id.
"""

from __future__ import annotations

import typing as t

from ._versions import key

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

WORKLOADS = ("proof_of_concept", "long_context", "multimodal", "throughput", "workflow")


def advise(matrix: Matrix, workload: str, product: str, compute_capability: str | None, model: str = "") -> dict[str, t.Any]:
    """Engines in the order of preference, why, and why others were left out. Keys: workload, engines, reason, left_out, source."""
    row = next(row for row in matrix.section("rules") if row["id"] == f"advice.engine.{workload}")
    values, gpu = row["values"], matrix.gpu(product)
    order, left_out = list(values["order"]), {}
    lowest = values.get("compute_capability_min")
    if lowest and order and (not compute_capability or key(compute_capability) < key(lowest)):
        left_out[order[0]] = (
            f"the advice is for compute capability {lowest} and newer, this GPU has {compute_capability or 'an unknown one'}"
        )
    classes = values.get("classes")
    if classes and order and gpu is not None and gpu["class"] not in classes:
        left_out[order[0]] = f"the advice is for {' and '.join(classes)} GPUs, this one is of class {gpu['class']}"
    known = matrix.models.get(model)
    for engine in order:
        if known is not None and known.get("engines") and engine not in known["engines"]:
            left_out[engine] = f"the matrix knows no release of it that serves {model}"
    return {
        "workload": workload,
        "engines": [engine for engine in order if engine not in left_out],
        "reason": row["says"],
        "left_out": left_out,
        "source": row["source"],
        "confidence": row["confidence"],
    }
