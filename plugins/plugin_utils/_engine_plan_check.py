# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running vLLM against its plan: reads `vllm:cache_config_info` of /metrics and judges. Pure. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from ._contracts import Finding, named_finding

METRIC = "vllm:cache_config_info"
TOLERANCE = 0.03
TOLERANCE_GPU = 0.01
"""Of the GPU's memory: the overheads of a small cache weigh more than 3 % of it."""
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_SOURCE = "metric vllm:cache_config_info of the running engine"


def cache_config(text: str) -> dict[str, str] | None:
    """Labels of the metric; of several engines the one with the fewest tokens, since it fills first. None: it is not there."""
    found = [dict(_LABEL.findall(line)) for line in text.splitlines() if line.startswith(METRIC + "{")]
    return min(found, key=lambda labels: _number(labels.get("kv_cache_size_tokens"), float("inf")), default=None)


def compare(plan: t.Mapping[str, t.Any], text: str, gpu_total: int) -> list[Finding]:
    """plan: EnginePlan.to_dict(). No finding: the engine has what was planned."""
    labels = cache_config(text)
    if labels is None:
        return [
            _finding(
                "plan_unseen",
                "warn",
                "The engine's metrics do not say what cache it has.",
                "nothing",
                METRIC,
                "Look at /metrics of the instance: releases before 0.9 and other engines have no such metric.",
            )
        ]
    out = list(_settings(plan, labels))
    predicted = plan["predicted"]
    seen = _number(labels.get("kv_cache_size_tokens"), 0) or _number(labels.get("num_gpu_blocks"), 0) * _number(labels.get("block_size"), 0)
    wanted = predicted["kv_tokens"]
    allowed = max(TOLERANCE, TOLERANCE_GPU * gpu_total / max(1, predicted["kv_bytes"]))
    off = seen / wanted - 1 if wanted else 0.0
    if abs(off) > allowed:
        less = off < 0
        out.append(
            _finding(
                "plan_cache",
                "warn",
                f"The engine has {int(seen)} tokens of cache, {abs(off):.1%} {'less' if less else 'more'} than the planned {wanted}.",
                f"{int(seen)} tokens",
                f"{wanted} tokens within {allowed:.1%}",
                "Something else holds memory of this GPU, or the engine runs with other arguments than planned: compare its command line."
                if less
                else "Store what the engine measured as the host's own figures (measured) and plan again.",
            )
        )
    return out


def _settings(plan: t.Mapping[str, t.Any], labels: t.Mapping[str, str]) -> t.Iterator[Finding]:
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
                subject=ours,
            )


def measured_parts(labels: t.Mapping[str, str], plan: t.Mapping[str, t.Any]) -> dict[str, float]:
    """The host's own figure to plan with from now on: what beyond the known parts was missing from (or left over for) the cache, in MiB."""
    predicted = plan["predicted"]
    seen = _number(labels.get("num_gpu_blocks"), 0)
    if not seen or not predicted["blocks"]:
        return {}
    block = predicted["kv_bytes"] / predicted["blocks"]
    return {"non_torch_correction": round((predicted["blocks"] - seen) * block / (1 << 20), 1)}


def _number(text: t.Any, default: float) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return default


def _finding(name: str, severity: t.Any, message: str, found: str, needed: str, fix: str, subject: str | None = None) -> Finding:
    return named_finding("engine", name, severity, message, _SOURCE, found=found, needed=needed, fix=fix, subject=subject)
