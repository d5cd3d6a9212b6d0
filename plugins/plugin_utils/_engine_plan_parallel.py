# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a model may be split over GPUs. Pure. Private to the collection."""

from __future__ import annotations

import typing as t

from ._memory_model import ModelShape
from ._memory_weights import Parallel


def obstacles(shape: ModelShape, parallel: Parallel) -> list[str]:
    """Why an engine would refuse this split; empty: it would not."""
    tensor, wrong = parallel.tensor, []
    for name, count in sorted(_divided(shape, parallel).items()):
        if count % tensor:
            wrong.append(f"{name} {count} is no multiple of {tensor}")
    for count in sorted({mixer.kv_heads for mixer in shape.mixers if mixer.kind in ("full", "sliding", "chunked")}):
        if count % tensor and tensor % count:
            wrong.append(f"{count} KV heads can neither be split over nor copied to {tensor} GPUs")
    wrong += _scales(shape, parallel)
    if parallel.pipeline > len(shape.layers):
        wrong.append(f"{len(shape.layers)} layers are fewer than {parallel.pipeline} pipeline stages")
    experts = shape.experts()
    if parallel.experts and experts is None:
        wrong.append("the model has no experts to spread")
    return wrong


def _divided(shape: ModelShape, parallel: Parallel) -> dict[str, int]:
    """Numbers that tensor parallelism divides, by what they are."""
    out: dict[str, int] = {}
    for mixer in shape.mixers:
        if mixer.kind in ("full", "sliding", "chunked", "mla"):
            out["number of attention heads"] = mixer.heads
        elif mixer.kind == "gdn":
            out["number of value heads"], out["number of key heads"] = mixer.heads, mixer.key_heads
        else:
            out["number of Mamba heads"] = mixer.heads
    for layer in shape.layers:
        if layer.mlp is None:
            continue
        if layer.mlp.ffn:
            out["intermediate size"] = layer.mlp.ffn
        if layer.mlp.shared_ffn:
            out["intermediate size of the shared expert"] = layer.mlp.shared_ffn
        if layer.mlp.experts and not parallel.experts:
            out["intermediate size of an expert"] = layer.mlp.expert_ffn
    return out


def _scales(shape: ModelShape, parallel: Parallel) -> t.Iterator[str]:
    """A share must hold whole blocks of one scale. MXFP4 kernels pad instead."""
    unit = shape.quant.block or shape.quant.group
    if not unit or shape.quant.method == "mxfp4" or parallel.tensor == 1:
        return
    for name, count in sorted(_divided(shape, parallel).items()):
        part = "experts" if name.endswith("an expert") else "shared" if "shared" in name else "mlp"
        if "intermediate" not in name or part in shape.quant.kept or count % parallel.tensor:
            continue
        share = count // parallel.tensor
        if share % unit:
            what = "FP8 blocks" if shape.quant.block else "groups"
            yield f"{name} {count} split {parallel.tensor} ways is {share}, which does not hold whole {what} of {unit}"


def splits(
    shape: ModelShape, gpus: int, nodes: int, experts: bool, tensor: int | None, pipeline: int | None, data: int | None
) -> list[Parallel]:
    """Splits that use all GPUs and that engines accept, the fewest GPUs for one copy first, tensor before pipeline parallelism."""
    world, out = gpus * nodes, []
    for copy in (count for count in range(1, world + 1) if world % count == 0):
        for stages in (count for count in range(1, copy + 1) if copy % count == 0):
            split = Parallel(copy // stages, stages, world // copy, experts)
            asked = ((tensor, split.tensor), (pipeline, split.pipeline), (data, split.data))
            if any(wanted is not None and wanted != got for wanted, got in asked):
                continue
            if split.tensor > gpus and pipeline is None:  # all-reduce over a network between hosts
                continue
            if not obstacles(shape, split):
                out.append(split)
    return sorted(out, key=lambda split: (split.tensor * split.pipeline, split.pipeline))


def why(shape: ModelShape, parallel: Parallel, gpus: int, nvlink: bool) -> dict[str, str]:
    """A sentence for each of the three numbers."""
    heads = next((mixer.heads for mixer in shape.mixers if mixer.heads), 0)
    kv = next((mixer.kv_heads for mixer in shape.mixers if mixer.kv_heads), 0)
    copied = f"; its {kv} KV heads are copied, so more GPUs save no more cache" if kv and parallel.tensor > kv and not shape.is_mla else ""
    latent = "; the latent cache of MLA is on every GPU" if shape.is_mla and parallel.tensor > 1 else ""
    link = "" if nvlink or parallel.tensor == 1 else "; without NVLink each layer's all-reduce crosses PCIe, which costs speed"
    return {
        "tensor_parallel_size": f"{heads} heads divide by {parallel.tensor}{copied}{latent}{link}"
        if parallel.tensor > 1
        else "one GPU holds a copy of the model",
        "pipeline_parallel_size": "layers are split between hosts or where heads do not divide further"
        if parallel.pipeline > 1
        else "no need to split layers",
        "data_parallel_size": f"{gpus} GPUs hold {parallel.data} copies; copies need no traffic between GPUs"
        if parallel.data > 1
        else "all GPUs serve one copy",
    }
