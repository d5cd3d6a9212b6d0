# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What would make a model fit: every proposal is computed with the planner's own formulas. Pure. Private to the collection."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ._engine_plan_estimate import estimate
from ._engine_plan_parallel import splits
from ._engine_plan_rows import Constants
from ._engine_plan_types import GIB, Alternative, Estimate, Gpu, Settings, Wish
from ._memory_config import with_quant
from ._memory_model import ModelShape
from ._memory_quant import methods_for, with_bits
from ._memory_weights import Parallel

_ROUND = 1024


def enough(found: Estimate, wish: Wish, settings: Settings) -> bool:
    """One request of the full length fits, and as many usual ones at once as were asked for."""
    if found.kv_bytes <= 0 or found.concurrency < 1:
        return False
    return not wish.concurrency or carries(found, wish, settings) >= wish.concurrency


def carries(found: Estimate, wish: Wish, settings: Settings) -> float:
    """Usual requests at once; over all copies it is this times the copies."""
    usual = wish.tokens_per_request or settings.max_model_len
    if found.state_bytes or not found.bytes_per_token:
        return found.concurrency  # a state costs the same for a short request
    return found.concurrency * settings.max_model_len / min(usual, settings.max_model_len)


def alternatives(
    shape: ModelShape, gpu: Gpu, count: int, parallel: Parallel, settings: Settings, wish: Wish, constants: Constants
) -> list[Alternative]:
    """Each by itself, then FP8 cache and other weights together with what they need least of."""

    def tried(
        what: str, change: dict[str, t.Any], shape: ModelShape = shape, split: Parallel = parallel, **changes: t.Any
    ) -> Alternative | None:
        new = replace(settings, **changes)
        found = estimate(shape, gpu, split, new, wish, constants)
        per_copy = replace(wish, concurrency=-(-wish.concurrency // split.data)) if wish.concurrency else wish
        return Alternative(what, change, found.kv_tokens, found.concurrency) if enough(found, per_copy, new) else None

    out = [_more_gpus(shape, gpu, count, settings, wish, constants)]
    if settings.kv_cache_dtype == "auto" and _has_fp8(gpu):
        out.append(tried("an FP8 cache (half the bytes of a token)", {"kv_cache_dtype": "fp8"}, kv_cache_dtype="fp8"))
    found = estimate(shape, gpu, parallel, settings, wish, constants)
    shorter = min(found.longest, settings.max_model_len - 1) // _ROUND * _ROUND
    if shorter:
        out.append(tried(f"max_model_len {shorter}", {"max_model_len": shorter}, max_model_len=shorter))
    if settings.max_num_batched_tokens > 2048 and wish.max_num_batched_tokens is None:
        small = {"max_num_batched_tokens": 2048, "max_num_seqs": min(256, settings.max_num_seqs)}
        what = f"smaller batches (2048 tokens, {small['max_num_seqs']} sequences)"
        out.append(tried(what, small, max_num_batched_tokens=2048, max_num_seqs=small["max_num_seqs"]))
    if not shape.quant.method:
        for method in methods_for(gpu.compute_capability):
            smaller = with_quant(shape, with_bits(method))
            whole = tried(f"the model in {method.upper()}", {"quantization": method}, shape=smaller)
            out.append(whole or _cut(smaller, gpu, parallel, settings, wish, constants, method))
    return [alternative for alternative in out if alternative is not None]


def _cut(
    smaller: ModelShape, gpu: Gpu, parallel: Parallel, settings: Settings, wish: Wish, constants: Constants, method: str
) -> Alternative | None:
    """Other weights are not enough by themselves: with an FP8 cache where there is one, and the length that then fits."""
    dtype = "fp8" if settings.kv_cache_dtype == "auto" and _has_fp8(gpu) else settings.kv_cache_dtype
    new = replace(settings, kv_cache_dtype=dtype)
    length = min(estimate(smaller, gpu, parallel, new, wish, constants).longest, settings.max_model_len) // _ROUND * _ROUND
    if not length:
        return None
    new = replace(new, max_model_len=length)
    found = estimate(smaller, gpu, parallel, new, wish, constants)
    if not enough(found, wish, new):
        return None
    change = {"quantization": method, "kv_cache_dtype": dtype, "max_model_len": length}
    return Alternative(
        f"the model in {method.upper()} with kv_cache_dtype {dtype} and max_model_len {length}", change, found.kv_tokens, found.concurrency
    )


def _has_fp8(gpu: Gpu) -> bool:
    return "fp8" in methods_for(gpu.compute_capability)


def _more_gpus(shape: ModelShape, gpu: Gpu, count: int, settings: Settings, wish: Wish, constants: Constants) -> Alternative | None:
    sizes = [size for size in (2, 4, 8, 16, 32) if size > count]  # as machines have them
    for more in sizes:
        for split in splits(shape, min(more, 8), max(1, more // 8), wish.expert_parallel, None, None, 1):
            found = estimate(shape, gpu, split, settings, wish, constants)
            if enough(found, wish, settings):
                change = {"gpus": more, "tensor_parallel_size": split.tensor, "pipeline_parallel_size": split.pipeline}
                return Alternative(f"{more} GPUs like this one ({gpu.total / GIB:.0f} GiB)", change, found.kv_tokens, found.concurrency)
    return None
