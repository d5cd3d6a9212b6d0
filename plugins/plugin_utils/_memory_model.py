# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a model decides about memory: layers, widths, quantization. Pure.

Private to the collection. _memory_config.py makes a ModelShape of a config.json; everything else computes from it.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

Kind = t.Literal["full", "sliding", "chunked", "mla", "mamba2", "mamba1", "gdn"]
STATEFUL = ("mamba2", "mamba1", "gdn")
"""Mixers that keep one state a sequence instead of a cache that grows with it."""
Keep = t.Literal["attention", "mlp", "experts", "shared", "mamba"]


class ShapeError(ValueError):
    """A config.json that cannot be used; `key` is the key at fault, `unknown` that the architecture is not known."""

    def __init__(self, message: str, *, key: str = "", unknown: bool = False) -> None:
        super().__init__(message)
        self.key = key
        self.unknown = unknown


@dataclass(frozen=True)
class Mixer:
    """What mixes tokens in a layer. Attention uses heads … window, MLA the ranks, a state machine the last block."""

    kind: Kind
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    head_dim_v: int = 0
    window: int = 0
    bias_qkv: bool = False
    bias_out: bool = False
    qk_norm: int = 0
    """Parameters of the norms on queries and keys."""
    gated: bool = False
    """A gate as wide as the queries (Qwen3-Next)."""
    sinks: bool = False
    kv_rank: int = 0
    q_rank: int = 0
    rope_dim: int = 0
    nope_dim: int = 0
    state: int = 0
    groups: int = 0
    kernel: int = 0
    key_heads: int = 0
    dt_rank: int = 0
    state_bytes: int = 0
    """Bytes of one number of the state; 0: as the model's own."""
    conv_bias: bool = True

    @property
    def inner(self) -> int:
        """Width of a state machine."""
        return self.heads * self.head_dim

    @property
    def conv_dim(self) -> int:
        """Channels of the convolution before the state, unsplit."""
        if self.kind == "gdn":
            return 2 * self.key_heads * self.state + self.inner
        return self.inner + 2 * self.groups * self.state if self.kind == "mamba2" else self.inner


@dataclass(frozen=True)
class Mlp:
    """The feed-forward half of a layer; experts 0: dense."""

    ffn: int = 0
    gated: bool = True
    bias: bool = False
    experts: int = 0
    expert_ffn: int = 0
    top_k: int = 0
    shared_ffn: int = 0
    shared_gate: bool = False
    router_bias: bool = False
    expert_bias: bool = False


@dataclass(frozen=True)
class Layer:
    mixer: Mixer | None
    mlp: Mlp | None
    norms: int = 2


@dataclass(frozen=True)
class Quant:
    """Weights of less than 16 bits. bits: of one weight with its share of the scales; group: weights per scale along the input."""

    method: str = ""
    bits: float = 16.0
    group: int = 0
    block: int = 0
    """Side of a square block of one scale: each GPU's share must be a multiple of it."""
    kept: frozenset[str] = frozenset()
    """Parts (Keep) that stay in 16 bits."""
    kv_dtype: str = ""
    """The cache's type that the checkpoint asks for."""


@dataclass(frozen=True)
class ModelShape:
    architecture: str
    model_type: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    max_len: int
    tied: bool = False
    dtype_bytes: int = 2
    quant: Quant = field(default_factory=Quant)
    gelu: bool = False
    vision_parameters: int = 0
    rope_bytes: int = 0
    """Tables of the position embedding, which engines keep beside the weights."""
    weights_bytes: int | None = None
    """As the files say (index or headers), without parts that no engine loads; None: only the config is known."""

    @property
    def is_moe(self) -> bool:
        return any(layer.mlp is not None and layer.mlp.experts for layer in self.layers)

    @property
    def is_hybrid(self) -> bool:
        """State machines beside attention."""
        return any(mixer.kind in STATEFUL for mixer in self.mixers)

    @property
    def is_mla(self) -> bool:
        return any(mixer.kind == "mla" for mixer in self.mixers)

    @property
    def mixers(self) -> list[Mixer]:
        return [layer.mixer for layer in self.layers if layer.mixer is not None]

    def experts(self) -> Mlp | None:
        """The widest layer of experts; all are alike in every model known."""
        return next((layer.mlp for layer in self.layers if layer.mlp is not None and layer.mlp.experts), None)
