# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""engine_plan and model_info as Ansible runs them, on a simulated machine: one pass from files and NVML to a plan."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_modules_run import Play, play  # noqa: F401 - a fixture

MODELS = yaml.safe_load((Path(__file__).resolve().parents[1] / "engine_plan/models.yml").read_text())
PLAN, INFO = "gpufleet.inference.engine_plan", "gpufleet.inference.model_info"


@pytest.fixture
def options(machine: Any) -> dict[str, Any]:
    import pynvml

    host = machine("h200x2")
    roots = {"sysfs_root": str(host.root / "sys"), "procfs_root": str(host.root / "proc")}
    nvml = {"nvml_library": host.options.library, "python_path": str(Path(pynvml.__file__).parent), "nvml_timeout": 30}
    return {"engine": "vllm", "version": "0.26.0", **roots, **nvml}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with its configuration and one small file of weights."""
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(MODELS["qwen2.5-0.5b"]["config"]))
    header = json.dumps({"a": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}).encode()
    (path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    return path


def test_a_plan_from_files_and_gpus(play: Play, options: dict[str, Any], folder: Path) -> None:  # noqa: F811
    config = MODELS["llama-3.1-70b"]["config"]
    whole, one, again = play(
        {PLAN: {**options, "config": config, "workload": "throughput"}},
        {PLAN: {**options, "config": config, "gpus": ["1"], "max_model_len": 131072}},
        {PLAN: {**options, "model": str(folder)}},
        check=True,
    )
    assert whole["failed"] is False
    assert whole["changed"] is False
    assert whole["plan"]["args"]["tensor_parallel_size"] == 2
    assert whole["advice"]["engines"][0] == "tensorrt_llm"
    assert one["failed"] is True
    assert "does not fit 1 x NVIDIA H200" in one["msg"]
    assert "Any of these fits: " in one["msg"]
    assert one["plan"]["alternatives"]
    assert again["plan"]["fits"] is True
    assert [finding["id"] for finding in again["plan"]["findings"]] == ["engine.plan_files"]  # eight bytes of weights
    assert "ansible_facts" in whole
    assert "ansible_facts" not in again


def test_a_running_engine_is_compared_with_its_plan(play: Play, options: dict[str, Any]) -> None:  # noqa: F811
    wish = {**options, "config": MODELS["llama-3.1-8b"]["config"], "gpus": ["0"], "memory_fraction": 0.92, "count_used": False}
    good, less, silent, wrong = play(
        {
            PLAN: {
                **wish,
                "cache": {"engine": "vllm", "metric": "vllm:cache_config_info", "tokens": 919824, "labels": {"cache_dtype": "auto"}},
            }
        },
        {PLAN: {**wish, "cache": {"tokens": 500000, "labels": {}}}},
        {PLAN: {**wish, "metrics": "nothing 1\n"}},
        {PLAN: {**wish, "cache": {"tokens": "many"}}},
    )
    assert [finding["id"] for finding in good["plan"]["findings"]] == []
    assert [finding["id"] for finding in less["plan"]["findings"]] == ["engine.plan_cache"]
    assert less["failed"] is False
    assert [finding["id"] for finding in silent["plan"]["findings"]] == ["engine.plan_unseen"]
    assert "expected what endpoint_check returns" in wrong["msg"]


def test_broken_input_is_named(play: Play, options: dict[str, Any], folder: Path) -> None:  # noqa: F811
    config = MODELS["llama-3.1-8b"]["config"]
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(20)
    results = play(
        {PLAN: {**options, "model": str(folder / "nowhere")}},
        {PLAN: {**options, "model": str(folder)}},
        {INFO: {"path": str(folder)}},
        {PLAN: {**options, "config": {**config, "model_type": "mystery"}}},
        {PLAN: {**options, "config": {**config, "hidden_size": "wide"}}},
        {PLAN: {**options, "config": config, "gpus": ["9"]}},
        {PLAN: {**options, "config": config, "kv_cache_dtype": "fp16"}},
        {PLAN: {**options, "config": config, "model": "/both"}},
        {PLAN: {**options}},
        {PLAN: {**options, "config": {**config, "model_type": "mystery"}, "unknown": "warn"}},
    )
    words = [
        "does not exist", "is truncated", "is truncated", "model_type is 'mystery'", "hidden_size is 'wide'", "gpus is '9'",
        "kv_cache_dtype is 'fp16'", "mutually exclusive", "one of the following is required",
    ]  # fmt: skip
    for result, text in zip(results, words, strict=False):
        assert result["failed"] is True
        assert text in result["msg"]
    assert results[-1]["failed"] is False
    assert results[-1]["plan"]["findings"][0]["severity"] == "warn"
