# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the engine planner says: reasons for each argument, and why a model does not fit. Pure. Private to the collection."""

from __future__ import annotations

import typing as t

from ._contracts import Finding, named_finding
from ._engine_plan_budget import cuda_total
from ._engine_plan_estimate import fraction_limit
from ._engine_plan_parallel import obstacles, splits, why
from ._engine_plan_rows import Constants
from ._engine_plan_types import GIB, EnginePlan, Estimate, Gpu, Settings, Wish
from ._memory_model import ModelShape
from ._memory_weights import Parallel

SOURCE = "engine planner (docs/planner.md)"


def fill(
    out: EnginePlan, model: ModelShape, gpu: Gpu, count: int, settings: Settings, found: Estimate, wish: Wish, constants: Constants
) -> None:
    split, total = out.parallel, cuda_total(gpu, constants)
    out.args = {
        "tensor_parallel_size": split.tensor,
        "pipeline_parallel_size": split.pipeline,
        "data_parallel_size": split.data,
        "enable_expert_parallel": split.experts,
        "max_model_len": settings.max_model_len,
        "max_num_seqs": settings.max_num_seqs,
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "memory_fraction": settings.memory_fraction,
        "kv_cache_dtype": settings.kv_cache_dtype,
    }
    asked = "as asked"
    tier = f"{constants.engine}'s default on a GPU of {gpu.total / GIB:.0f} GiB"
    cut = f"the model knows {model.max_len}, the cache holds one request of {found.longest}"
    share = {
        "vllm": f"{total / GIB:.1f} GiB are CUDA's; {found.outside / GIB:.1f} GiB beyond the share (context, graphs …) must fit too",
        "sglang": "SGLang's own rule for this GPU, batch and model, written out so that it stays",
        "tensorrt_llm": "share of what is left after weights and a full batch",
    }[wish.engine]
    length = "the model's own length, which fits" if settings.max_model_len == model.max_len else cut
    out.reasons = {
        **why(model, split, count * wish.nodes, gpu.nvlink),
        "enable_expert_parallel": asked if wish.expert_parallel else "every GPU has a slice of each expert",
        "max_model_len": asked if wish.max_model_len else length,
        "max_num_seqs": asked
        if wish.max_num_seqs
        else (f"room for {wish.concurrency} requests over {split.data} copies" if wish.concurrency else tier),
        "max_num_batched_tokens": asked if wish.max_num_batched_tokens else tier,
        "memory_fraction": asked if wish.memory_fraction else share,
        "kv_cache_dtype": asked
        if wish.kv_cache_dtype != "auto"
        else ("as the checkpoint says" if model.quant.kv_dtype else "the model's own type"),
    }
    if wish.engine == "vllm" and wish.memory_fraction is not None:
        limit = fraction_limit(gpu, found, constants)
        if wish.memory_fraction > limit:
            out.findings.append(
                named_finding(
                    "engine",
                    "plan_fraction",
                    "warn",
                    f"memory_fraction {wish.memory_fraction} leaves no room for {found.outside / GIB:.1f} GiB that the engine takes besides"
                    + (f" and the {gpu.used / GIB:.1f} GiB that others use" if gpu.used else "")
                    + ".",
                    SOURCE,
                    found=str(wish.memory_fraction),
                    needed=f"<= {limit}",
                    nearest=str(limit),
                    fix=f"Set memory_fraction to {limit} or less.",
                )
            )


def no_split(model: ModelShape, count: int, wish: Wish) -> Finding:
    asked = Parallel(
        wish.tensor_parallel or (1 if wish.pipeline_parallel or wish.data_parallel else count),
        wish.pipeline_parallel or 1,
        wish.data_parallel or 1,
        wish.expert_parallel,
    )
    world, reasons = count * wish.nodes, obstacles(model, asked)
    if asked.tensor * asked.pipeline > world or (wish.data_parallel and asked.world != world):
        reasons.insert(
            0, f"tensor {asked.tensor} x pipeline {asked.pipeline} x data {asked.data} is {asked.world}, and there are {world} GPUs"
        )
    works = [
        f"{split.tensor} x {split.pipeline} x {split.data}"
        for split in splits(model, count, wish.nodes, wish.expert_parallel, None, None, None)
    ]
    sizes = sorted({size for size in range(1, 9) if splits(model, size, 1, wish.expert_parallel, None, None, 1)})
    needed = f"tensor x pipeline x data one of {', '.join(works)}" if works else f"one copy on {', '.join(map(str, sizes))} GPUs"
    return named_finding(
        "engine",
        "plan_split",
        "block",
        f"The model cannot be split like this: {'; '.join(reasons) or 'no split uses all GPUs'}.",
        SOURCE,
        found=f"{world} GPUs, tensor {asked.tensor} x pipeline {asked.pipeline} x data {asked.data}",
        needed=needed,
        nearest=works[-1] if works else None,
        fix="Leave tensor, pipeline and data parallelism to the planner, or take one of these."
        if works
        else "Give the instance another number of GPUs.",
    )


def does_not_fit(model: ModelShape, gpu: Gpu, split: Parallel, settings: Settings, wish: Wish, out: EnginePlan) -> Finding:
    found = t.cast(Estimate, out.predicted)
    rest = found.weights + found.activation + found.non_torch + found.graphs_counted
    demand = (
        f"{wish.concurrency} requests of {wish.tokens_per_request or settings.max_model_len} tokens"
        if wish.concurrency
        else f"one request of {settings.max_model_len} tokens"
    )
    ways = "; or ".join(f"{way.what}: {way.kv_tokens} tokens, {way.concurrency:.1f} requests" for way in out.alternatives)
    return named_finding(
        "engine",
        "plan_memory",
        "block",
        f"{model.architecture or model.model_type} does not fit {split.world} x {gpu.name}: of {found.requested / GIB:.1f} GiB a GPU, "
        f"weights take {found.weights / GIB:.1f}, with working memory {rest / GIB:.1f}; {found.kv_bytes / GIB:.1f} are left for {demand}.",
        SOURCE,
        found=f"{found.concurrency:.2f} requests of {settings.max_model_len} tokens",
        needed=demand,
        nearest=out.alternatives[0].what if out.alternatives else None,
        fix=f"Any of these fits: {ways}." if ways else "Take larger or more GPUs, or a smaller model: nothing tried here fits.",
    )
