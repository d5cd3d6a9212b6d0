# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""config.json of Hugging Face → ModelShape. Pure.

Private to the collection. Families differ in names and in what each layer is, hardly in more: the common reading stands here,
what is particular in _memory_families.py.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from . import _memory_families as families
from . import _memory_hybrids as hybrids
from ._memory_keys import Config, bytes_of, flag, number, positive, rope_bytes
from ._memory_model import STATEFUL, Layer, ModelShape, ShapeError
from ._memory_quant import quant_of

FAMILIES = {**families.FAMILIES, **hybrids.FAMILIES}


def shape_of(config: t.Any, *, weights_bytes: int | None = None, guess: bool = False) -> ModelShape:
    """Raises ShapeError. guess: an unknown architecture is read as a dense one instead of being refused."""
    if not isinstance(config, dict):
        raise ShapeError(f"config.json holds {type(config).__name__}; expected a mapping")
    try:
        return _shape(config, weights_bytes, guess)
    except ShapeError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise ShapeError(f"config.json has a value of a type that does not fit its key: {error}") from error


def _shape(config: dict[str, t.Any], weights_bytes: int | None, guess: bool) -> ModelShape:
    text = config.get("text_config") or config.get("llm_config") or config.get("language_config") or config
    if not isinstance(text, dict):
        raise ShapeError("config.json: text_config is no mapping", key="text_config")
    inherited = ("quantization_config", "compression_config", "torch_dtype", "dtype", "tie_word_embeddings")
    text = {**{name: config[name] for name in inherited if name in config}, **text}
    model_type = str(text.get("model_type") or config.get("model_type") or "")
    architecture = str((config.get("architectures") or text.get("architectures") or [""])[0])
    family = FAMILIES.get(model_type)
    if family is None:
        if not guess:
            raise ShapeError(
                f"config.json: model_type is {model_type!r} ({architecture or 'no architecture'}), which the planner does not know; "
                f"known: {', '.join(sorted(FAMILIES))}",
                key="model_type",
                unknown=True,
            )
        family = families.dense
    layers = family(text)
    hidden, heads = positive(text, "hidden_size"), number(text, "num_attention_heads")
    shape = ModelShape(
        architecture=architecture,
        model_type=model_type,
        hidden=hidden,
        vocab=positive(text, "vocab_size"),
        layers=tuple(layers),
        max_len=positive(text, "max_position_embeddings", "max_sequence_length", "model_max_length", default=2048),
        tied=flag(text, "tie_word_embeddings", model_type in families.TIED),
        dtype_bytes=bytes_of(text),
        quant=quant_of(text, len(layers)),
        gelu="gelu" in str(text.get("hidden_activation") or text.get("hidden_act") or ""),
        vision_parameters=_vision(config.get("vision_config"), hidden),
        rope_bytes=_rope(text, hidden // heads if heads else 0, layers),
        weights_bytes=weights_bytes,
    )
    _consistent(shape)
    return shape


def _rope(text: Config, width: int, layers: t.Sequence[Layer]) -> int:
    mixers = [layer.mixer for layer in layers if layer.mixer is not None and layer.mixer.kind not in STATEFUL]
    if not mixers or text.get("position_embedding_type") == "nope" or text.get("model_type") in ("nemotron_h", "jamba"):
        return 0
    dim = mixers[0].rope_dim or int((mixers[0].head_dim or width) * float(text.get("partial_rotary_factor") or 1))
    places = positive(text, "max_position_embeddings", default=2048)
    both = text.get("rope_local_base_freq") is not None  # sliding layers have a table of their own, unscaled
    return rope_bytes(text, dim, places) + (places * dim * 2 if both else 0)


def _vision(section: t.Any, hidden: int) -> int:
    """Parameters of an image tower: a transformer with four square matrices and a two-layer MLP, and a projector."""
    if not isinstance(section, dict):
        return 0
    width, layers = (
        number(section, "hidden_size") or number(section, "embed_dim"),
        number(section, "num_hidden_layers") or number(section, "depth"),
    )
    if not width or not layers:
        return 0
    ffn = number(section, "intermediate_size") or 4 * width
    patch, places = (
        number(section, "patch_size", 14),
        (number(section, "image_size", 448) // max(1, number(section, "patch_size", 14))) ** 2,
    )
    block = 4 * width * width + 2 * width * ffn + 9 * width + ffn
    return layers * block + 3 * patch * patch * width + places * width + width * hidden + 2 * width


def _consistent(shape: ModelShape) -> None:
    """What cannot be: shapes that no engine could load."""
    for mixer in shape.mixers:
        if mixer.kind in STATEFUL or mixer.kind == "mla":
            continue
        if mixer.heads % mixer.kv_heads:
            raise ShapeError(
                f"config.json: num_attention_heads {mixer.heads} is no multiple of num_key_value_heads {mixer.kv_heads}",
                key="num_key_value_heads",
            )
    if not shape.mixers:
        raise ShapeError("config.json describes no layer that reads its context", key="num_hidden_layers")


def with_quant(shape: ModelShape, quant: t.Any) -> ModelShape:
    """The same model in another quantization, as its config alone would say."""
    return replace(shape, quant=quant, weights_bytes=None)
