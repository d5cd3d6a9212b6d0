# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine planner: model, GPUs and a wish → parallelism, lengths, shares, each with its reason. Pure.

Private to the collection. Interface for other parts: plan(model, gpus, wish, constants) -> EnginePlan. docs/planner.md has the rules.
"""

from __future__ import annotations

import math
from dataclasses import replace

from . import _engine_plan_fit as fit
from ._contracts import Finding, bad_variable
from ._engine_plan_budget import cuda_total
from ._engine_plan_estimate import defaults, estimate, fraction_limit, sglang_fraction
from ._engine_plan_parallel import splits
from ._engine_plan_rows import Constants
from ._engine_plan_types import EnginePlan, Estimate, Gpu, Settings, Wish
from ._engine_plan_words import SOURCE, does_not_fit, fill, no_split
from ._memory_cache import KV_TYPES
from ._memory_model import ModelShape
from ._memory_weights import Parallel


def plan(model: ModelShape, gpus: list[Gpu], wish: Wish, constants: Constants) -> EnginePlan:
    """Never raises on odd wishes: they are blocking findings."""
    wrong = _wish_problems(model, gpus, wish)
    if wrong:
        return EnginePlan(False, Parallel(), findings=wrong)
    gpu = min(gpus, key=lambda one: cuda_total(one, constants) - one.used)
    candidates = splits(
        model, len(gpus), wish.nodes, wish.expert_parallel, wish.tensor_parallel, wish.pipeline_parallel, wish.data_parallel
    )
    if not candidates:
        return EnginePlan(False, Parallel(), findings=[no_split(model, len(gpus), wish)])
    tried = [_settle(model, gpu, split, wish, constants) for split in candidates]
    good = [answer for answer in tried if _enough(answer, wish)]
    if good:
        split, settings, found = _best(good, model, wish)
        out = EnginePlan(True, split, predicted=found)
    else:
        split, settings, found = max(
            tried, key=lambda answer: (answer[2].concurrency * answer[0].data, answer[0].tensor * answer[0].pipeline)
        )
        out = EnginePlan(False, split, predicted=found)
        out.alternatives = fit.alternatives(model, gpu, len(gpus), split, settings, wish, constants)
        out.findings.append(does_not_fit(model, gpu, split, settings, wish, out))
    fill(out, model, gpu, len(gpus), settings, found, wish, constants)
    return out


Answer = tuple[Parallel, Settings, Estimate]


WHOLE_NUMBERS = (
    "max_model_len",
    "concurrency",
    "tokens_per_request",
    "max_num_seqs",
    "max_num_batched_tokens",
    "kv_cache_bytes",
    "block_size",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
)
"""Wishes that are whole numbers; the options of action engine_plan by the same names."""
_COMFORT = 2.0
"""Requests of full length for one copy, where nobody says how many there will be."""


def _best(good: list[Answer], model: ModelShape, wish: Wish) -> Answer:
    """The smallest copy that holds the full length with room; else the longest, then the roomiest."""
    for answer in good:
        _split, settings, found = answer
        if settings.max_model_len == (wish.max_model_len or model.max_len) and (wish.concurrency or found.concurrency >= _COMFORT):
            return answer
    return max(good, key=lambda answer: (answer[1].max_model_len, answer[2].concurrency))


def _enough(answer: Answer, wish: Wish) -> bool:
    split, settings, found = answer
    share = replace(wish, concurrency=math.ceil(wish.concurrency / split.data)) if wish.concurrency else wish
    return fit.enough(found, share, settings)


def _settle(model: ModelShape, gpu: Gpu, split: Parallel, wish: Wish, constants: Constants) -> Answer:
    """Fill in what the wish leaves open: sequences by the demand, the share of memory by what is outside it, the length by what fits."""
    settings = defaults(model, gpu, wish, constants)
    if wish.concurrency and wish.max_num_seqs is None:
        wanted = max(8, math.ceil(wish.concurrency / split.data / 8) * 8)
        settings = replace(settings, max_num_seqs=min(settings.max_num_seqs, wanted))
    if wish.memory_fraction is None:
        if wish.engine == "sglang":
            share = sglang_fraction(gpu, model, split, settings, constants)
        elif wish.engine == "vllm":
            limit = fraction_limit(gpu, estimate(model, gpu, split, settings, wish, constants), constants)
            share = min(float(constants.gpu["fraction_most"]), limit)
        else:
            share = settings.memory_fraction
        settings = replace(settings, memory_fraction=share)
    found = estimate(model, gpu, split, settings, wish, constants)
    if wish.max_model_len is None and 0 < found.longest < settings.max_model_len:
        shorter = max(1, found.longest // 1024) * 1024 if found.longest >= 1024 else found.longest
        settings = replace(settings, max_model_len=shorter)
        found = estimate(model, gpu, split, settings, wish, constants)
    return split, settings, found


def _wish_problems(model: ModelShape, gpus: list[Gpu], wish: Wish) -> list[Finding]:
    out = []
    if not gpus:
        out.append(bad_variable("engine", "gpus", "empty", "one GPU or more", None, SOURCE))
    if wish.kv_cache_dtype not in KV_TYPES:
        out.append(
            bad_variable(
                "engine", "kv_cache_dtype", repr(wish.kv_cache_dtype), f"one of {', '.join(KV_TYPES)}", _near(wish.kv_cache_dtype), SOURCE
            )
        )
    fraction = wish.memory_fraction
    if fraction is not None and not 0 < fraction <= 1:
        out.append(bad_variable("engine", "memory_fraction", str(fraction), "a number above 0 and at most 1", "0.9", SOURCE))
    for name in (*WHOLE_NUMBERS, "nodes"):
        value = getattr(wish, name)
        if value is not None and (isinstance(value, bool) or value < 1):
            out.append(bad_variable("engine", name, str(value), "a whole number above 0", "1", SOURCE))
    if wish.max_model_len is not None and wish.max_model_len > model.max_len:
        expected = f"at most {model.max_len}, the model's own length"
        out.append(bad_variable("engine", "max_model_len", str(wish.max_model_len), expected, str(model.max_len), SOURCE))
    if len({gpu.name for gpu in gpus}) > 1:
        names = ", ".join(sorted({gpu.name for gpu in gpus}))
        out.append(bad_variable("engine", "gpus", names, "GPUs of one product in one instance", gpus[0].name, SOURCE))
    return out


def _near(dtype: str) -> str:
    return "fp8" if "8" in dtype else "auto"
