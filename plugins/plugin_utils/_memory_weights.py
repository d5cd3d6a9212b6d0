# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parameters of a model by shape, and the bytes of them that one GPU holds. Pure. Private to the collection."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ._memory_model import Layer, Mixer, Mlp, ModelShape

Split = t.Literal["tensor", "kv", "all", "experts", "vocab"]
VOCAB_PAD = 64
"""Engines pad the vocabulary to a multiple of this before splitting it."""


@dataclass(frozen=True)
class Weight:
    """split: how tensor parallelism divides it (kv: by KV heads, copied beyond them; all: every GPU has it). part: its place for
    quantization; empty: 16 bits in every checkpoint."""

    count: int
    split: Split
    part: str = ""
    kv_heads: int = 1


@dataclass(frozen=True)
class Parallel:
    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    experts: bool = False
    """Whole experts on each GPU instead of a slice of every one."""

    @property
    def world(self) -> int:
        return self.tensor * self.pipeline * self.data


def parameters(shape: ModelShape) -> int:
    """All parameters of the model that engines load: no speculative head, no image tower's projector beyond an estimate."""
    return sum(weight.count for weight in ends(shape)) + sum(w.count for layer in shape.layers for w in layer_weights(shape, layer))


def ends(shape: ModelShape) -> list[Weight]:
    """What stands before and after the layers."""
    table = shape.vocab * shape.hidden
    return [
        Weight(table, "vocab"),
        Weight(0 if shape.tied else table, "vocab"),
        Weight(shape.hidden, "all"),
        Weight(shape.vision_parameters, "all"),
    ]


def layer_weights(shape: ModelShape, layer: Layer) -> list[Weight]:
    weights = [Weight(layer.norms * shape.hidden, "all")]
    if layer.mixer is not None:
        weights += _STATES.get(layer.mixer.kind, _attention)(shape.hidden, layer.mixer)
    if layer.mlp is not None:
        weights += _mlp(shape.hidden, layer.mlp)
    return weights


def _attention(hidden: int, mixer: Mixer) -> list[Weight]:
    queries, keys = mixer.heads * mixer.head_dim, mixer.kv_heads * (mixer.head_dim + mixer.head_dim_v)
    out = mixer.heads * mixer.head_dim_v
    return [
        Weight(hidden * queries * (2 if mixer.gated else 1) + hidden * out, "tensor", "attention"),
        Weight(hidden * keys, "kv", "attention", mixer.kv_heads),
        Weight(queries if mixer.bias_qkv else 0, "tensor"),
        Weight(keys if mixer.bias_qkv else 0, "kv", kv_heads=mixer.kv_heads),
        Weight((hidden if mixer.bias_out else 0) + mixer.qk_norm + (mixer.heads if mixer.sinks else 0), "all"),
    ]


def _latent(hidden: int, mixer: Mixer) -> list[Weight]:
    queries = mixer.heads * (mixer.nope_dim + mixer.rope_dim)
    inside = mixer.heads * (mixer.nope_dim + mixer.head_dim_v)
    first = hidden * mixer.q_rank + mixer.q_rank if mixer.q_rank else 0
    split = (mixer.q_rank or hidden) * queries + mixer.kv_rank * inside + mixer.heads * mixer.head_dim_v * hidden
    return [
        Weight(split, "tensor", "attention"),
        Weight(first + hidden * (mixer.kv_rank + mixer.rope_dim) + mixer.kv_rank, "all", "attention"),
    ]


def _mamba2(hidden: int, mixer: Mixer) -> list[Weight]:
    conv = mixer.conv_dim * (mixer.kernel + (1 if mixer.conv_bias else 0))
    linear = hidden * (mixer.inner + mixer.conv_dim + mixer.heads) + mixer.inner * hidden
    return [Weight(linear, "tensor", "mamba"), Weight(conv + 3 * mixer.heads + mixer.inner, "tensor")]


def _mamba1(hidden: int, mixer: Mixer) -> list[Weight]:
    low = mixer.dt_rank + 2 * mixer.state
    linear = hidden * 2 * mixer.inner + mixer.inner * low + mixer.dt_rank * mixer.inner + mixer.inner * hidden
    small = mixer.inner * (mixer.kernel + (1 if mixer.conv_bias else 0)) + mixer.inner * (mixer.state + 2)
    return [Weight(linear, "tensor", "mamba"), Weight(small, "tensor"), Weight(low, "all")]


def _gdn(hidden: int, mixer: Mixer) -> list[Weight]:
    linear = hidden * (mixer.conv_dim + mixer.inner + 2 * mixer.heads) + mixer.inner * hidden
    return [
        Weight(linear, "tensor", "mamba"),
        Weight(mixer.conv_dim * mixer.kernel + 2 * mixer.heads, "tensor"),
        Weight(mixer.head_dim, "all"),
    ]


_STATES = {"mla": _latent, "mamba2": _mamba2, "mamba1": _mamba1, "gdn": _gdn}


def _mlp(hidden: int, mlp: Mlp) -> list[Weight]:
    rows = 3 if mlp.gated else 2
    if not mlp.experts:
        bias = (rows - 1) * mlp.ffn + hidden if mlp.bias else 0
        return [Weight(rows * hidden * mlp.ffn, "tensor", "mlp"), Weight(bias, "all")]
    bias = mlp.experts * ((rows - 1) * mlp.expert_ffn + hidden) if mlp.expert_bias else 0
    router = hidden * mlp.experts + (mlp.experts if mlp.router_bias else 0) + (hidden if mlp.shared_gate else 0)
    return [
        Weight(mlp.experts * rows * hidden * mlp.expert_ffn, "experts", "experts"),
        Weight(bias, "experts"),
        Weight(rows * hidden * mlp.shared_ffn, "tensor", "shared"),
        Weight(router, "all"),
    ]


def checkpoint_bytes(shape: ModelShape) -> int:
    """Bytes of the model's files by its config, on no GPU in particular."""
    single = Parallel()
    return sum(_bytes(shape, weight, single, pad=False) for weight in _everything(shape))


def _everything(shape: ModelShape) -> list[Weight]:
    return ends(shape) + [weight for layer in shape.layers for weight in layer_weights(shape, layer)]


def weights_of_stage(shape: ModelShape, parallel: Parallel, stage: int) -> int:
    """Bytes of weights on each GPU of one pipeline stage, scaled to what the files really hold where that is known."""
    first, last = stage_layers(len(shape.layers), parallel.pipeline, stage)
    weights = [weight for layer in shape.layers[first:last] for weight in layer_weights(shape, layer)]
    table, head, norm, vision = ends(shape)
    if stage == 0:
        weights += [table, vision]
    if stage == parallel.pipeline - 1:
        weights += [norm, table if shape.tied and stage else head]
    total = sum(_bytes(shape, weight, parallel) for weight in weights)
    known = shape.weights_bytes
    return int(total * (known / checkpoint_bytes(shape) if known else 1))


def stage_layers(count: int, stages: int, stage: int) -> tuple[int, int]:
    """vLLM's own split: what does not divide goes to the stages before the last, from the end."""
    base, rest = divmod(count, stages)
    sizes = [base] * stages
    for place in range(2, rest + 2):
        sizes[-place] += 1
    start = sum(sizes[:stage])
    return start, start + sizes[stage]


def _bytes(shape: ModelShape, weight: Weight, parallel: Parallel, pad: bool = True) -> int:
    count: float = weight.count
    tensor = parallel.tensor
    if weight.split == "vocab":
        rows = math.ceil(shape.vocab / VOCAB_PAD) * VOCAB_PAD if pad else shape.vocab
        count = count / shape.vocab * rows / tensor
    elif weight.split == "tensor":
        count /= tensor
    elif weight.split == "kv":
        count = count / weight.kv_heads * max(1, weight.kv_heads // tensor)
    elif weight.split == "experts":
        # vLLM's expert parallelism spreads experts over tensor x data ranks.
        count /= tensor * (parallel.data if parallel.experts else 1)
    quant = shape.quant
    # lm_head and embedding have no part: publishers leave them alone, with few exceptions that weights_bytes corrects.
    bits = quant.bits if weight.part and weight.part not in quant.kept else 8 * shape.dtype_bytes
    return int(count * bits / 8)
