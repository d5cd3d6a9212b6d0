# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parameter counts by shape against those that publishers give, and what a GPU holds of them."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils._memory_weights import (
    Parallel,
    checkpoint_bytes,
    parameters,
    stage_layers,
    weights_of_stage,
)

from .conftest import MODELS, model

INT4 = {"num_bits": 4, "type": "int", "group_size": 128}
EXACT = [name for name, row in MODELS.items() if "parameters" in row]
CARD = [name for name, row in MODELS.items() if "card" in row]


@pytest.mark.parametrize("name", EXACT)
def test_the_count_is_the_published_one(name: str) -> None:
    assert parameters(model(name)) == MODELS[name]["parameters"]


@pytest.mark.parametrize("name", CARD)
def test_the_count_is_what_the_card_rounds_to(name: str) -> None:
    assert parameters(model(name)) / 1e9 == pytest.approx(MODELS[name]["card"], rel=0.01)


@pytest.mark.parametrize(("name", "tensor"), [("llama-3.1-70b", 4), ("qwen3-30b-a3b", 2), ("nemotron-3-nano-30b-a3b", 2)])
def test_slices_add_up_to_the_whole_and_a_little_that_is_copied(name: str, tensor: int) -> None:
    shape = model(name)
    whole, part = weights_of_stage(shape, Parallel(), 0), weights_of_stage(shape, Parallel(tensor), 0)
    assert whole / tensor <= part < whole / tensor * 1.02


def test_kv_heads_are_copied_beyond_their_number() -> None:
    shape = model("qwen2.5-0.5b", num_attention_heads=16, hidden_size=1024)  # 2 KV heads
    four, two = weights_of_stage(shape, Parallel(4), 0), weights_of_stage(shape, Parallel(2), 0)
    keys = 1024 * 2 * 64 * 2 * 24  # one head of K and V in 24 layers, in bf16 twice that
    assert four > two / 2 + keys * 0.4


def test_experts_spread_over_data_parallel_copies() -> None:
    shape = model("qwen3-235b-a22b")
    together, apart = weights_of_stage(shape, Parallel(1, 1, 8, True), 0), weights_of_stage(shape, Parallel(1, 1, 8), 0)
    assert together < apart / 5


@pytest.mark.parametrize(
    ("count", "stages", "sizes"), [(32, 4, [8, 8, 8, 8]), (61, 2, [31, 30]), (61, 4, [15, 15, 16, 15]), (62, 4, [15, 16, 16, 15])]
)
def test_layers_of_stages(count: int, stages: int, sizes: list[int]) -> None:
    spans = [stage_layers(count, stages, stage) for stage in range(stages)]
    assert [last - first for first, last in spans] == sizes
    assert spans[-1][1] == count


def test_a_tied_table_is_held_by_first_and_last_stage() -> None:
    shape = model("gemma-3-12b-text")
    table = 262208 * 3840 * 2
    stages = [weights_of_stage(shape, Parallel(1, 2), stage) for stage in (0, 1)]
    assert sum(stages) == pytest.approx(weights_of_stage(shape, Parallel(), 0) + table, rel=1e-6)


@pytest.mark.parametrize(
    ("section", "gib"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8.46),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 5.34),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 5.62),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": INT4}}}, 5.31),
        ({"quant_method": "fp8", "ignored_layers": [f"model.layers.{n}.self_attn.q_proj" for n in range(32)]}, 9.71),
    ],
)
def test_quantized_weights(section: dict[str, object], gib: float) -> None:
    """Llama-3.1-8B: 6.98e9 of its parameters are in linear layers, the tables stay in 16 bits."""
    assert checkpoint_bytes(model("llama-3.1-8b", quantization_config=section)) / 2**30 == pytest.approx(gib, rel=0.005)
