# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Families that mix attention with state machines (Mamba, gated delta nets). Pure. Private to the collection."""

from __future__ import annotations

from ._memory_families import attention, experts, kinds
from ._memory_keys import Config, flag, number, positive, words
from ._memory_model import Layer, Mixer, Mlp, ShapeError

PATTERN = {"M": "mamba", "E": "moe", "-": "mlp", "*": "attention"}
BLOCKS = {
    "mamba": "mamba",
    "linear_attention": "mamba",
    "moe": "moe",
    "mlp": "mlp",
    "attention": "attention",
    "full_attention": "attention",
}


def nemotron_h(text: Config) -> list[Layer]:
    """One thing a layer: a state machine, attention, an MLP, or experts."""
    count = number(text, "num_hidden_layers")
    blocks = words(text, "hybrid_override_pattern", count, PATTERN) or words(text, "layers_block_type", count, BLOCKS)
    if blocks is None:
        raise ShapeError("config.json has no hybrid_override_pattern or layers_block_type", key="hybrid_override_pattern")
    width = 4 if str(text.get("mamba_ssm_cache_dtype") or "float32") == "float32" else 2
    state = Mixer(
        "mamba2",
        positive(text, "mamba_num_heads"),
        head_dim=positive(text, "mamba_head_dim"),
        state=positive(text, "ssm_state_size"),
        groups=positive(text, "n_groups"),
        kernel=positive(text, "conv_kernel"),
        state_bytes=width,
        conv_bias=flag(text, "use_conv_bias", True),
    )
    made = {
        "mamba": lambda: Layer(state, None, 1),
        "attention": lambda: Layer(attention(text), None, 1),
        "mlp": lambda: Layer(None, Mlp(ffn=positive(text, "intermediate_size"), gated=False), 1),
        "moe": lambda: Layer(
            None, experts(text, gated=False, router_bias=True, shared_ffn=number(text, "moe_shared_expert_intermediate_size")), 1
        ),
    }
    layers = {kind: made[kind]() for kind in sorted(set(blocks))}
    return [layers[kind] for kind in blocks]


def granite_hybrid(text: Config) -> list[Layer]:
    state = Mixer(
        "mamba2",
        positive(text, "mamba_n_heads"),
        head_dim=positive(text, "mamba_d_head"),
        state=positive(text, "mamba_d_state"),
        groups=positive(text, "mamba_n_groups"),
        kernel=positive(text, "mamba_d_conv"),
        conv_bias=flag(text, "mamba_conv_bias", True),
    )
    shared = number(text, "shared_intermediate_size")
    mlp = experts(text, shared_ffn=shared) if number(text, "num_local_experts") else Mlp(ffn=shared)
    return [Layer(state if kind == "state" else attention(text), mlp) for kind in kinds(text)]


def jamba(text: Config) -> list[Layer]:
    rank, width = positive(text, "mamba_dt_rank"), positive(text, "hidden_size") * positive(text, "mamba_expand", default=2)
    state = Mixer("mamba1", width, head_dim=1, state=positive(text, "mamba_d_state"), kernel=positive(text, "mamba_d_conv"), dt_rank=rank)
    count = positive(text, "num_hidden_layers")
    attends = (positive(text, "attn_layer_period"), number(text, "attn_layer_offset"))
    mixes = (positive(text, "expert_layer_period"), number(text, "expert_layer_offset"))
    sparse, plain = experts(text), Mlp(ffn=positive(text, "intermediate_size"))
    return [
        Layer(attention(text) if index % attends[0] == attends[1] else state, sparse if index % mixes[0] == mixes[1] else plain)
        for index in range(count)
    ]


def qwen3_next(text: Config) -> list[Layer]:
    every = positive(text, "full_attention_interval", default=4)
    which = kinds(text, lambda index: "full" if (index + 1) % every == 0 else "state")
    state = Mixer(
        "gdn",
        positive(text, "linear_num_value_heads"),
        head_dim=positive(text, "linear_value_head_dim"),
        state=positive(text, "linear_key_head_dim"),
        key_heads=positive(text, "linear_num_key_heads"),
        kernel=positive(text, "linear_conv_kernel_dim"),
        state_bytes=4 if text.get("mamba_ssm_dtype") == "float32" else 0,
        conv_bias=False,
    )
    full = attention(text, qk_norm=2 * positive(text, "head_dim", default=256), gated=True)
    shared = number(text, "shared_expert_intermediate_size")
    sparse = bool(text.get("num_experts"))
    mlp = experts(text, shared_ffn=shared, shared_gate=shared > 0) if sparse else Mlp(ffn=positive(text, "intermediate_size"))
    return [Layer(state if kind == "state" else full, mlp) for kind in which]


FAMILIES = {
    "nemotron_h": nemotron_h,
    "granitemoehybrid": granite_hybrid,
    "jamba": jamba,
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_moe"), qwen3_next),
}
