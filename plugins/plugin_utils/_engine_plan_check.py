# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running engine against its plan: reads what its metrics say of the cache, and judges. Pure. Private to the collection."""

from __future__ import annotations

import typing as t

from ..module_utils._cache_metrics import Cache, cache_of
from ._contracts import Finding, named_finding

TOLERANCE = 0.03
TOLERANCE_GPU = 0.01
"""Of the GPU's memory: the overheads of a small cache weigh more than 3 % of it."""


def compare(plan: t.Mapping[str, t.Any], text: str, gpu_total: int) -> list[Finding]:
    """As compare_cache, of the text of the metrics."""
    return compare_cache(plan, cache_of(text), gpu_total)


def compare_cache(plan: t.Mapping[str, t.Any], cache: Cache | None, gpu_total: int) -> list[Finding]:
    """plan: EnginePlan.to_dict(); cache: cache_of(), or what endpoint_check returns. No finding: the engine has what was planned."""
    if cache is None or not cache["tokens"]:
        return [
            _finding(
                "plan_unseen",
                "warn",
                "The engine's metrics do not say what cache it has.",
                "nothing",
                "vllm:cache_config_info, sglang:max_total_num_tokens or trtllm_kv_cache_max_blocks",
                "Look at the metrics of the instance: SGLang needs enable-metrics, TensorRT-LLM return_perf_metrics, vLLM 0.9 or newer.",
                "metrics of the running engine",
            )
        ]
    source = f"metric {cache['metric']} of the running engine"
    out = list(_settings(plan, cache["labels"], source))
    predicted, seen = plan["predicted"], cache["tokens"]
    wanted = predicted["kv_tokens"]
    allowed = max(TOLERANCE, TOLERANCE_GPU * gpu_total / max(1, predicted["kv_bytes"]))
    off = seen / wanted - 1 if wanted else 0.0
    if abs(off) > allowed:
        less = off < 0
        out.append(
            _finding(
                "plan_cache",
                "warn",
                f"The engine has {seen} tokens of cache, {abs(off):.1%} {'less' if less else 'more'} than the planned {wanted}.",
                f"{seen} tokens",
                f"{wanted} tokens within {allowed:.1%}",
                "Something else holds memory of this GPU, or the engine runs with other arguments than planned: compare its command line."
                if less
                else "Store what the engine measured as the host's own figures (measured) and plan again.",
                source,
            )
        )
    return out


def _settings(plan: t.Mapping[str, t.Any], labels: t.Mapping[str, str], source: str) -> t.Iterator[Finding]:
    """Settings that vLLM repeats in its labels."""
    args = plan["args"]
    pairs = (("memory_fraction", "gpu_memory_utilization", float), ("kv_cache_dtype", "cache_dtype", str))
    for ours, theirs, kind in pairs:
        if theirs not in labels or ours not in args:
            continue
        seen: t.Any = labels[theirs]
        same = abs(_number(seen, -1) - float(args[ours])) < 1e-6 if kind is float else seen == args[ours]
        if not same:
            yield _finding(
                "plan_argument",
                "warn",
                f"The engine runs with {theirs} {seen}; planned was {args[ours]}.",
                str(seen),
                str(args[ours]),
                "Restart the instance with the planned arguments.",
                source,
                subject=ours,
            )


def measured_parts(cache: Cache, plan: t.Mapping[str, t.Any]) -> dict[str, float]:
    """The host's own figure to plan with from now on: what beyond the known parts was missing from (or left over for) the cache, in MiB."""
    predicted = plan["predicted"]
    seen = cache["blocks"]
    if not seen or not predicted["blocks"]:
        return {}
    block = predicted["kv_bytes"] / predicted["blocks"]
    return {"non_torch_correction": round((predicted["blocks"] - seen) * block / (1 << 20), 1)}


def _number(text: t.Any, default: float) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return default


def _finding(
    name: str, severity: t.Any, message: str, found: str, needed: str, fix: str, source: str, subject: str | None = None
) -> Finding:
    return named_finding("engine", name, severity, message, source, found=found, needed=needed, fix=fix, subject=subject)
