# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner's constants: rows of the matrix, chosen by engine and version. Pure. Private to the collection."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ._contracts import Finding, named_finding
from ._memory_model import ModelShape
from ._versions import key

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

Values = t.Mapping[str, t.Any]


@dataclass(frozen=True)
class Constants:
    """version: what a release decides. parts: sizes in MiB and factors. gpu: what no engine decides. measured: a host's own parts."""

    engine: str
    version: Values
    parts: Values
    tiers: tuple[Values, ...]
    block: int
    mla_block: Values
    gpu: Values
    source: str

    def runner(self, shape: ModelShape) -> str:
        """Which of vLLM's model runners serves the model: they measure memory differently."""
        rule = self.version.get("runner", "v1")
        if rule != "v2_dense":
            return str(rule)
        listed = shape.architecture in self.version.get("v2_architectures", ())
        return "v2" if listed or not (shape.is_moe or shape.is_hybrid) else "v1"

    def tier(self, memory_gib: float, name: str) -> Values:
        """Defaults by the GPU's memory."""
        fitting = [row for row in self.tiers if memory_gib >= row["from_gib"] and str(row.get("not", "-")) not in name.lower()]
        return max(fitting, key=lambda row: float(row["from_gib"]))


def constants_for(matrix: Matrix, engine: str, version: str, measured: Values | None = None) -> Constants:
    """measured: parts that a host measured itself, over those of the rows."""
    rows = {row["id"]: row for row in matrix.section("rules") if row["id"].startswith("memory.")}
    own = [row for name, row in rows.items() if name.startswith(f"memory.{engine}.") and "since" in row["values"]]
    if not own:
        raise KeyError(f"the matrix has no memory rows of {engine}")
    own.sort(key=lambda row: key(row["values"]["since"]))
    row = [row for row in own if key(row["values"]["since"]) <= key(version)][-1:] or own[:1]
    values = row[0]["values"]
    parts = rows.get(f"memory.{engine}.parts", row[0])["values"]
    batch: Values = (rows.get(f"memory.{engine}.batch") or {"values": parts})["values"]
    block: Values = (rows.get(f"memory.{engine}.block") or {"values": {}})["values"]
    tiers = batch.get("tiers") or [{"from_gib": 0, "tokens": parts["tokens"], "sequences": parts["sequences"]}]
    return Constants(
        engine=engine,
        version=values,
        parts={**parts, **(measured or {})},
        tiers=tuple(tiers),
        block=block.get("default", parts.get("block", parts.get("page", 16))),
        mla_block=block.get("mla", {}),
        gpu=rows["memory.gpu"]["values"],
        source=row[0]["source"],
    )


def too_old(matrix: Matrix, engine: str, version: str) -> Finding | None:
    """A release before the first that the rows describe."""
    rows = [
        row["values"]["since"] for row in matrix.section("rules") if row["id"].startswith(f"memory.{engine}.") and "since" in row["values"]
    ]
    oldest = min(rows, key=key)
    if key(version) >= key(oldest):
        return None
    return named_finding(
        "engine",
        "plan_version",
        "warn",
        f"{engine} {version} is older than {oldest}, the first release whose memory the planner knows; it plans as for {oldest}.",
        f"matrix rows memory.{engine}",
        found=version,
        needed=f">= {oldest}",
        fix=f"Take {engine} {oldest} or newer, or compare the plan with what the engine prints.",
    )
