# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running engine against its plan, by the text of its metrics."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._cache_metrics import cache_of
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_plan_check import compare, measured_parts

from .conftest import h200, model, planned

TOTAL = h200()[0].total


def metrics(tokens: int, **more: t.Any) -> str:
    labels = {
        "block_size": "16",
        "cache_dtype": "auto",
        "gpu_memory_utilization": "0.92",
        "num_gpu_blocks": tokens // 16,
        "engine": "0",
        **more,
    }
    text = ",".join(f'{name}="{value}"' for name, value in {**labels, "kv_cache_size_tokens": tokens}.items())
    return f'# HELP vllm:cache_config_info x\n# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{{text}}} 1.0\nother{{a="b"}} 2\n'


@pytest.fixture
def plan() -> dict[str, t.Any]:
    return planned(model("llama-3.1-8b"), h200(), memory_fraction=0.92, max_model_len=32768).to_dict()


def test_what_was_planned_is_silent(plan: dict[str, t.Any]) -> None:
    assert compare(plan, metrics(919824), TOTAL) == []  # as a real one printed it


@pytest.mark.parametrize(("share", "words"), [(0.9, "less"), (1.1, "more")])
def test_another_size_is_said_with_both_figures(plan: dict[str, t.Any], share: float, words: str) -> None:
    tokens = int(plan["predicted"]["kv_tokens"] * share)
    (finding,) = compare(plan, metrics(tokens), TOTAL)
    assert finding.id == "engine.plan_cache"
    assert words in finding.message
    assert str(tokens) in finding.message


def test_a_small_cache_may_be_off_by_more(plan: dict[str, t.Any]) -> None:
    small = {**plan, "predicted": {**plan["predicted"], "kv_tokens": 10000, "kv_bytes": TOTAL // 20}}
    assert compare(small, metrics(9000), TOTAL) == []


def test_other_arguments_are_named(plan: dict[str, t.Any]) -> None:
    found = compare(plan, metrics(919824, gpu_memory_utilization="0.5", cache_dtype="fp8"), TOTAL)
    assert sorted(finding.subject or "" for finding in found) == ["kv_cache_dtype", "memory_fraction"]


def test_no_metric_is_said(plan: dict[str, t.Any]) -> None:
    (finding,) = compare(plan, "nothing here\n", TOTAL)
    assert finding.id == "engine.plan_unseen"


def test_the_smallest_of_several_engines_counts() -> None:
    cache = cache_of(metrics(500, engine="0") + metrics(400, engine="1"))
    assert cache
    assert cache["labels"]["engine"] == "1"


def test_a_correction_brings_the_next_plan_to_what_was_seen(plan: dict[str, t.Any]) -> None:
    from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_plan import plan as make
    from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_plan_rows import constants_for
    from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_plan_types import Wish
    from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix

    seen = int(plan["predicted"]["kv_tokens"] * 0.9) // 16 * 16
    cache = cache_of(metrics(seen))
    assert cache
    own = constants_for(load_matrix(), "vllm", "0.26.0", measured_parts(cache, plan))
    again = make(model("llama-3.1-8b"), h200(), Wish("vllm", "0.26.0", memory_fraction=0.92, max_model_len=32768), own)
    assert again.predicted
    assert again.predicted.kv_tokens == pytest.approx(seen, rel=1e-4)


OTHERS: list[tuple[str, str, int, str]] = [
    ("sglang", 'sglang:max_total_num_tokens{model_name="m",tp_rank="0"} 2.022119e+06\n', 2022119, "sglang:max_total_num_tokens"),
    ("sglang", 'sglang:cache_config_info{page_size="16",num_pages="1000"} 1.0\n', 16000, "sglang:cache_config_info"),
    (
        "tensorrt_llm",
        'trtllm_kv_cache_max_blocks{model_name="m"} 1000\ntrtllm_kv_cache_tokens_per_block{model_name="m"} 32.0\n',
        32000,
        "trtllm_kv_cache_max_blocks",
    ),
    ("tensorrt_llm", '[{"iter": 1}, {"iter": 2, "kvCacheStats": {"maxNumBlocks": 10, "tokensPerBlock": 32}}]', 320, "kvCacheStats"),
    (
        "vllm",
        'vllm:cache_config_info{block_size="16",num_gpu_blocks="100",kv_cache_size_tokens="None"} 1.0\n',
        1600,
        "vllm:cache_config_info",
    ),
]


@pytest.mark.parametrize(("engine", "text", "tokens", "metric"), OTHERS, ids=[f"{row[0]} {row[3]}" for row in OTHERS])
def test_each_engine_is_read_in_its_own_way(engine: str, text: str, tokens: int, metric: str) -> None:
    cache = cache_of("# HELP x y\n" + text if not text.startswith("[") else text)
    assert cache
    assert (cache["engine"], cache["tokens"], cache["metric"]) == (engine, tokens, metric)


def test_a_gauge_that_is_newer_wins_over_the_labels_of_old(plan: dict[str, t.Any]) -> None:
    text = 'sglang:cache_config_info{page_size="1",num_pages="5"} 1.0\nsglang:max_total_num_tokens{tp_rank="0"} 500\n'
    cache = cache_of(text)
    assert cache
    assert cache["tokens"] == 500
    (finding,) = compare(plan, text, TOTAL)
    assert finding.source == "metric sglang:max_total_num_tokens of the running engine"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "[1]", "trtllm_kv_cache_max_blocks 5\n", "sglang:max_total_num_tokens NaN\n", "vllm:cache_config_info{} 1\n"]
)
def test_metrics_that_do_not_say_are_a_finding(plan: dict[str, t.Any], text: str) -> None:
    assert [finding.id for finding in compare(plan, text, TOTAL)] == ["engine.plan_unseen"]
