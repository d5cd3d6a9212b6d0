# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the planner decides, says and proposes."""

from __future__ import annotations

import json
import typing as t
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from referencing import Registry, Resource

from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_plan_advice import WORKLOADS, advise
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_plan_parallel import obstacles
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_plan_rows import constants_for, too_old
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_plan_types import EnginePlan
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._memory_config import with_quant
from ansible_collections.gpufleet.inference.plugins.plugin_utils._memory_quant import with_bits
from ansible_collections.gpufleet.inference.plugins.plugin_utils._memory_weights import Parallel

from .conftest import SGLANG, TENSORRT, h100, h200, l4, model, planned

SCHEMAS = Path(__file__).resolve().parents[3] / "schemas"


def valid(plan: EnginePlan) -> EnginePlan:
    """The plan, once its JSON form has passed the schema."""
    documents = {name: json.loads((SCHEMAS / name).read_text()) for name in ("engine_plan.schema.json", "finding.schema.json")}
    plan_schema = {**documents["engine_plan.schema.json"], "$id": "engine_plan.schema.json"}
    registry: t.Any = Registry().with_resource("finding.schema.json", Resource.from_contents(documents["finding.schema.json"]))
    jsonschema.Draft202012Validator(plan_schema, registry=registry).validate(json.loads(json.dumps(plan.to_dict())))
    return plan


def blocks(plan: EnginePlan) -> list[str]:
    return [finding.id for finding in plan.findings if finding.severity == "block"]


def test_every_argument_has_its_reason() -> None:
    for engine, version in (("vllm", "0.33.0"), ("sglang", SGLANG), ("tensorrt_llm", TENSORRT)):
        plan = valid(planned(model("llama-3.1-70b"), h200(8), engine, version, concurrency=64, tokens_per_request=4096))
        assert plan.fits, plan.findings
        assert set(plan.reasons) == set(plan.args)
        assert all(plan.reasons.values())


def test_the_smallest_copy_that_has_room_is_taken_and_the_rest_are_copies() -> None:
    assert planned(model("llama-3.1-8b"), h200(4)).parallel == Parallel(1, 1, 4)
    assert planned(model("llama-3.1-70b"), h100(8)).parallel == Parallel(4, 1, 2)  # on two a copy would hold 45,000 tokens
    assert planned(model("deepseek-v3"), h200(8)).parallel == Parallel(8, 1, 1)


def test_heads_that_do_not_divide_leave_pipeline_stages() -> None:
    plan = planned(model("mixtral-8x7b"), h100(3))
    assert (plan.parallel.tensor, plan.parallel.pipeline) == (1, 3)


@pytest.mark.parametrize(
    ("name", "parallel", "words"),
    [
        ("qwen2.5-7b", Parallel(8), "attention heads 28 is no multiple of 8"),
        ("llama-3.1-8b", Parallel(1, 64), "32 layers are fewer than 64"),
        ("nemotron-nano-9b-v2", Parallel(16), "attention heads 40 is no multiple of 16"),
        ("llama-3.1-8b", Parallel(2, experts=True), "no experts"),
        ("granite-4.0-h-tiny", Parallel(8), "attention heads 12 is no multiple of 8"),
    ],
)
def test_splits_that_engines_refuse(name: str, parallel: Parallel, words: str) -> None:
    assert words in "; ".join(obstacles(model(name), parallel))


def test_fp8_blocks_must_stay_whole() -> None:
    section = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    shape = model("qwen3-30b-a3b", quantization_config=section)  # experts of 768: six blocks
    assert not obstacles(shape, Parallel(2))
    assert "does not hold whole FP8 blocks of 128" in obstacles(shape, Parallel(4))[0]
    assert not obstacles(shape, Parallel(4, experts=True))


def test_what_does_not_fit_names_what_would_and_that_is_true() -> None:
    plan = valid(planned(model("llama-3.1-70b"), h100(1), max_model_len=32768))
    assert not plan.fits
    assert blocks(plan) == ["engine.plan_memory"]
    ways = {way.what: way for way in plan.alternatives}
    assert len(ways) >= 3
    for way in plan.alternatives:
        change = dict(way.change)
        shape = model("llama-3.1-70b")
        if "quantization" in change:
            shape = with_quant(shape, with_bits(change.pop("quantization")))
        gpus = h100(change.pop("gpus", 1))
        wish = {"max_model_len": 32768, "memory_fraction": plan.args["memory_fraction"], "max_num_seqs": plan.args["max_num_seqs"]}
        wish |= {
            "tensor_parallel": change.pop("tensor_parallel_size", None),
            "pipeline_parallel": change.pop("pipeline_parallel_size", None),
        }
        again = planned(shape, gpus, **{**wish, **change})
        assert again.fits, (way.what, again.findings)
        assert again.predicted
        assert again.predicted.kv_tokens == way.kv_tokens
        assert way.what in plan.findings[0].fix


def test_alternatives_know_the_card() -> None:
    """L4 has FP8 units; an A100 has not."""
    a100 = [replace(gpu, name="NVIDIA A100", compute_capability="8.0") for gpu in l4()]
    whats = [" ".join(way.what for way in planned(model("llama-3.1-8b"), gpus, max_model_len=131072).alternatives) for gpus in (l4(), a100)]
    assert "FP8" in whats[0]
    assert "FP8" not in whats[1]
    assert "INT4" in whats[1]


def test_a_shorter_length_is_planned_where_none_was_asked_for() -> None:
    plan = planned(model("llama-3.1-8b"), l4())
    assert plan.fits
    assert 8192 < plan.args["max_model_len"] < 131072
    assert "131072" in plan.reasons["max_model_len"]


def test_the_share_leaves_what_the_engine_takes_beyond_it() -> None:
    for gpus in (h200(), h100(), l4(), h200(1, used=60 << 30)):
        plan = planned(model("llama-3.1-8b"), gpus, max_model_len=4096)
        found = plan.predicted
        assert plan.fits
        assert found
        assert found.requested + found.outside + gpus[0].used <= gpus[0].total


def test_a_share_that_is_too_large_is_said() -> None:
    plan = planned(model("llama-3.1-8b"), h200(), memory_fraction=0.995)
    (finding,) = plan.findings
    assert (finding.id, finding.severity) == ("engine.plan_fraction", "warn")
    assert finding.nearest
    assert not planned(model("llama-3.1-8b"), h200(), memory_fraction=float(finding.nearest)).findings


def test_concurrency_is_held_by_all_copies_together() -> None:
    plan = planned(model("llama-3.1-8b"), h200(4), concurrency=400, tokens_per_request=8000, max_model_len=32768)
    assert plan.fits
    assert plan.predicted
    assert plan.predicted.concurrency * 32768 / 8000 * plan.parallel.data >= 400
    assert plan.args["max_num_seqs"] * plan.parallel.data >= 400
    assert not planned(model("llama-3.1-8b"), h200(1), concurrency=4000, tokens_per_request=8000).fits


@pytest.mark.parametrize(
    ("wish", "subject"),
    [
        ({"kv_cache_dtype": "fp16"}, "kv_cache_dtype"),
        ({"memory_fraction": 1.5}, "memory_fraction"),
        ({"max_model_len": 200000}, "max_model_len"),
        ({"max_num_seqs": 0}, "max_num_seqs"),
        ({"tensor_parallel": -1}, "tensor_parallel"),
    ],
)
def test_wrong_wishes_are_named_with_what_works(wish: dict[str, t.Any], subject: str) -> None:
    plan = valid(planned(model("llama-3.1-8b"), h200(), **wish))
    (finding,) = plan.findings
    assert (finding.severity, finding.subject) == ("block", subject)
    assert str(wish[subject]) in finding.message
    assert finding.nearest


def test_no_gpus_and_mixed_gpus_are_refused() -> None:
    assert blocks(planned(model("llama-3.1-8b"), [])) == ["engine.bad_input"]
    assert "NVIDIA L4" in planned(model("llama-3.1-8b"), h200() + l4()).findings[0].message


def test_a_split_that_cannot_be_names_those_that_can() -> None:
    plan = valid(planned(model("qwen2.5-7b"), h100(8), tensor_parallel=8))
    (finding,) = plan.findings
    assert finding.id == "engine.plan_split"
    assert "4 x 1 x 2" in finding.needed


def test_hybrids_hold_more_states_with_prefix_caching() -> None:
    off, on = (
        planned(model("nemotron-3-nano-30b-a3b"), h200(), version="0.33.0", max_model_len=32768, prefix_caching=value)
        for value in (False, True)
    )
    assert off.predicted
    assert on.predicted
    assert off.predicted.blocks == on.predicted.blocks
    assert off.predicted.concurrency > on.predicted.concurrency


def test_measured_figures_replace_the_rows() -> None:
    matrix = load_matrix()
    own = constants_for(matrix, "vllm", "0.26.0", {"non_torch": 1230})
    assert own.parts["non_torch"] == 1230
    assert own.parts["context"] == constants_for(matrix, "vllm", "0.26.0").parts["context"]


def test_releases_older_than_the_rows_are_said() -> None:
    matrix = load_matrix()
    finding = too_old(matrix, "vllm", "0.8.5")
    assert finding
    assert "0.8.5" in finding.message
    assert too_old(matrix, "vllm", "0.33.0") is None


@pytest.mark.parametrize("workload", WORKLOADS)
def test_advice_has_a_reason_and_knows_the_gpu(workload: str) -> None:
    matrix = load_matrix()
    big, small = (advise(matrix, workload, name, capability) for name, capability in (("NVIDIA H200", "9.0"), ("NVIDIA L4", "8.9")))
    assert big["engines"]
    assert big["reason"]
    if workload == "throughput":
        assert big["engines"][0] == "tensorrt_llm"
        assert "tensorrt_llm" in small["left_out"]
    omni = advise(matrix, workload, "NVIDIA H200", "9.0", "nvidia/Nemotron-3-Nano-Omni-30B-A3B-Reasoning-BF16")
    assert omni["engines"] == ["vllm"]
