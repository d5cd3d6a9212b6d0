# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of rows that a person wrote for the whole: named stacks and the deny list. Pure.

Private to the collection.
"""

from __future__ import annotations

import difflib
import re
import typing as t

from ._contracts import Finding
from ._matrix_case import Case, Facts
from ._matrix_findings import finding
from ._matrix_types import Row
from ._versions import matches


def rules(case: Case) -> t.Iterator[Finding]:
    yield from _stack(case)
    for row in case.matrix.section("deny"):
        yield from _deny(case, row)


def _stack(case: Case) -> t.Iterator[Finding]:
    name = case.stack.get("name")
    row = case.stack_row
    if name and row is None:
        names = sorted(stack["name"] for stack in case.matrix.section("stacks"))
        near = difflib.get_close_matches(str(name), names, n=1)
        yield finding(
            "matrix.stack_unknown",
            "block",
            subject=str(name),
            found=str(name),
            needed=f"one of {', '.join(names)}",
            nearest=near[0] if near else None,
            message=f"There is no named stack {name!r}" + (f"; did you mean {near[0]}?" if near else f". Stacks: {', '.join(names)}."),
            fix="Correct gpu_stack_name, or add a row to stacks with gpu_stack_matrix_overlay.",
            source="matrix/stacks.yml",
        )
    elif row is not None and row["status"] == "out_of_support":
        nearest = case.matrix.rows.get(row.get("nearest", "")) or {}
        yield finding(
            "matrix.stack_out_of_support",
            "block",
            row=row,
            subject=row["name"],
            found=f"stack {row['name']}: driver {row['driver']['version']}, CUDA {', '.join((row.get('cuda') or {}).get('toolkits', []))}",
            needed="a stack in support",
            nearest=nearest.get("name"),
            message=f"The stack {row['name']} is out of support. {row['reason']}",
            fix=f"Ask for {nearest.get('name')} (driver {nearest['driver']['version']})." if nearest else "Ask for another stack.",
        )


# What a deny row may look at: key → (values of the case, whether the stack asked for them).
def _versions(case: Case, name: str) -> tuple[list[str], bool]:
    if name == "driver":
        return ([case.driver] if case.driver else []), case.driver_asked
    if name == "cuda_toolkit":
        return case.toolkits, case.toolkits_asked
    if name == "container_toolkit":
        return ([case.container_toolkit] if case.container_toolkit else []), case.container_toolkit_asked
    if name == "kernel":
        release = (case.host.get("kernel") or {}).get("release")
        return ([str(release)] if release else []), False
    asked = case.stack.get(name)
    value = asked.get("version") if isinstance(asked, t.Mapping) else asked
    return ([str(value)] if value else []), bool(value)


_BY_VERSION = ("driver", "cuda_toolkit", "container_toolkit", "kernel", "cudnn", "nccl")


def _deny(case: Case, row: Row) -> t.Iterator[Finding]:
    hits: list[str] = []
    asked = False
    for name in _BY_VERSION:
        if name in row:
            values, wanted = _versions(case, name)
            hit = [value for value in values if matches(value, row[name])]
            if not hit:
                return
            asked = asked or wanted
            hits.append(f"{name.replace('_', ' ')} {', '.join(hit)}")
    if "package" in row:
        version = ((case.facts.get("packages") or {}).get("set") or {}).get(row["package"])
        if version is None:
            return
        hits.append(f"package {row['package']} {version}")
    if "gpus" in row and not {group.row["id"] for group in case.groups if group.row} & set(row["gpus"]):
        return
    if "systems" in row and case.os.rule not in row["systems"]:
        return
    if any(name in row for name in ("engine", "version", "image", "model", "environment")):
        for spec in case.engines:
            text = _engine(spec, row)
            if text:
                yield _denied(case, row, [*hits, text], True, str(spec.get("name") or spec.get("engine")))
        return
    yield _denied(case, row, hits, asked, None)


def _engine(spec: Facts, row: Row) -> str | None:
    """What of an instance the row forbids, or None."""
    texts = []
    if "engine" in row:
        if spec.get("engine") != row["engine"]:
            return None
        texts.append(str(spec["engine"]))
    if "version" in row:
        if not spec.get("version") or not matches(str(spec["version"]), row["version"]):
            return None
        texts.append(str(spec["version"]))
    model = spec.get("model")
    ident = model.get("id") if isinstance(model, t.Mapping) else model
    for name, value in (("image", spec.get("image")), ("model", ident)):
        if name in row:
            if not value or not re.fullmatch(row[name] if name == "model" else row[name] + ".*", str(value)):
                return None
            texts.append(str(value))
    if "environment" in row:
        pairs = [f"{name}={value}" for name, value in (spec.get("env") or {}).items()]
        hit = [pair for pair in pairs if re.fullmatch(row["environment"], pair, re.IGNORECASE)]
        if not hit:
            return None
        texts.extend(hit)
    return " ".join(texts) or None


def _denied(case: Case, row: Row, hits: list[str], asked: bool, subject: str | None) -> Finding:
    instead = (case.nearest_driver() if "driver" in row else None) or row.get("instead")
    return finding(
        "matrix.denied",
        "block" if row["gate"] == "block" and asked else "warn",
        row=row,
        subject=subject or row["id"],
        found="; ".join(hits) or row["id"],
        needed=f"not this ({row['id']})",
        nearest=instead,
        message=row["reason"],
        fix=f"Use {instead}." if instead else "Remove it from the target, or take the row out with an overlay (remove).",
    )
