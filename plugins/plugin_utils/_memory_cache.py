# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KV cache of vLLM: pages, groups of layers, blocks a request needs, and the capacity that it prints. Pure.

Private to the collection. All layers share one pool of blocks of one size. Layers are grouped by kind, every group has the same
number of layers (padded), and a request takes blocks in each group. What vLLM prints as "GPU KV cache size" is the number of requests
of max_model_len that fit, times that length.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ._memory_model import STATEFUL, Mixer, ModelShape

KV_BYTES = {"auto": 2.0, "bfloat16": 2.0, "float16": 2.0, "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0}
KV_TYPES = tuple(KV_BYTES)


@dataclass(frozen=True)
class CacheRules:
    """What an engine's version and a GPU decide."""

    block: int = 16
    """Tokens of a block; hybrids grow it."""
    mamba_blocks: int = 1
    """State blocks of one request (1, or more with prefix caching)."""
    state_bytes: int = 2
    """Bytes of a number of a recurrent state where the model does not say."""
    hybrid: bool = True
    """False: every layer keeps all tokens (--disable-hybrid-kv-cache-manager)."""


@dataclass(frozen=True)
class Group:
    kind: str
    layers: int
    """Layers that really are in it; the pool is laid out for the largest group."""
    block: int
    window: int = 0


@dataclass(frozen=True)
class Layout:
    groups: tuple[Group, ...]
    page: int
    """Bytes of one block of one layer."""
    width: int
    """Layers a block spans: the size of the largest group."""

    @property
    def block_bytes(self) -> int:
        return self.page * self.width


def kv_bytes(dtype: str) -> float:
    return KV_BYTES[dtype]


def page_per_token(mixer: Mixer, tensor: int, dtype: str) -> int:
    """Bytes of one token in one attention layer on one GPU."""
    if mixer.kind == "mla":  # one latent vector, on every GPU
        return int((mixer.kv_rank + mixer.rope_dim) * kv_bytes(dtype))
    return int(max(1, mixer.kv_heads // tensor) * (mixer.head_dim + mixer.head_dim_v) * kv_bytes(dtype))


def state_bytes(mixer: Mixer, tensor: int, rules: CacheRules) -> int:
    """Bytes of one sequence's state in one layer on one GPU: the tail of the convolution, and the recurrence."""
    conv = mixer.conv_dim
    if mixer.kind == "mamba2" and mixer.groups % tensor:  # groups are copied until each GPU has one
        conv = mixer.inner + 2 * tensor * mixer.state
    recurrence = mixer.heads // tensor * mixer.head_dim * mixer.state * (mixer.state_bytes or rules.state_bytes)
    return conv // tensor * (mixer.kernel - 1) * 2 + recurrence


def layout(shape: ModelShape, tensor: int, dtype: str, rules: CacheRules, layers: t.Sequence[t.Any] | None = None) -> Layout:
    """Groups of the given layers (default: all of the model)."""
    mixers = shape.mixers if layers is None else [layer.mixer for layer in layers if layer.mixer is not None]
    kinds: dict[tuple[str, int, int], int] = {}
    attention = [mixer for mixer in shape.mixers if mixer.kind not in STATEFUL]
    per_token = max((page_per_token(mixer, tensor, dtype) for mixer in attention), default=0)
    states = [state_bytes(mixer, tensor, rules) for mixer in shape.mixers if mixer.kind in STATEFUL]
    block = rules.block
    if states and per_token:
        block = max(block, rules.block * math.ceil(max(states) / (rules.block * per_token)))
    page = block * per_token if per_token else max(states)
    for mixer in mixers:
        if mixer.kind in STATEFUL:
            kind = ("state", 0, 0)
        else:
            kept = rules.hybrid and mixer.kind in ("sliding", "chunked")
            # A layer of smaller pages gets larger blocks, so that all pages are alike.
            kind = (mixer.kind if kept else "full", mixer.window if kept else 0, page_per_token(mixer, tensor, dtype))
        kinds[kind] = kinds.get(kind, 0) + 1
    return _grouped(kinds, page)


def _grouped(kinds: dict[tuple[str, int, int], int], page: int) -> Layout:
    fewest, most = min(kinds.values()), max(kinds.values())
    # Nearly equal kinds share the larger size, else padding would cost more than it saves.
    width = most if most < 1.5 * fewest else fewest
    groups = []
    for (kind, window, per_token), count in kinds.items():
        parts = math.ceil(count / width)
        block = page // per_token if per_token else 0
        groups += [Group(kind, len(range(part, count, parts)), block, window) for part in range(parts)]
    return Layout(tuple(groups), page, max(group.layers for group in groups))


def blocks_per_request(layout: Layout, length: int, in_flight: int, rules: CacheRules) -> int:
    """Blocks that one request of this length may hold at once. in_flight: tokens scheduled and not yet settled."""
    return sum(_blocks(group, length, in_flight, rules) for group in layout.groups)


def _blocks(group: Group, length: int, in_flight: int, rules: CacheRules) -> int:
    if group.kind == "state":
        return rules.mamba_blocks
    if group.kind == "sliding":
        return math.ceil(min(group.window - 1 + in_flight, length) / group.block) + 1
    if group.kind == "chunked":
        return math.ceil(min(group.window + in_flight, length) / group.block)
    return math.ceil(length / group.block)


@dataclass(frozen=True)
class Capacity:
    blocks: int
    per_request: int
    tokens: int
    concurrency: float


def capacity(layout: Layout, memory: int, length: int, in_flight: int, rules: CacheRules) -> Capacity:
    """What vLLM prints for this much memory."""
    blocks = max(0, memory // layout.page // layout.width)
    need = blocks_per_request(layout, length, in_flight, rules)
    concurrency = blocks / need
    return Capacity(blocks, need, int(concurrency * length), concurrency)


def longest(layout: Layout, memory: int, most: int, in_flight: int, rules: CacheRules) -> int:
    """The longest request that fits alone, up to `most`; 0 if none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if blocks_per_request(layout, middle, in_flight, rules) <= memory // layout.block_bytes:
            low = middle
        else:
            high = middle - 1
    return low
