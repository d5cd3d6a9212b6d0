# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Input and answer of the engine planner. Pure.

Private to the collection. schemas/engine_plan.schema.json fixes the JSON form of EnginePlan.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ._contracts import Finding
from ._memory_weights import Parallel

Engine = t.Literal["vllm", "sglang", "tensorrt_llm"]
ENGINES: tuple[Engine, ...] = ("vllm", "sglang", "tensorrt_llm")
MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class Gpu:
    """One GPU as NVML knows it. reserved: what the driver keeps from CUDA; None where NVML does not tell."""

    uuid: str
    name: str
    total: int
    reserved: int | None = None
    used: int = 0
    """By other processes, now."""
    compute_capability: str | None = None
    nvlink: bool = False


@dataclass(frozen=True)
class Wish:
    """What the instance asks for; None: the planner chooses."""

    engine: Engine
    version: str
    max_model_len: int | None = None
    concurrency: int | None = None
    """Requests at once that must find room."""
    tokens_per_request: int | None = None
    """Prompt and answer of a usual request; default: max_model_len."""
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    memory_fraction: float | None = None
    kv_cache_dtype: str = "auto"
    kv_cache_bytes: int | None = None
    block_size: int | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    expert_parallel: bool = False
    prefix_caching: bool | None = None
    hybrid_kv_cache: bool = True
    cuda_graphs: bool = True
    speculative_tokens: int = 0
    nodes: int = 1
    """Hosts that share one instance; the GPUs are those of one host."""


@dataclass(frozen=True)
class Settings:
    """A wish with every blank filled in."""

    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    memory_fraction: float
    kv_cache_dtype: str
    prefix_caching: bool


@dataclass(frozen=True)
class Estimate:
    """Memory of one GPU, the fullest one, in bytes."""

    weights: int
    activation: int
    non_torch: int
    graphs: int
    graphs_counted: int
    """Part of the graphs that the engine takes off its share."""
    context: int
    request_state: int
    requested: int
    kv_bytes: int
    outside: int
    """What the engine takes beyond its share, at the peak."""
    kv_tokens: int
    concurrency: float
    blocks: int
    block_size: int
    longest: int
    """The longest request that fits alone."""
    bytes_per_token: int
    """Of all layers whose cache grows with the request."""
    state_bytes: int
    """Of one sequence, whatever its length."""

    def to_dict(self) -> dict[str, t.Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Alternative:
    """A change that makes the model fit, computed, not guessed."""

    what: str
    change: dict[str, t.Any]
    kv_tokens: int
    concurrency: float

    def to_dict(self) -> dict[str, t.Any]:
        return dict(vars(self))


@dataclass
class EnginePlan:
    """args: engine-neutral names; `reasons` has a sentence for each of them."""

    fits: bool
    parallel: Parallel
    args: dict[str, t.Any] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    predicted: Estimate | None = None
    alternatives: list[Alternative] = field(default_factory=list)

    def to_dict(self) -> dict[str, t.Any]:
        return {
            "schema": 1,
            "fits": self.fits,
            "parallel": vars(self.parallel),
            "args": self.args,
            "reasons": self.reasons,
            "predicted": self.predicted.to_dict() if self.predicted else None,
            "alternatives": [alternative.to_dict() for alternative in self.alternatives],
            "findings": [finding.to_dict() for finding in self.findings],
        }
