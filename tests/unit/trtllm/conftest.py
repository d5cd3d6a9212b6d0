"""A venv with the stand-in of trtllm-build, a checkpoint, and GPUs that a test may change."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _trtllm_build, _trtllm_wish, _trtllm_work
from ansible_collections.gpufleet.inference.plugins.module_utils._model_layout import Layout
from ansible_collections.gpufleet.inference.plugins.module_utils._trtllm_gpus import Gpus
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_build import words
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_model import Matrix

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lab/standin"))
import trtllm_build as standin
from trtllm_options import options_of

VERSION = "1.2.1"
UUIDS = ("GPU-00000000-0000-0000-0000-000000000001", "GPU-00000000-0000-0000-0000-000000000002")


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    return load_matrix()


class Bench:
    """One engine of one host: `options` is what the module is given, `gpus` what NVML would say."""

    def __init__(self, folder: Path, matrix: Matrix) -> None:
        self.folder, self.matrix, self.gpus = folder, matrix, Gpus("580.95.05", "NVIDIA H200", "9.0", UUIDS)
        self.venv = folder / "venv"
        self.versions = {"tensorrt_llm": VERSION, "tensorrt": "10.14.1", "cuda": "13.1"}
        standin.make_venv(self.venv, options_of(VERSION), self.versions)
        self.options: dict[str, t.Any] = {
            "name": "llama",
            "store": str(folder / "store"),
            "checkpoint": str(standin.checkpoint(folder / "checkpoint", tensor=2)),
            "version": VERSION,
            "runtime": "venv",
            "venv": str(self.venv),
            "image": None,
            "gpus": [],
            "tensor_parallel": None,
            "pipeline_parallel": None,
            "keep": 1,
            "reserve": 0,
            "build_timeout": 60,
            "words": words(matrix, VERSION, {"max_batch_size": 64, "gemm_plugin": "auto"}),
        }

    @property
    def layout(self) -> Layout:
        return Layout(self.options["store"], self.options["name"])

    def args(self, **args: t.Any) -> None:
        self.options["words"] = words(self.matrix, self.options["version"], args)

    def behave(self, **behaviour: t.Any) -> None:
        (self.venv / "behaviour.json").write_text(json.dumps(behaviour))

    def wish(self, **over: t.Any) -> _trtllm_wish.Wish:
        return _trtllm_wish.read_wish({**self.options, **over}, self.layout)

    def state(self, **over: t.Any) -> _trtllm_work.State:
        return _trtllm_work.state_of(self.layout, self.wish(**over).stamp)

    def work(self, **over: t.Any) -> dict[str, t.Any]:
        options = {**self.options, **over}
        return _trtllm_work.work(self.wish(**over).job(options), {}, lambda _progress: None)

    def calls(self) -> list[list[str]]:
        log = self.venv / "calls.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture
def bench(tmp_path: Path, matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench(tmp_path, matrix)
    monkeypatch.setattr(_trtllm_wish, "read_gpus", lambda _wanted, _options: bench.gpus)
    monkeypatch.setattr(_trtllm_build, "_LOOK", 0.02)
    return bench
