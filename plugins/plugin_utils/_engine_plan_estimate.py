# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One layout of a model over GPUs, in numbers: what the engine will take, and the cache that is left. Pure.

Private to the collection. Each engine divides a GPU by its own rule; weights and cache pages are the same for all.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import replace

from . import _memory_cache as cache
from . import _memory_overhead as overhead
from ._engine_plan_budget import BUDGETS, cache_rules, cuda_total
from ._engine_plan_rows import Constants
from ._engine_plan_types import GIB, MIB, Estimate, Gpu, Settings, Wish
from ._memory_model import STATEFUL, ModelShape
from ._memory_weights import Parallel, stage_layers, weights_of_stage


def estimate(shape: ModelShape, gpu: Gpu, parallel: Parallel, settings: Settings, wish: Wish, constants: Constants) -> Estimate:
    """The fullest stage decides: every rank gets as many blocks as the smallest pool has."""
    stages = [_stage(shape, gpu, parallel, stage, settings, wish, constants) for stage in range(parallel.pipeline)]
    return min(stages, key=lambda stage: stage.blocks)


def _stage(shape: ModelShape, gpu: Gpu, parallel: Parallel, stage: int, settings: Settings, wish: Wish, constants: Constants) -> Estimate:
    weights = weights_of_stage(shape, parallel, stage) + shape.rope_bytes
    parts, runner = constants.parts, constants.runner(shape)
    total = cuda_total(gpu, constants)
    first, last = stage_layers(len(shape.layers), parallel.pipeline, stage)
    act = (
        overhead.activation(shape, parallel.tensor, settings.max_num_batched_tokens, settings.max_num_seqs, runner, parts)
        if wish.engine == "vllm"
        else 0
    )
    numbers = BUDGETS[wish.engine](shape, gpu, parallel, settings, wish, constants, weights, act, total)
    rules = cache_rules(shape, gpu, wish, settings, constants)
    plan = cache.layout(shape, parallel.tensor, settings.kv_cache_dtype, rules, shape.layers[first:last])
    memory = wish.kv_cache_bytes if wish.kv_cache_bytes is not None and wish.engine == "vllm" else max(0, numbers["kv_bytes"])
    in_flight = settings.max_num_batched_tokens * (constants.version.get("async_batches", 1) + parallel.pipeline - 1)
    fit = cache.capacity(plan, memory, settings.max_model_len, in_flight, rules)
    attention = [mixer for mixer in shape.mixers if mixer.kind not in STATEFUL]
    return Estimate(
        weights=weights,
        activation=act,
        kv_tokens=fit.tokens,
        concurrency=round(fit.concurrency, 4),
        blocks=fit.blocks,
        block_size=max(group.block for group in plan.groups),
        longest=cache.longest(plan, memory, shape.max_len, in_flight, rules),
        bytes_per_token=sum(cache.page_per_token(mixer, parallel.tensor, settings.kv_cache_dtype) for mixer in attention),
        state_bytes=sum(cache.state_bytes(mixer, parallel.tensor, rules) for mixer in shape.mixers if mixer.kind in STATEFUL),
        **{**numbers, "kv_bytes": memory},
    )


def fraction_limit(gpu: Gpu, found: Estimate, constants: Constants) -> float:
    """The largest share that leaves room for what the engine takes beyond it, and for others on the GPU."""
    total = cuda_total(gpu, constants)
    spare = int(total * constants.gpu["spare_share"])
    room = total - gpu.used - found.outside - spare
    # The first check at start: the share must be free.
    free = total - gpu.used - int(constants.parts.get("context", 600) * MIB)
    return max(0.0, math.floor(min(room, free) / total * 100) / 100)


def sglang_fraction(gpu: Gpu, shape: ModelShape, parallel: Parallel, settings: Settings, constants: Constants) -> float:
    """What SGLang sets for itself."""
    parts, total = constants.parts, gpu.total / MIB
    graphs = parts["prefill_graphs_mla" if shape.is_mla else "prefill_graphs"]
    reserved = parts["reserve"] + parts["per_prefill_token"] * max(settings.max_num_batched_tokens, 2048) + graphs
    reserved += parallel.tensor * parallel.pipeline / 8 * parts["per_rank_eighth"] + parts["per_decode_sequence"] * settings.max_num_seqs
    if total > parts["least_from_gib"] * 1024:
        reserved = max(reserved, parts["least"])
    return float(round((total - reserved) / total, 3))


def defaults(shape: ModelShape, gpu: Gpu, wish: Wish, constants: Constants) -> Settings:
    """Blanks of the wish as the engine itself would fill them in; the fraction is a start that the planner improves."""
    tier = constants.tier(gpu.total / GIB, gpu.name)
    length = wish.max_model_len or shape.max_len
    tokens = wish.max_num_batched_tokens or tier["tokens"]
    prefix = wish.prefix_caching
    if prefix is None:
        prefix = bool(constants.version.get("hybrid_prefix_cache", True)) or not shape.is_hybrid
    fraction = wish.memory_fraction or constants.version.get("fraction") or 0.9
    dtype = wish.kv_cache_dtype if wish.kv_cache_dtype != "auto" else (shape.quant.kv_dtype or "auto")
    return Settings(length, wish.max_num_seqs or min(tier["sequences"], tokens), tokens, float(fraction), dtype, prefix)


def resized(settings: Settings, **changes: t.Any) -> Settings:
    return replace(settings, **changes)
