# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""quantization_config of a checkpoint → bits of a weight and which parts keep 16 bits. Pure. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from ._memory_keys import Config
from ._memory_model import Quant, ShapeError

_PARTS = {
    "attention": ("self_attn", "attention", "attn", "linear_attn"),
    "experts": ("experts",),
    "shared": ("shared_expert",),
    "mlp": ("mlp", "feed_forward"),
    "mamba": ("mixer", "mamba", "linear_attn"),
}
KNOWN = ("fp8", "fbgemm_fp8", "compressed-tensors", "modelopt", "awq", "gptq", "mxfp4", "bitsandbytes")


def quant_of(config: Config, layers: int) -> Quant:
    """Raises ShapeError for a method that is not known."""
    section = config.get("quantization_config") or config.get("compression_config")
    if not section:
        return Quant()
    if not isinstance(section, dict):
        raise ShapeError(f"config.json: quantization_config is {section!r}; expected a mapping", key="quantization_config")
    method = str(section.get("quant_method") or ("modelopt" if section.get("quant_algo") else "")).replace("_", "-")
    method = {"fbgemm-fp8": "fbgemm_fp8", "awq-marlin": "awq", "gptq-marlin": "gptq", "auto-round": "gptq"}.get(method, method)
    kept = _kept(section, layers)
    if method in ("fp8", "fbgemm_fp8"):
        block = section.get("weight_block_size") or [0]
        side = int(block[0])
        return Quant("fp8", 8 + (32 / (side * side) if side else 0), 0, side, kept)
    if method == "mxfp4":  # experts only: the checkpoint's list names what is left
        return Quant(method, 4.25, 32, 0, kept | {"attention", "mlp", "shared"})
    if method in ("awq", "gptq"):
        bits, group = (
            int(section.get("bits") or section.get("w_bit") or 4),
            int(section.get("group_size") or section.get("q_group_size") or 128),
        )
        return Quant(method, bits + ((16 + bits) / group if group > 0 else 0), max(0, group), 0, kept)
    if method == "bitsandbytes":
        four = bool(section.get("load_in_4bit", True))
        return Quant(method, 4.5 if four else 8, 0, 0, kept)
    if method == "compressed-tensors":
        return _compressed(section, kept)
    if method == "modelopt":
        algorithm = str(section.get("quant_algo") or (section.get("quantization") or {}).get("quant_algo") or "FP8").upper()
        cache = section.get("kv_cache_scheme") or section.get("kv_cache_quant_algo")
        narrow = "FP4" in algorithm
        return Quant("nvfp4" if narrow else "fp8", 4.5 if narrow else 8.0, 16 if narrow else 0, 0, kept, "fp8" if cache else "")
    raise ShapeError(
        f"config.json: quantization_config.quant_method is {method!r}; known: {', '.join(KNOWN)}", key="quantization_config", unknown=True
    )


def _compressed(section: Config, kept: frozenset[str]) -> Quant:
    groups = section.get("config_groups") or {}
    weights = next((group.get("weights") for group in groups.values() if isinstance(group, dict) and group.get("weights")), None)
    if not isinstance(weights, dict):
        raise ShapeError("config.json: quantization_config.config_groups describes no weights", key="quantization_config")
    bits, size = int(weights.get("num_bits") or 8), int(weights.get("group_size") or 0)
    block = int((weights.get("block_structure") or [0])[0])
    scale = 8 if bits == 4 and weights.get("type") == "float" else 16  # NVFP4 scales are FP8
    per_weight = bits + (scale / size if size > 0 else 0) + (32 / (block * block) if block else 0)
    name = {(4, "float"): "nvfp4", (8, "float"): "fp8"}.get((bits, str(weights.get("type"))), f"int{bits}")
    return Quant(name, per_weight, max(0, size), block, kept, "fp8" if section.get("kv_cache_scheme") else "")


def _kept(section: Config, layers: int) -> frozenset[str]:
    """Parts that the ignore list covers in (nearly) all layers: by a pattern, by a bare word, or layer by layer."""
    names = [
        str(name) for key in ("ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules") for name in section.get(key) or ()
    ]
    found: dict[str, set[str]] = {}
    for name in names:
        plain = re.sub(r"^re:|[\\^$]", "", name)
        if "gate" in plain and "shared" not in plain and "gate_proj" not in plain:
            continue  # a router: small, and 16 bits in every case
        part = next(
            (part for part in ("shared", "experts", "mamba", "attention", "mlp") if any(word in plain for word in _PARTS[part])), None
        )
        if part:
            number = re.search(r"layers\.(\d+)\.", plain)
            found.setdefault(part, set()).add(number[1] if number else "all")
    return frozenset(part for part, where in found.items() if "all" in where or len(where) * 2 >= max(1, layers))


def with_bits(method: str) -> Quant:
    """A quantization that is only considered: what a model would take in it."""
    return {"fp8": Quant("fp8", 8.0), "nvfp4": Quant("nvfp4", 4.5, 16), "int4": Quant("int4", 4.125, 128)}[method]


def methods_for(compute_capability: t.Optional[str]) -> list[str]:
    """Weight types that a GPU has instructions for, the least loss first."""
    major, _dot, minor = (compute_capability or "0.0").partition(".")
    value = int(major) * 10 + int(minor or 0)
    return (["fp8"] if value >= 89 else []) + (["nvfp4"] if value >= 100 else []) + ["int4"]
