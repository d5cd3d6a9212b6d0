# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stack lock: newest supported combination for each hardware group, and drift from it. Pure.

Private to the collection. Document: schemas/stack_lock.schema.json. Hosts with the same GPU products, system and architecture are
one group.
"""

from __future__ import annotations

import typing as t

from ._contracts import Context
from ._lock_group import Unresolved, resolve_group
from ._matrix_case import Case
from ._matrix_model import Matrix

SCHEMA = 1
SOURCE = "stack.lock.yml"
CHECKED = ("driver", "cuda", "container_toolkit", "engine", "matrix")


def resolve(
    matrix: Matrix, facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]], wanted: t.Mapping[str, t.Any], policy: Context
) -> tuple[dict[str, t.Any], dict[str, str]]:
    """The lock for these hosts, and why each host that is in no group could not be resolved.

    `wanted`: channel (lts | production | newest), stack (name of a named stack), driver {branch, version}, cuda {toolkits}, engines
    (names or {engine: version}); whatever is missing is resolved to the newest that is supported.
    """
    groups: dict[str, dict[str, t.Any]] = {}
    problems: dict[str, str] = {}
    for host in sorted(facts_by_host):
        case = Case(matrix, facts_by_host[host], _stack(wanted), policy)
        name, reason = group_name(case)
        if reason:
            problems[host] = reason
        elif name in groups:
            groups[name]["hosts"].append(host)
        else:
            try:
                groups[name] = {"hosts": [host], **resolve_group(case, wanted)}
            except Unresolved as error:
                problems[host] = str(error)
    document = {
        "schema": SCHEMA,
        "resolved_at": policy.today.isoformat(),
        "matrix": {"version": matrix.version, "sha256": matrix.sha256, "overlays": list(matrix.overlays)},
        "groups": groups,
    }
    return document, problems


def group_name(case: Case) -> tuple[str, str]:
    """h100_sxm@debian12-x86_64, or why the host belongs to no group."""
    if not case.facts:
        return "", "no facts were read from this host in this run"
    if not case.groups:
        return "", "it has no GPU"
    unknown = sorted({group.product for group in case.groups if group.row is None})
    if unknown:
        return "", f"the matrix does not know {', '.join(unknown)} (add a row with gpu_stack_matrix_overlay)"
    if not case.os.supported or not case.os.repository_path:
        return "", case.os.reason
    ids = sorted({group.row["id"] for group in case.groups if group.row})
    return f"{'+'.join(ids)}@{case.os.repository}-{case.os.repository_arch}", ""


def group_of(document: t.Any, host: str) -> dict[str, t.Any] | None:
    """The group of a host in a lock; None where it is in none. ValueError where the document is no lock of this version."""
    if not isinstance(document, dict) or not isinstance(document.get("groups"), dict):
        raise ValueError("it is not a stack lock (no groups)")
    if document.get("schema") != SCHEMA:
        raise ValueError(f"its schema is {document.get('schema')!r}, this version of the collection understands {SCHEMA}")
    return next((group for group in document["groups"].values() if host in group.get("hosts", ())), None)


def _stack(wanted: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    stack: dict[str, t.Any] = {"component": "driver"}
    if wanted.get("stack"):
        stack["name"] = wanted["stack"]
    for name in ("driver", "cuda", "container_toolkit"):
        if wanted.get(name):
            stack[name] = wanted[name]
    return stack
