# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Models, GPUs and recorded runs that the planner's tests share."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import yaml

from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_plan import plan
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_plan_rows import constants_for
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_plan_types import EnginePlan, Gpu, Wish
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._memory_config import shape_of
from ansible_collections.gpufleet.inference.plugins.plugin_utils._memory_model import ModelShape

HERE = Path(__file__).resolve().parent
MODELS: dict[str, dict[str, t.Any]] = yaml.safe_load((HERE / "models.yml").read_text())
VLLM, SGLANG, TENSORRT = "0.26.0", "0.5.17", "1.2.1"


def recorded(name: str) -> list[dict[str, t.Any]]:
    return [json.loads(line) for line in (HERE / name).read_text().splitlines()]


def model(name: str, **config: t.Any) -> ModelShape:
    return shape_of({**MODELS[name]["config"], **config})


def h200(count: int = 1, used: int = 0) -> list[Gpu]:
    return [Gpu(f"GPU-{n}", "NVIDIA H200", 150754820096, 644939776, used, "9.0", True) for n in range(count)]


def h100(count: int = 1) -> list[Gpu]:
    return [Gpu(f"GPU-{n}", "NVIDIA H100 80GB HBM3", 85520809984, None, 0, "9.0", True) for n in range(count)]


def l4(count: int = 1) -> list[Gpu]:
    return [Gpu(f"GPU-{n}", "NVIDIA L4", 24152899584, None, 0, "8.9") for n in range(count)]


def planned(shape: ModelShape, gpus: list[Gpu], engine: t.Any = "vllm", version: str = VLLM, **wish: t.Any) -> EnginePlan:
    return plan(shape, gpus, Wish(engine, version, **wish), constants_for(load_matrix(), engine, version))
