# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of models: existence, engine release, memory, driver. Pure.

Private to the collection. Whether a model really fits these GPUs is the planner's business; here only what cannot work at all is said.
"""

from __future__ import annotations

import difflib
import typing as t

from . import _matrix_engines as engines
from ._contracts import Finding
from ._matrix_case import Case, Facts
from ._matrix_findings import finding
from ._matrix_types import Row
from ._versions import key

GIB_PER_GB = 1e9 / 2**30


def rules(case: Case) -> t.Iterator[Finding]:
    for spec in case.engines:
        model = spec.get("model")
        ident = str(model.get("id") or model.get("name") or "") if isinstance(model, t.Mapping) else str(model or "")
        row = case.matrix.models.get(ident)
        if row is not None:
            yield from _model(case, spec, ident, row)


def _model(case: Case, spec: Facts, ident: str, row: Row) -> t.Iterator[Finding]:
    name = str(spec.get("name") or spec.get("engine") or ident)
    if row.get("exists") is False:
        real = [hf for hf, other in case.matrix.models.items() if other.get("exists", True)]
        near = difflib.get_close_matches(ident, real, n=1, cutoff=0.3)
        nearest = row.get("instead") or (near[0] if near else None)
        yield finding(
            "model.does_not_exist",
            "block",
            row=row,
            subject=name,
            found=ident,
            needed="a model that was published",
            nearest=nearest,
            message=f"{ident} does not exist. {row['reason']}",
            fix=f"Set model of {name} to {nearest}.",
        )
        return
    yield from _engine(case, spec, name, ident, row)
    yield from _memory(case, spec, name, ident, row)
    least = (row.get("driver_min") or {}).get(spec.get("engine"))
    if least and case.driver and key(case.driver) < key(least):
        yield finding(
            "model.driver_too_old",
            "block",
            row=row,
            subject=name,
            found=f"driver {case.driver}",
            needed=f"driver {least} or newer",
            nearest=case.nearest_driver(),
            message=f"The guide of {ident} asks for driver {least} or newer; {case.driver} is older.",
            fix=case.driver_fix(),
        )


def _engine(case: Case, spec: Facts, name: str, ident: str, row: Row) -> t.Iterator[Finding]:
    engine = str(spec.get("engine") or "")
    title = engines.TITLE.get(engine, engine)
    serves = row.get("engines") or {}
    if serves and engine in engines.TITLE and engine not in serves:
        yield finding(
            "model.engine_unsupported",
            "warn",
            row=row,
            subject=name,
            found=f"{ident} on {title}",
            needed=f"one of {', '.join(engines.TITLE[other] for other in serves)}",
            nearest=engines.TITLE[min(serves, key=list(serves).index)],
            message=f"No release of {title} is known to serve {ident}; known: {', '.join(engines.TITLE[other] for other in serves)}.",
            fix="Try it on one host first, or use an engine that is known to serve it.",
        )
        return
    rule = serves.get(engine) or {}
    image = engines.image(case.matrix, str(spec["image"])) if spec.get("image") else None
    version = spec.get("version") or (image.version if image else None)
    if rule.get("min") and version and key(str(version)) < key(rule["min"]):
        weak = rule.get("confidence") == "unverified"
        yield finding(
            "model.engine_too_old",
            "warn" if weak else "block",
            row=row,
            subject=name,
            found=f"{title} {version}",
            needed=f"{title} {rule['min']} or newer",
            nearest=f"{title} {engines.newest_for(case.matrix, engine, lambda other: True)}",
            message=f"{ident} needs {title} {rule['min']} or newer; {name} asks for {version}."
            + (f" ({rule['note']})" if rule.get("note") else ""),
            fix=f"Set version of {name} to {rule['min']} or newer.",
        )


def _memory(case: Case, spec: Facts, name: str, ident: str, row: Row) -> t.Iterator[Finding]:
    least = row.get("memory_min_gb") or {}
    precision = next((item for item in least if ident.lower().endswith(item)), None)
    nodes = spec.get("nodes")
    if precision is None or not case.gpus or (isinstance(nodes, int) and nodes > 1) or (isinstance(nodes, list) and len(nodes) > 1):
        return
    gib = sum(_memory_gib(case, gpu) for gpu in case.gpus)
    needed = least[precision] * GIB_PER_GB
    if gib and gib < needed:
        yield finding(
            "model.memory",
            "block",
            row=row,
            subject=name,
            found=f"{gib:.0f} GiB on {', '.join(group.label for group in case.groups)}",
            needed=f"{needed:.0f} GiB",
            message=f"{ident} needs about {least[precision]} GB of GPU memory ({needed:.0f} GiB); this host's GPUs have {gib:.0f} GiB.",
            fix="Use more or larger GPUs, several nodes, or a smaller or more strongly quantized model.",
        )


def _memory_gib(case: Case, gpu: Facts) -> float:
    total = (gpu.get("memory_bytes") or {}).get("total")
    if total:
        return float(total) / 2**30
    row = case.matrix.gpu(product=gpu.get("product"), pci_device_id=gpu.get("pci_device_id"))
    return float(max(row["memory_gib"])) if row else 0.0
