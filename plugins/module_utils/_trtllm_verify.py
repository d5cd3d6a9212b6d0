# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether what trtllm-build left is the engine that was asked for. Private to the collection.

It writes config.json, {version, pretrained_config with mapping, build_config}, and one rankN.engine a GPU.
"""

from __future__ import annotations

import os
import typing as t

from ._errors import WorkError
from ._model_hub import ModelError
from ._model_verify import read_json

LIMITS = ("max_batch_size", "max_seq_len", "max_beam_width")
"""Options that config.json repeats in build_config as they were asked; the builder itself lowers max_input_len and max_num_tokens."""
_SMALLEST = 1024
"""Bytes; what is less is no serialized engine."""


def verify(folder: str, stamp: t.Mapping[str, t.Any], words: t.Sequence[t.Sequence[str]]) -> None:
    """WorkError: reason incomplete | wrong."""
    ranks = stamp["tensor_parallel"] * stamp["pipeline_parallel"]
    for rank in range(ranks):
        path = os.path.join(folder, f"rank{rank}.engine")
        size = os.path.getsize(path) if os.path.isfile(path) else 0
        if size < _SMALLEST:
            raise WorkError("incomplete", f"trtllm-build ended well, and rank{rank}.engine of {ranks} has {size} bytes; build again")
    path = os.path.join(folder, "config.json")
    try:
        config = read_json(path)
    except (OSError, ModelError) as exc:
        raise WorkError("incomplete", f"trtllm-build left no usable config.json: {exc}") from exc
    mapping = _part(_part(config, "pretrained_config"), "mapping")
    given = {option[0].lstrip("-"): option[1] for option in words if len(option) == 2}
    asked: dict[str, t.Any] = {"version": stamp["tensorrt_llm"], "tp_size": stamp["tensor_parallel"], "pp_size": stamp["pipeline_parallel"]}
    asked.update({name: given[name] for name in LIMITS if name in given})
    has = {**mapping, **_part(config, "build_config"), "version": config.get("version")}
    for name, value in asked.items():
        if str(has.get(name)).partition("+")[0] != str(value).partition("+")[0]:
            raise WorkError("wrong", f"the engine that trtllm-build made has {name} {has.get(name)}, asked was {value}; it is not used")


def _part(config: t.Mapping[str, t.Any], name: str) -> dict[str, t.Any]:
    value = config.get(name)
    return value if isinstance(value, dict) else {}
