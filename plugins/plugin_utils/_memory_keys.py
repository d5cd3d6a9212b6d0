# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading single keys of a config.json, with messages that name the key. Pure. Private to the collection."""

from __future__ import annotations

import typing as t

from ._memory_model import ShapeError

Config = t.Mapping[str, t.Any]
_MAX = 1 << 40
_BYTES = {"bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4, "float8_e4m3fn": 1}


def positive(config: Config, *names: str, default: int | None = None) -> int:
    """The first of these keys that is set, as a whole number above 0."""
    for name in names:
        value = config.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < _MAX:
            raise ShapeError(f"config.json: {name} is {value!r}; expected a whole number above 0", key=name)
        return value
    if default is None:
        raise ShapeError(f"config.json has no {' or '.join(names)}; expected a whole number above 0", key=names[0])
    return default


def number(config: Config, name: str, default: int = 0) -> int:
    """A whole number of 0 or more; absent or null: the default."""
    value = config.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MAX:
        raise ShapeError(f"config.json: {name} is {value!r}; expected a whole number", key=name)
    return value


def flag(config: Config, name: str, default: bool = False) -> bool:
    value = config.get(name)
    return default if value is None else bool(value)


def words(config: Config, name: str, count: int, known: t.Mapping[str, str]) -> list[str] | None:
    """A list with one word a layer, in our words; None where the key is absent."""
    value = config.get(name)
    if value is None:
        return None
    if not isinstance(value, (list, tuple, str)):
        raise ShapeError(f"config.json: {name} is {value!r}; expected a list with one entry for each layer", key=name)
    if count and len(value) != count:
        message = f"config.json: {name} has {len(value)} entries and num_hidden_layers is {count}; expected as many entries as layers"
        raise ShapeError(message, key=name)
    strange = sorted({str(word) for word in value if str(word) not in known})
    if strange:
        raise ShapeError(f"config.json: {name} has {', '.join(strange)}; known: {', '.join(known)}", key=name, unknown=True)
    return [known[str(word)] for word in value]


def bytes_of(config: Config) -> int:
    """Bytes of one number in the model's own type. Engines load float32 checkpoints as bfloat16."""
    name = str(config.get("dtype") or config.get("torch_dtype") or "bfloat16").rpartition(".")[2]
    if name not in _BYTES:
        raise ShapeError(f"config.json: torch_dtype is {name!r}; known: {', '.join(_BYTES)}", key="torch_dtype")
    return 2


def rope_bytes(config: Config, dim: int, places: int) -> int:
    """The table of sines and cosines. Linear scaling stretches it, llama3 and yarn count from the model's own length."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = str(scaling.get("rope_type") or scaling.get("type") or "") if isinstance(scaling, dict) else ""
    factor = float(scaling.get("factor") or 1) if kind in ("linear", "dynamic") else 1.0
    return int(places * factor) * dim * 2
