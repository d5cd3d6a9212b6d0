# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How an engine's release lives: command, defaults, readiness, drain, what it needs from its unit. Data of the matrix, merged. Pure.

Private to the collection. Interface: lifecycle(matrix, engine, version) -> Lifecycle, owned(instance, life) -> flags that the role decides.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ._engine_flag_rows import within

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

_NOT_MERGED = ("id", "engine", "in", "source", "confidence", "notes")


@dataclass(frozen=True)
class Lifecycle:
    """The merged rows of one release. Field by field: schemas/matrix.schema.json, engine_lifecycle."""

    engine: str
    version: str
    data: t.Mapping[str, t.Any]
    rows: tuple[str, ...]
    """Ids of the rows that speak of this release."""

    def part(self, name: str) -> t.Mapping[str, t.Any]:
        return t.cast("t.Mapping[str, t.Any]", self.data.get(name) or {})

    @property
    def port(self) -> int:
        return int(self.part("defaults").get("port", 8000))

    @property
    def arguments(self) -> t.Mapping[str, str]:
        """Engine-neutral name → flag."""
        return self.part("arguments")

    @property
    def drain_flag(self) -> str | None:
        """Flag that bounds the engine's own drain; without it the unit's TimeoutStopSec is the only bound."""
        return self.part("drain").get("flag")

    @property
    def watchdog(self) -> bool:
        """Whether it can stay up without serving."""
        return bool(self.data.get("watchdog"))

    @property
    def gpus_by_uuid(self) -> bool:
        """Whether CUDA_VISIBLE_DEVICES may hold UUIDs (outside containers)."""
        return self.part("gpus").get("by") == "uuid"

    @property
    def key_file(self) -> bool:
        """Whether an API key can reach it by a file; otherwise it has none or would show it in the process list."""
        return self.part("secrets").get("api_key") == "config_file"

    @property
    def launchers(self) -> tuple[str, ...]:
        return tuple(self.part("nodes").get("launchers") or ())

    @property
    def ready_seconds(self) -> int:
        return int(self.part("ready").get("seconds", 900))

    def paths(self) -> dict[str, str]:
        """What to ask: health, ready (a cheap one where there is one), metrics."""
        ready, metrics = self.part("ready"), self.part("metrics")
        found = {"health": ready.get("health"), "ready": ready.get("ready") or ready.get("health"), "metrics": metrics.get("path")}
        return {name: str(path) for name, path in found.items() if path}


def lifecycle(matrix: Matrix, engine: str, version: str) -> Lifecycle:
    """The rows of an engine that speak of a release, later ones over earlier ones. An engine without rows has an empty one."""
    question = ("lifecycle", engine, version)
    if question not in matrix.memo:
        data: dict[str, t.Any] = {}
        rows = [row for row in matrix.section("engine_lifecycle") if row["engine"] == engine and within(version, row.get("in"))]
        for row in rows:
            data.update({name: value for name, value in row.items() if name not in _NOT_MERGED})
        matrix.memo[question] = Lifecycle(engine, version, data, tuple(row["id"] for row in rows))
    return t.cast("Lifecycle", matrix.memo[question])


def owned(instance: t.Mapping[str, t.Any], life: Lifecycle) -> dict[str, t.Any]:
    """Flags whose value the instance's own keys decide, so that args may only repeat them."""
    flags = life.arguments
    out = {flags[name]: instance[name] for name in ("host", "port", "served_name", "revision") if name in flags and instance.get(name)}
    out.update({flags[name]: value for name, value in (instance.get("parallel") or {}).items() if name in flags})
    if life.drain_flag and instance.get("drain_seconds"):
        out[life.drain_flag] = instance["drain_seconds"]
    return out
