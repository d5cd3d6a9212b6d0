# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is particular to each family of models: which layer is what. Pure.

Private to the collection. A family is a function from the text part of a config.json to its layers.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ._memory_keys import Config, flag, number, positive, words
from ._memory_model import Layer, Mixer, Mlp

Family = t.Callable[[Config], "list[Layer]"]
KINDS = {
    "full_attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "state",
    "mamba": "state",
    "attention": "full",
}
TIED = ("gemma", "gemma2", "gemma3", "gemma3_text", "cohere", "cohere2")


def attention(text: Config, kind: str = "full", **more: t.Any) -> Mixer:
    """Attention with the usual keys."""
    heads = positive(text, "num_attention_heads")
    head_dim = positive(text, "head_dim", default=positive(text, "hidden_size") // heads)
    window = {"sliding": "sliding_window", "chunked": "attention_chunk_size"}.get(kind)
    mixer = Mixer(
        kind=t.cast("t.Any", kind),
        heads=heads,
        kv_heads=positive(text, "num_key_value_heads", default=heads),
        head_dim=head_dim,
        head_dim_v=head_dim,
        window=positive(text, window) if window else 0,
        bias_qkv=flag(text, "attention_bias") or flag(text, "qkv_bias"),
        bias_out=flag(text, "attention_bias"),
    )
    return replace(mixer, **more)


def kinds(text: Config, default: t.Callable[[int], str] = lambda index: "full") -> list[str]:
    count = positive(text, "num_hidden_layers")
    return words(text, "layer_types", count, KINDS) or [default(index) for index in range(count)]


def _uniform(
    text: Config, mlp: Mlp, norms: int = 2, *, sliding: t.Callable[[int], bool] = lambda index: False, **more: t.Any
) -> list[Layer]:
    which = kinds(text, lambda index: "sliding" if sliding(index) else "full")
    mixers = {kind: attention(text, kind, **more) for kind in sorted(set(which))}
    return [Layer(mixers[kind], mlp, norms) for kind in which]


def dense(text: Config) -> list[Layer]:
    """Llama and what is built like it."""
    return _uniform(text, Mlp(ffn=positive(text, "intermediate_size"), bias=flag(text, "mlp_bias")))


def mistral(text: Config) -> list[Layer]:
    window = number(text, "sliding_window") > 0
    return _uniform(text, Mlp(ffn=positive(text, "intermediate_size")), sliding=lambda index: window)


def qwen2(text: Config) -> list[Layer]:
    return _uniform(_qwen_window(text), Mlp(ffn=positive(text, "intermediate_size")), bias_qkv=True)


def qwen3(text: Config) -> list[Layer]:
    norm = 2 * positive(text, "head_dim", default=128)
    return _uniform(_qwen_window(text), Mlp(ffn=positive(text, "intermediate_size")), qk_norm=norm)


def _qwen_window(text: Config) -> Config:
    """Newer files spell out layer_types even where no window is used."""
    return text if flag(text, "use_sliding_window") else {key: value for key, value in text.items() if key != "layer_types"}


def experts(text: Config, **more: t.Any) -> Mlp:
    experts = positive(text, "num_experts", "n_routed_experts", "num_local_experts")
    ffn = positive(text, "moe_intermediate_size", "intermediate_size")
    return replace(Mlp(experts=experts, expert_ffn=ffn, top_k=positive(text, "num_experts_per_tok", default=1)), **more)


def qwen_moe(text: Config) -> list[Layer]:
    shared = number(text, "shared_expert_intermediate_size")
    qk_norm = 0 if text.get("model_type") == "qwen2_moe" else 2 * positive(text, "head_dim", default=128)
    sparse, dense_mlp = experts(text, shared_ffn=shared, shared_gate=shared > 0), Mlp(ffn=positive(text, "intermediate_size"))
    step, plain = positive(text, "decoder_sparse_step", default=1), set(text.get("mlp_only_layers") or ())
    biased = text.get("model_type") == "qwen2_moe" or flag(text, "attention_bias")
    base = _uniform(_qwen_window(text), sparse, qk_norm=qk_norm, bias_qkv=biased)
    return [replace(layer, mlp=dense_mlp) if index in plain or (index + 1) % step else layer for index, layer in enumerate(base)]


def mixtral(text: Config) -> list[Layer]:
    return _uniform(text, experts(text), sliding=lambda index: number(text, "sliding_window") > 0)


def gpt_oss(text: Config) -> list[Layer]:
    more = {"sinks": True, "bias_qkv": True, "bias_out": True}
    return _uniform(text, experts(text, router_bias=True, expert_bias=True), sliding=lambda index: index % 2 == 0, **more)


def gemma(text: Config) -> list[Layer]:
    return _uniform(text, Mlp(ffn=positive(text, "intermediate_size")))


def gemma2(text: Config) -> list[Layer]:
    return _uniform(text, Mlp(ffn=positive(text, "intermediate_size")), 4, sliding=lambda index: index % 2 == 0)


def gemma3(text: Config) -> list[Layer]:
    pattern = positive(text, "sliding_window_pattern", default=6)
    qk_norm = 2 * positive(text, "head_dim", default=256)
    full = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, **text}  # the family's own defaults
    return _uniform(full, Mlp(ffn=positive(text, "intermediate_size")), 4, sliding=lambda index: (index + 1) % pattern > 0, qk_norm=qk_norm)


def glm4_moe(text: Config) -> list[Layer]:
    qk_norm = 2 * positive(text, "head_dim", default=128) if flag(text, "use_qk_norm") else 0
    return _first_dense(text, attention(text, bias_out=False, qk_norm=qk_norm))


def deepseek(text: Config) -> list[Layer]:
    rank = positive(text, "kv_lora_rank")
    rope, nope, value = positive(text, "qk_rope_head_dim"), positive(text, "qk_nope_head_dim"), positive(text, "v_head_dim")
    heads = positive(text, "num_attention_heads")
    mixer = Mixer("mla", heads, 1, rope + nope, value, kv_rank=rank, q_rank=number(text, "q_lora_rank"), rope_dim=rope, nope_dim=nope)
    return _first_dense(text, mixer) if text.get("n_routed_experts") else _uniform_mixer(text, mixer)


def _uniform_mixer(text: Config, mixer: Mixer) -> list[Layer]:
    return [Layer(mixer, Mlp(ffn=positive(text, "intermediate_size")))] * positive(text, "num_hidden_layers")


def _first_dense(text: Config, mixer: Mixer) -> list[Layer]:
    """The first layers dense, then experts with shared ones."""
    bias = text.get("topk_method") == "noaux_tc" or text.get("model_type") == "glm4_moe"
    shared = number(text, "n_shared_experts") * positive(text, "moe_intermediate_size")
    sparse, plain = experts(text, shared_ffn=shared, router_bias=bias), Mlp(ffn=positive(text, "intermediate_size"))
    first, step = number(text, "first_k_dense_replace"), positive(text, "moe_layer_freq", default=1)
    count = positive(text, "num_hidden_layers")
    return [Layer(mixer, sparse if index >= first and index % step == 0 else plain) for index in range(count)]


def llama4(text: Config) -> list[Layer]:
    every, step = positive(text, "no_rope_layer_interval", default=4), positive(text, "interleave_moe_layer_step", default=1)
    chunked = number(text, "attention_chunk_size") > 0
    which = kinds(text, lambda index: "chunked" if chunked and (index + 1) % every else "full")
    ffn = positive(text, "intermediate_size")
    sparse, plain = (
        experts({**text, "moe_intermediate_size": ffn}, shared_ffn=ffn),
        Mlp(ffn=positive(text, "intermediate_size_mlp", default=ffn)),
    )
    return [Layer(attention(text, kind), plain if (index + 1) % step else sparse) for index, kind in enumerate(which)]


FAMILIES: dict[str, Family] = {
    "llama": dense,
    "granite": dense,
    "phi3": mistral,
    "mistral": mistral,
    "ministral": mistral,
    "qwen2": qwen2,
    "qwen3": qwen3,
    "qwen2_moe": qwen_moe,
    "qwen3_moe": qwen_moe,
    "qwen3_vl_text": qwen3,
    "qwen2_5_vl_text": qwen2,
    "qwen2_vl": qwen2,
    "qwen2_5_vl": qwen2,
    "qwen3_vl_moe_text": qwen_moe,
    "mixtral": mixtral,
    "gpt_oss": gpt_oss,
    "gemma": gemma,
    "gemma2": gemma2,
    "gemma3": gemma3,
    "gemma3_text": gemma3,
    "glm4_moe": glm4_moe,
    "deepseek_v2": deepseek,
    "deepseek_v3": deepseek,
    "kimi_k2": deepseek,
    "llama4": llama4,
    "llama4_text": llama4,
}
