# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fact `gpufleet` of a host: gpu_info of this run, its freshness, and predictions of check mode.

Private to the collection. One gpu_info document is shared by all checks of a run. It is stale when
it comes from another process (a persistent fact cache) or when the caller asks for new facts, as every converge does
at its end: it verifies itself.
"""

from __future__ import annotations

import os
import typing as t

FACT = "gpufleet"


def run_id() -> str:
    """Identity of this ansible-playbook process: actions run in workers forked from it."""
    parent = os.getppid()
    try:
        with open(f"/proc/{parent}/stat", "rb") as stat:
            start = stat.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):  # not Linux: the pid alone must do
        start = "0"
    return f"{os.uname().nodename}-{parent}-{start}"


def read(task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The host's fact as stored, or an empty dict."""
    fact = (task_vars.get("ansible_facts") or {}).get(FACT)
    return dict(fact) if isinstance(fact, t.Mapping) else {}


def fresh(fact: t.Mapping[str, t.Any], run: str) -> bool:
    """Whether the stored document may be used by this run."""
    return bool(fact.get("info")) and fact.get("run") == run and not fact.get("stale")


def outdated(fact: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The fact once a change of the host began: one that fails reads nothing again, and what rescues it would plan by the host before."""
    return {**fact, "stale": True}


def collected(fact: t.Mapping[str, t.Any], run: str, info: dict[str, t.Any]) -> dict[str, t.Any]:
    """The fact after a new collection: one generation on, predictions of this run kept (check mode only has them)."""
    predicted = fact.get("predicted") if fact.get("run") == run else None
    return {"schema": 1, "run": run, "generation": int(fact.get("generation") or 0) + 1, "info": info, "predicted": predicted or {}}


def merge(base: t.Any, over: t.Any) -> t.Any:
    """`over` on `base`, mappings key by key, everything else replaced; neither argument is changed."""
    if isinstance(base, t.Mapping) and isinstance(over, t.Mapping):
        out = dict(base)
        for key, value in over.items():
            out[key] = merge(base[key], value) if key in base else value
        return out
    return over


def effective(fact: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The document that planners see: facts with this run's predictions merged in."""
    return t.cast("dict[str, t.Any]", merge(fact.get("info") or {}, fact.get("predicted") or {}))
