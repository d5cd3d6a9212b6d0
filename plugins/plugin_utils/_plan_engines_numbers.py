# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner's numbers for an instance: what its args already say is the wish, the rest is computed. Pure.

Private to the collection. GPUs count as empty: who else is on them is a finding of its own, and numbers that move with the load
would restart the engine at each run.
"""

from __future__ import annotations

import dataclasses
import math
import typing as t

from . import _engine_args
from ._contracts import Context, Finding, named_finding
from ._engine_flag_rows import table
from ._engine_gpus import Device
from ._engine_instance import Instance
from ._engine_lifecycle import lifecycle
from ._engine_plan import plan
from ._engine_plan_input import choose_gpus, model_of
from ._engine_plan_rows import constants_for, too_old
from ._engine_plan_types import Wish

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

Facts = t.Mapping[str, t.Any]
SOURCE = "engine planner (docs/planner.md)"
_WHOLE = ("max_model_len", "max_num_seqs", "max_num_batched_tokens")
_UNITS = {"k": 1000, "m": 1000**2, "g": 1000**3, "K": 1024, "M": 1024**2, "G": 1024**3}


def numbers(
    instance: Instance, devices: t.Sequence[Device], facts: Facts, models: Facts, matrix: Matrix, context: Context
) -> tuple[dict[str, t.Any], list[Finding]]:
    """Arguments by engine-neutral name, and what speaks against them. `models`: folder → answer of model_info, or {error: text}."""
    name, folder = instance["name"], instance["model"]
    unread = _unread(instance, devices, models, context)
    if unread:
        return {}, [unread]
    shape, findings = model_of(models[folder], context.unknown)
    gpus, wrong = choose_gpus(facts, [device.uuid for device in devices], count_used=False)
    old = too_old(matrix, instance["engine"], instance["version"])
    findings += [*wrong, *([old] if old else [])]
    if shape is None or wrong:
        return {}, _named(findings, name)
    constants = constants_for(matrix, instance["engine"], instance["version"])
    answer = plan(shape, gpus, wish(instance, matrix), constants)
    return (answer.args if answer.fits else {}), _named([*findings, *answer.findings], name)


def wish(instance: Instance, matrix: Matrix) -> Wish:
    """What args and parallel already decide."""
    life = lifecycle(matrix, instance["engine"], instance["version"])
    given = {one.name: one.value for one in _engine_args.read(instance["args"], table(matrix, life.engine), life.version)}
    neutral = {name: given[flag] for name, flag in life.arguments.items() if flag in given}
    whole: dict[str, t.Any] = {name: size(neutral[name]) for name in _WHOLE if name in neutral}
    split: dict[str, t.Any] = {
        f"{name}_parallel": instance["parallel"].get(f"{name}_parallel_size") for name in ("tensor", "pipeline", "data")
    }
    nodes = len(instance["nodes"]["members"]) if instance["nodes"] else 1
    return Wish(
        engine=instance["engine"],
        version=instance["version"],
        memory_fraction=_share(neutral.get("memory_fraction")),
        kv_cache_dtype=str(neutral.get("kv_cache_dtype", "auto")),
        expert_parallel=neutral.get("expert_parallel") is True,
        cuda_graphs=neutral.get("enforce_eager") is not True,
        nodes=nodes,
        **whole,
        **split,
    )


def size(value: t.Any) -> int | None:
    """A whole number or one with k, m, g (thousands) or K, M, G (of 1024), as the engines read them; None for all else."""
    text = str(value).strip()
    factor = _UNITS.get(text[-1:], 1)
    try:
        number = float(text[:-1] if factor > 1 else text)
    except ValueError:
        return None
    return int(number * factor) if math.isfinite(number) and number > 0 else None


def _share(value: t.Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _unread(instance: Instance, devices: t.Sequence[Device], models: Facts, context: Context) -> Finding | None:
    """Why there is nothing to compute with."""
    name, folder = instance["name"], instance["model"]
    if not folder.startswith("/"):
        return _finding(
            "not_planned", "info", name, f"{name} takes {folder} from the hub, so the planner cannot read it: only args decide.", folder
        )
    answer = models.get(folder) or {"error": "it was not read"}
    if answer.get("error"):
        later = " (check mode: an earlier role may bring it)" if context.check_mode else ""
        text = f"The model of {name} cannot be used: {answer['error']}{later}."
        return _finding("model_unreadable", "warn" if context.check_mode else "block", name, text, folder)
    if not devices:
        return _finding("not_planned", "info", name, f"{name} uses no GPU: only its args decide.", "gpus: []")
    if any(device.mig for device in devices):
        return _finding("not_planned", "info", name, f"{name} uses MIG devices, which are not planned for: only its args decide.", "MIG")
    return None


def _finding(what: str, severity: t.Any, name: str, message: str, found: str) -> Finding:
    fix = "Set what it needs in args." if severity == "info" else "Bring the model with role model_store, or correct model."
    return named_finding(
        "engine", what, severity, message, SOURCE, subject=name, found=found, needed="a folder with config.json and weights", fix=fix
    )


def _named(findings: t.Iterable[Finding], name: str) -> list[Finding]:
    """Every finding says which instance it is about."""
    return [dataclasses.replace(one, subject=f"{name}.{one.subject}" if one.subject else name) for one in findings]
