# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A config.json that cannot be used is an error that names the key; nothing ends in a traceback."""

from __future__ import annotations

import contextlib
import random
import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_plan_input import choose_gpus, model_of
from ansible_collections.gpufleet.inference.plugins.plugin_utils._memory_config import shape_of
from ansible_collections.gpufleet.inference.plugins.plugin_utils._memory_model import ShapeError

from .conftest import MODELS

LLAMA = MODELS["llama-3.1-8b"]["config"]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"hidden_size": "4096"}, "hidden_size"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_key_value_heads": 5}, "num_key_value_heads"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types"),
        ({"torch_dtype": "int7"}, "torch_dtype"),
        ({"quantization_config": "fp8"}, "quantization_config"),
    ],
)
def test_wrong_values_name_their_key(changes: dict[str, t.Any], key: str) -> None:
    with pytest.raises(ShapeError) as error:
        shape_of({**LLAMA, **changes})
    assert error.value.key == key
    assert key in str(error.value)
    assert not error.value.unknown


@pytest.mark.parametrize(
    "changes",
    [{"model_type": "mystery"}, {"quantization_config": {"quant_method": "zip"}}, {"layer_types": ["time_travel"] * 32}],
)
def test_what_the_planner_does_not_know_is_another_thing(changes: dict[str, t.Any]) -> None:
    with pytest.raises(ShapeError) as error:
        shape_of({**LLAMA, **changes})
    assert error.value.unknown


def test_unknown_architectures_follow_the_policy() -> None:
    info = {"path": "/m", "config": {**LLAMA, "model_type": "mystery", "architectures": ["MysteryForCausalLM"]}, "weights": None}
    shape, (finding,) = model_of(info, "block")
    assert shape is None
    assert finding.severity == "block"
    shape, (finding,) = model_of(info, "warn")
    assert shape is not None
    assert (finding.id, finding.severity) == ("engine.plan_model_unknown", "warn")


def test_files_that_do_not_belong_to_the_config_are_said_and_followed() -> None:
    whole = 16060522496
    shape, findings = model_of({"path": "/m", "config": LLAMA, "weights": {"loaded_bytes": whole}}, "block")
    assert shape
    assert findings == []
    shape, (finding,) = model_of({"path": "/m", "config": LLAMA, "weights": {"loaded_bytes": whole // 2}}, "block")
    assert shape
    assert shape.weights_bytes == whole // 2
    assert finding.id == "engine.plan_files"


@pytest.mark.parametrize("name", list(MODELS))
def test_odd_values_anywhere_are_an_error_and_no_traceback(name: str) -> None:
    rng, config = random.Random(name), MODELS[name]["config"]
    odd = [None, -1, 0, 1.5, "x", [], {}, True, 1 << 70, [None], {"a": 1}]
    for _attempt in range(200):
        broken = {**config, rng.choice(list(config)): rng.choice(odd)}
        if broken.get("text_config") and isinstance(broken["text_config"], dict):
            broken["text_config"] = {**broken["text_config"], rng.choice(list(broken["text_config"])): rng.choice(odd)}
        with contextlib.suppress(ShapeError):
            shape_of(broken)


def test_gpus_by_index_and_uuid_and_those_that_are_not_there() -> None:
    memory = {"total": 1 << 36, "reserved": 1 << 29, "free": 1 << 35, "used": 5}
    gpus = [{"index": n, "uuid": f"GPU-{n}", "product": "NVIDIA H200", "compute_capability": "9.0", "memory_bytes": memory} for n in (0, 1)]
    facts = {"gpus": gpus, "reason": ""}
    assert [gpu.uuid for gpu in choose_gpus(facts, [], True)[0]] == ["GPU-0", "GPU-1"]
    assert [gpu.uuid for gpu in choose_gpus(facts, ["GPU-1"], True)[0]] == ["GPU-1"]
    assert [gpu.used for gpu in choose_gpus(facts, ["0"], False)[0]] == [0]
    _none, (finding,) = choose_gpus(facts, ["7"], True)
    assert "GPU-1" in finding.message
    _none, (finding,) = choose_gpus({"gpus": [], "reason": "the driver does not answer"}, [], True)
    assert "the driver does not answer" in finding.message
    blind = {"gpus": [{**gpus[0], "memory_bytes": None, "state": "lost"}], "reason": ""}
    assert "lost" in choose_gpus(blind, ["0"], True)[1][0].message
