# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""trtllm_engine as Ansible runs it, on simulated GPUs: gate, plan and refusals. Building needs systemd: the lab has it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from test_modules_run import OLDEST, SYSTEM_PYTHON, Play, play  # noqa: F401 - a fixture

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lab/standin"))
import trtllm_build as standin

ENGINE = "gpufleet.inference.trtllm_engine"


def made(host: Any, folder: Path) -> dict[str, Any]:
    import pynvml

    standin.make_venv(folder / "venv", {}, {"tensorrt_llm": "1.2.1", "tensorrt": "10.14.1", "cuda": "13.1"})
    nvml = {"nvml_library": host.options.library, "python_path": str(Path(pynvml.__file__).parent), "nvml_timeout": 30}
    places = {"store": str(folder / "store"), "venv": str(folder / "venv")}
    return {"name": "llama", "checkpoint": str(standin.checkpoint(folder / "checkpoint", tensor=2)), "version": "1.2.1", **places, **nvml}


@pytest.fixture
def options(machine: Any, tmp_path: Path) -> dict[str, Any]:
    return made(machine("h200x2"), tmp_path)


@pytest.mark.parametrize("python", [SYSTEM_PYTHON, *map(str, OLDEST)])
def test_check_mode_says_what_would_be_built_and_why(play: Play, options: dict[str, Any], python: str) -> None:  # noqa: F811
    (found,) = play({ENGINE: {**options, "args": {"gemm_plugin": "auto", "max_batch_size": 8}}, "diff": True}, python=python, check=True)
    assert found["changed"] is True
    assert found["differs"] == ["there is no engine yet"]
    stamp = found["stamp"]
    assert (stamp["compute_capability"], stamp["tensor_parallel"], stamp["arguments"]) == (
        "9.0",
        2,
        ["--gemm_plugin auto", "--max_batch_size 8"],
    )
    assert "tensorrt_llm: 1.2.1\n" in found["diff"]["after"]
    assert not Path(options["store"]).exists()


def test_gpus_of_two_models_are_refused_and_one_of_them_is_not(play: Play, machine: Any, tmp_path: Path) -> None:  # noqa: F811
    mixed = made(machine("mixed"), tmp_path)
    both, one = play({ENGINE: mixed}, {ENGINE: {**mixed, "gpus": ["0"]}}, check=True)
    assert "gpus are of several models: NVIDIA GeForce" in both["msg"]
    assert one["stamp"]["gpu"] == "NVIDIA L40S"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"version": "1.4.0rc1"}, "serve the Hugging Face checkpoint with trtllm-serve"),
    ({"args": {"max_output_len": 5}}, "Instead: --max_seq_len"),
    ({"args": 5}, "expected a mapping such as"),
    ({"version": "1.2.0"}, "has TensorRT-LLM 1.2.1"),
    ({"checkpoint": "/nonexistent"}, "expected a TensorRT-LLM checkpoint"),
    ({"gpus": ["7"]}, "gpus names '7'; this host has 0 (GPU-"),
    ({"tensor_parallel": 4}, "convert it again with --tp_size 4"),
    ({"venv": "/nonexistent"}, "has no Python on this host"),
    ({"image": "x"}, "goes with runtime docker or podman"),
    ({"runtime": "docker", "image": "nowhere/trtllm:1"}, "on this host"),
    ({"name": "../x"}, "expected letters, digits"),
    ({"keep": -1}, "expected 0 to 100"),
    ({"reserve": 1 << 50}, "short"),
    ({"nvml_library": "/nonexistent"}, "NVML does not answer"),
    ({"unknown": "maybe"}, "value of unknown must be one of"),
    ({"matrix_overlay": ["/nonexistent.yml"]}, "cannot be read"),
]


def test_bad_input_is_named_without_a_traceback(play: Play, options: dict[str, Any]) -> None:  # noqa: F811
    results = play(*({ENGINE: {**options, **over}} for over, _text in REFUSED), {ENGINE: {"name": "x"}}, check=True)
    for result, (over, text) in zip(results, REFUSED):
        assert result["failed"] is True, over
        assert text in result["msg"], (over, result["msg"])
        assert "Traceback" not in result["msg"] + str(result.get("exception", "")), over
    assert "checkpoint, version" in results[-1]["msg"]


def test_absent_takes_away_all_of_an_engine_once(play: Play, options: dict[str, Any]) -> None:  # noqa: F811
    (Path(options["store"]) / "llama/snapshots/1.2.1-abc").mkdir(parents=True)
    gone = {ENGINE: {"name": "llama", "store": options["store"], "state": "absent"}}
    (foreseen,) = play(gone, check=True)
    first, second = play(gone, gone)
    assert [result["changed"] for result in (foreseen, first, second)] == [True, True, False]
    assert not (Path(options["store"]) / "llama").exists()
