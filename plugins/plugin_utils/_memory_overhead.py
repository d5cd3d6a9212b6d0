# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory that neither weights nor cache take: activations, graphs, libraries, context. Pure.

Private to the collection. The factors are rows of the matrix (memory.vllm.parts); docs/planner.md says what each stands for.
"""

from __future__ import annotations

import typing as t

from ._memory_model import Mixer, ModelShape

MIB = 1 << 20
Parts = t.Mapping[str, t.Any]


def activation(shape: ModelShape, tensor: int, tokens: int, sequences: int, runner: str, parts: Parts) -> int:
    """Peak of the engine's profiling run: the widest layer over a full batch, or the sampler over all sequences, whichever is more;
    buffers of experts stay allocated beside both."""
    resident = parts["workspace"] * MIB + expert_buffers(shape, tensor, tokens)
    sampled = min(sequences, tokens)
    if runner == "v1":
        sampler = sampled * shape.vocab * parts["sampler_v1_bytes"] + parts["topk_rows"] * shape.vocab * 4 + tokens * shape.hidden * 2
    else:
        sampler = sampled * shape.vocab * parts["sampler_v2_bytes"] + tokens * shape.hidden * 2
    return int(resident + max(forward(shape, tensor, tokens, parts), sampler))


def forward(shape: ModelShape, tensor: int, tokens: int, parts: Parts) -> int:
    """One pass of `tokens` tokens through the widest layer."""
    element = parts["gelu_bytes" if shape.gelu else "silu_bytes"]
    ffn = max((max(layer.mlp.ffn, layer.mlp.shared_ffn) for layer in shape.layers if layer.mlp is not None), default=0)
    mixing = max((_width(mixer) for mixer in shape.mixers), default=0)
    return int(tokens * (ffn / tensor * element + mixing / tensor * 2 + shape.hidden * 2 * parts["hidden_copies"]))


def _width(mixer: Mixer) -> int:
    if mixer.kind == "mla":
        return mixer.heads * (mixer.head_dim + mixer.nope_dim + mixer.head_dim_v)
    if mixer.kind in ("mamba2", "mamba1", "gdn"):
        return 2 * mixer.inner + mixer.conv_dim
    return mixer.heads * mixer.head_dim * (2 if mixer.gated else 1) + mixer.kv_heads * (mixer.head_dim + mixer.head_dim_v)


def expert_buffers(shape: ModelShape, tensor: int, tokens: int) -> int:
    """Two buffers for every token's chosen experts. Kernels for MXFP4 that do all in one need none."""
    mlp = shape.experts()
    if mlp is None or shape.quant.method == "mxfp4":
        return 0
    inner = mlp.expert_ffn // tensor
    first, second = max(inner, shape.hidden), max(inner * (2 if mlp.gated else 1), shape.hidden)
    return tokens * mlp.top_k * (first + second) * 2


def request_state(shape: ModelShape, sequences: int, runner: str, parts: Parts) -> int:
    """What model runner V2 keeps on the GPU for each possible request: counts of the tokens it has seen."""
    return int(sequences * shape.vocab * parts["request_state_bytes"]) if runner == "v2" else 0


def graphs(shape: ModelShape, runner: str, counted: bool, parts: Parts) -> tuple[int, int]:
    """CUDA graphs as they will be, and the part of them that the engine takes off its share."""
    real = int(min(parts["graphs_most"], parts["graphs_layer"] * len(shape.layers)) * MIB)
    return real, int(parts["graphs_estimate"] * MIB) if counted else 0
