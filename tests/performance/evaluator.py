#!/usr/bin/env python3
"""Throughput of the evaluator on one core, and what loading the matrix costs; one JSON line a figure.

Run from the root of the checkout: .venv/bin/python tests/performance/evaluator.py
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _load(name: str, path: Path) -> t.Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_load("root_conftest", ROOT / "conftest.py")
build = _load("matrix_conftest", ROOT / "tests/unit/matrix/conftest.py")

from ansible_collections.gpufleet.inference.plugins.plugin_utils import _matrix_load  # noqa: E402
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix import judge  # noqa: E402

STACK = {
    "driver": {"branch": 620, "version": "620.70.06", "kernel_modules": "open"},
    "cuda": {"toolkits": ["13.5.0"]},
    "cudnn": "9.28.1.4",
    "nccl": "2.32.3",
    "container_toolkit": {"version": "1.20.0"},
    "engines": [
        {
            "name": "chat",
            "engine": "vllm",
            "version": "0.33.0",
            "runtime": "docker",
            "image": "vllm/vllm-openai:v0.33.0",
            "model": "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
        }
    ],
}
BAD = {**STACK, "driver": {"branch": 550, "version": "550.54.14"}, "cuda": {"toolkits": ["12.4.1"]}}


def figure(name: str, value: float, unit: str, goal: str, how: str) -> None:
    print(json.dumps({"figure": name, "value": round(value, 1), "unit": unit, "goal": goal, "how": how}), flush=True)


def rate(stack: dict[str, t.Any], seconds: float = 1.0) -> float:
    """Evaluations per CPU second; each host is a document of its own, as in a fleet. Best of three."""
    matrix = _matrix_load.load_matrix()
    hosts = [build.info() for _ in range(50)]
    policy = build.context()
    best = 0.0
    for _ in range(3):
        done, start = 0, time.process_time()
        while time.process_time() - start < seconds:
            for host in hosts:
                judge(matrix, host, stack, policy)
            done += len(hosts)
        best = max(best, done / (time.process_time() - start))
    return best


def main() -> int:
    start = time.process_time()
    _matrix_load.load_matrix()
    load = (time.process_time() - start) * 1000
    rows = len(_matrix_load.load_matrix().rows)
    good, bad = rate(STACK), rate(BAD)
    how = "judge() of an 8-GPU host and a full stack (driver, CUDA, cuDNN, NCCL, toolkit, engine, model), one core, CPU time, best of 3"
    figure("evaluator_host_evaluations", good, "1/s", ">= 2000", how)
    figure("evaluator_host_evaluations_with_findings", bad, "1/s", ">= 2000", how + "; the stack makes findings of most rules")
    figure("matrix_load", load, "ms", "<= 200", f"{rows} rows from YAML, once per ansible-playbook process (workers inherit it)")
    return 0 if good >= 2000 and bad >= 2000 else 1


if __name__ == "__main__":
    sys.exit(main())
