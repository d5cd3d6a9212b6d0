# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How each engine divides a GPU's memory: what it takes, and what is left for its cache. Pure. Private to the collection."""

from __future__ import annotations

import math
import typing as t

from . import _memory_cache as cache
from . import _memory_overhead as overhead
from ._engine_plan_rows import Constants
from ._engine_plan_types import MIB, Gpu, Settings, Wish
from ._memory_model import STATEFUL, ModelShape
from ._memory_weights import Parallel


def cuda_total(gpu: Gpu, constants: Constants) -> int:
    """What CUDA sees of the GPU: NVML's total without what the driver keeps."""
    guess = constants.gpu["driver_reserved"] * MIB + gpu.total * constants.gpu["driver_reserved_share"]
    return gpu.total - (gpu.reserved if gpu.reserved is not None else int(guess))


def cache_rules(shape: ModelShape, gpu: Gpu, wish: Wish, settings: Settings, constants: Constants) -> cache.CacheRules:
    version = constants.version
    major = (gpu.compute_capability or "0").partition(".")[0]
    block = wish.block_size or (constants.mla_block.get(major, constants.block) if shape.is_mla else constants.block)
    states = 1
    if settings.prefix_caching and shape.is_hybrid:
        states = 2 + (1 if shape.model_type in version.get("prefill_checkpoint", ()) else 0)
    return cache.CacheRules(
        block, states + wish.speculative_tokens, version.get("gdn_state_bytes", 2) if _gdn(shape) else 2, wish.hybrid_kv_cache
    )


def _gdn(shape: ModelShape) -> bool:
    return any(mixer.kind == "gdn" for mixer in shape.mixers)


def _vllm(
    shape: ModelShape,
    gpu: Gpu,
    parallel: Parallel,
    settings: Settings,
    wish: Wish,
    constants: Constants,
    weights: int,
    act: int,
    total: int,
) -> dict[str, t.Any]:
    parts, runner = constants.parts, constants.runner(shape)
    counted = wish.cuda_graphs and runner in constants.version["graphs_counted"]
    graphs, taken = overhead.graphs(shape, runner, counted, parts) if wish.cuda_graphs else (0, 0)
    libraries = int(parts["non_torch_v1" if runner == "v1" else "non_torch"] * MIB) + (
        int(parts["collectives"] * MIB) if parallel.tensor > 1 else 0
    )
    context, state = int(parts["context"] * MIB), overhead.request_state(shape, settings.max_num_seqs, runner, parts)
    requested = math.ceil(total * settings.memory_fraction)
    inside = weights + act + libraries + taken + int(parts.get("non_torch_correction", 0) * MIB)
    # Newer releases count all that the process took; older ones only what changed while they measured.
    if constants.version["whole_process"]:
        inside += state + context
        beyond = graphs - taken
    else:
        beyond = graphs - taken + state + context
    return {
        "non_torch": libraries,
        "graphs": graphs,
        "graphs_counted": taken,
        "context": context,
        "request_state": state,
        "requested": requested,
        "kv_bytes": requested - inside,
        "outside": max(0, int(beyond + parts["load_peak"] * MIB)),
    }


def _sglang(
    shape: ModelShape,
    gpu: Gpu,
    parallel: Parallel,
    settings: Settings,
    wish: Wish,
    constants: Constants,
    weights: int,
    act: int,
    total: int,
) -> dict[str, t.Any]:
    parts = constants.parts
    before = total - int(parts["context"] * MIB)
    after = before - weights - int(parts["loading"] * MIB)
    budget = after - int(before * (1 - settings.memory_fraction))
    if shape.is_hybrid:  # states get a fixed share
        budget = int(budget * (1 - parts["mamba_share"]))
    return {
        "non_torch": int(parts["loading"] * MIB),
        "graphs": 0,
        "graphs_counted": 0,
        "context": int(parts["context"] * MIB),
        "request_state": 0,
        "requested": int(before * settings.memory_fraction),
        "kv_bytes": budget,
        "outside": total - int(before * settings.memory_fraction),
    }


def _tensorrt(
    shape: ModelShape,
    gpu: Gpu,
    parallel: Parallel,
    settings: Settings,
    wish: Wish,
    constants: Constants,
    weights: int,
    act: int,
    total: int,
) -> dict[str, t.Any]:
    parts = constants.parts
    context, libraries = int(parts["context"] * MIB), int(parts["non_torch"] * MIB)
    pass_bytes = overhead.forward(
        shape, parallel.tensor, settings.max_num_batched_tokens, {"silu_bytes": 6, "gelu_bytes": 14, "hidden_copies": 4}
    )
    left = total - weights - context - libraries - pass_bytes
    states = 0
    if shape.is_hybrid:  # allotted by the number of sequences, before the cache
        rules = cache_rules(shape, gpu, wish, settings, constants)
        states = settings.max_num_seqs * sum(
            cache.state_bytes(mixer, parallel.tensor, rules) for mixer in shape.mixers if mixer.kind in STATEFUL
        )
    return {
        "non_torch": libraries,
        "graphs": 0,
        "graphs_counted": 0,
        "context": context,
        "request_state": states,
        "requested": total,
        "kv_bytes": int((left - states) * settings.memory_fraction),
        "outside": 0,
    }


BUDGETS = {"vllm": _vllm, "sglang": _sglang, "tensorrt_llm": _tensorrt}
