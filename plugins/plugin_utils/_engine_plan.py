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
from ._contracts import Finding, bad_variable, named_finding
from ._engine_plan_estimate import cuda_total, defaults, estimate, fraction_limit, sglang_fraction
from ._engine_plan_parallel import obstacles, splits, why
from ._engine_plan_rows import Constants
from ._engine_plan_types import GIB, EnginePlan, Estimate, Gpu, Settings, Wish
from ._memory_cache import KV_TYPES
from ._memory_model import ModelShape
from ._memory_weights import Parallel

SOURCE = "engine planner (docs/planner.md)"


def plan(model: ModelShape, gpus: list[Gpu], wish: Wish, constants: Constants) -> EnginePlan:
    """Never raises on odd wishes: they are blocking findings."""
    wrong = _wish_problems(model, gpus, wish)
    if wrong:
        return EnginePlan(False, Parallel(), findings=wrong)
    gpu = min(gpus, key=lambda one: cuda_total(one, constants) - one.used)
    candidates = splits(model, len(gpus), wish.nodes, wish.expert_parallel, wish.tensor_parallel, wish.pipeline_parallel, wish.data_parallel)
    if not candidates:
        return EnginePlan(False, Parallel(), findings=[_no_split(model, len(gpus), wish)])
    tried = [_settle(model, gpu, split, wish, constants) for split in candidates]
    good = [answer for answer in tried if _enough(answer, wish)]
    if good:
        split, settings, found = _best(good, model, wish)
        out = EnginePlan(True, split, predicted=found)
    else:
        split, settings, found = max(tried, key=lambda answer: (answer[2].concurrency * answer[0].data, answer[0].tensor * answer[0].pipeline))
        out = EnginePlan(False, split, predicted=found)
        out.alternatives = fit.alternatives(model, gpu, len(gpus), split, settings, wish, constants)
        out.findings.append(_does_not_fit(model, gpu, split, settings, wish, out))
    _fill(out, model, gpu, len(gpus), settings, found, wish, constants)
    return out


Answer = tuple[Parallel, Settings, Estimate]


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
        out.append(bad_variable("engine", "kv_cache_dtype", repr(wish.kv_cache_dtype), f"one of {', '.join(KV_TYPES)}", _near(wish.kv_cache_dtype), SOURCE))
    fraction = wish.memory_fraction
    if fraction is not None and not 0 < fraction <= 1:
        out.append(bad_variable("engine", "memory_fraction", str(fraction), "a number above 0 and at most 1", "0.9", SOURCE))
    for name in ("max_model_len", "concurrency", "tokens_per_request", "max_num_seqs", "max_num_batched_tokens", "kv_cache_bytes", "block_size",
                 "tensor_parallel", "pipeline_parallel", "data_parallel", "nodes"):  # fmt: skip
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


def _no_split(model: ModelShape, count: int, wish: Wish) -> Finding:
    asked = Parallel(wish.tensor_parallel or (1 if wish.pipeline_parallel or wish.data_parallel else count), wish.pipeline_parallel or 1,
                     wish.data_parallel or 1, wish.expert_parallel)  # fmt: skip
    world, reasons = count * wish.nodes, obstacles(model, asked)
    if asked.tensor * asked.pipeline > world or (wish.data_parallel and asked.world != world):
        reasons.insert(0, f"tensor {asked.tensor} x pipeline {asked.pipeline} x data {asked.data} is {asked.world}, and there are {world} GPUs")
    works = [f"{split.tensor} x {split.pipeline} x {split.data}" for split in splits(model, count, wish.nodes, wish.expert_parallel, None, None, None)]
    sizes = sorted({size for size in range(1, 9) if splits(model, size, 1, wish.expert_parallel, None, None, 1)})
    needed = f"tensor x pipeline x data one of {', '.join(works)}" if works else f"one copy on {', '.join(map(str, sizes))} GPUs"
    return named_finding(
        "engine", "plan_split", "block", f"The model cannot be split like this: {'; '.join(reasons) or 'no split uses all GPUs'}.", SOURCE,
        found=f"{world} GPUs, tensor {asked.tensor} x pipeline {asked.pipeline} x data {asked.data}", needed=needed,
        nearest=works[-1] if works else None,
        fix="Leave tensor, pipeline and data parallelism to the planner, or take one of these." if works else "Give the instance another number of GPUs.",
    )  # fmt: skip


def _does_not_fit(model: ModelShape, gpu: Gpu, split: Parallel, settings: Settings, wish: Wish, out: EnginePlan) -> Finding:
    found = out.predicted
    assert found is not None
    rest = found.weights + found.activation + found.non_torch + found.graphs_counted
    demand = f"{wish.concurrency} requests of {wish.tokens_per_request or settings.max_model_len} tokens" if wish.concurrency else f"one request of {settings.max_model_len} tokens"
    ways = "; or ".join(f"{way.what}: {way.kv_tokens} tokens, {way.concurrency:.1f} requests" for way in out.alternatives)
    return named_finding(
        "engine", "plan_memory", "block",
        f"{model.architecture or model.model_type} does not fit {split.world} x {gpu.name}: of {found.requested / GIB:.1f} GiB a GPU, "
        f"weights take {found.weights / GIB:.1f} and with working memory {rest / GIB:.1f}; {found.kv_bytes / GIB:.1f} GiB are left for {demand}.",
        SOURCE, found=f"{found.concurrency:.2f} requests of {settings.max_model_len} tokens", needed=demand,
        nearest=out.alternatives[0].what if out.alternatives else None,
        fix=f"Any of these fits: {ways}." if ways else "Take larger or more GPUs, or a smaller model: nothing tried here fits.",
    )  # fmt: skip


def _fill(out: EnginePlan, model: ModelShape, gpu: Gpu, count: int, settings: Settings, found: Estimate, wish: Wish, constants: Constants) -> None:
    split, total = out.parallel, cuda_total(gpu, constants)
    out.args = {
        "tensor_parallel_size": split.tensor, "pipeline_parallel_size": split.pipeline, "data_parallel_size": split.data,
        "enable_expert_parallel": split.experts, "max_model_len": settings.max_model_len, "max_num_seqs": settings.max_num_seqs,
        "max_num_batched_tokens": settings.max_num_batched_tokens, "memory_fraction": settings.memory_fraction,
        "kv_cache_dtype": settings.kv_cache_dtype,
    }  # fmt: skip
    asked = "as asked"
    tier = f"{constants.engine}'s default on a GPU of {gpu.total / GIB:.0f} GiB"
    cut = f"the model knows {model.max_len}, the cache holds one request of {found.longest}"
    share = {
        "vllm": f"{total / GIB:.1f} GiB are CUDA's; {found.outside / GIB:.1f} GiB beyond the share (context, graphs, states of requests) must fit too",
        "sglang": "SGLang's own rule for this GPU, batch and model, written out so that it stays",
        "tensorrt_llm": "share of what is left after weights and a full batch",
    }[wish.engine]
    length = "the model's own length, which fits" if settings.max_model_len == model.max_len else cut
    out.reasons = {
        **why(model, split, count * wish.nodes, gpu.nvlink),
        "enable_expert_parallel": asked if wish.expert_parallel else "every GPU has a slice of each expert",
        "max_model_len": asked if wish.max_model_len else length,
        "max_num_seqs": asked if wish.max_num_seqs else (f"room for {wish.concurrency} requests over {split.data} copies" if wish.concurrency else tier),
        "max_num_batched_tokens": asked if wish.max_num_batched_tokens else tier,
        "memory_fraction": asked if wish.memory_fraction else share,
        "kv_cache_dtype": asked if wish.kv_cache_dtype != "auto" else ("as the checkpoint says" if model.quant.kv_dtype else "the model's own type"),
    }
    if wish.engine == "vllm" and wish.memory_fraction is not None:
        limit = fraction_limit(gpu, found, constants)
        if wish.memory_fraction > limit:
            out.findings.append(
                named_finding(
                    "engine", "plan_fraction", "warn",
                    f"memory_fraction {wish.memory_fraction} leaves no room for the {found.outside / GIB:.1f} GiB that the engine takes beyond its share"
                    + (f" and the {gpu.used / GIB:.1f} GiB that others use" if gpu.used else "") + ".",
                    SOURCE, found=str(wish.memory_fraction), needed=f"<= {limit}", nearest=str(limit), fix=f"Set memory_fraction to {limit} or less.",
                )  # fmt: skip
            )
