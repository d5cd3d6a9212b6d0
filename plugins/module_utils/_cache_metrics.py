# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a running engine says of its cache: tokens, blocks, settings, out of the text of its metrics. Pure. Private to the collection.

vLLM: labels of vllm:cache_config_info. SGLang (with --enable-metrics): sglang:max_total_num_tokens, before it had that the labels of
sglang:cache_config_info. TensorRT-LLM: trtllm_kv_cache_max_blocks and _tokens_per_block at /prometheus/metrics, or kvCacheStats of the
iterations at /metrics, which each read empties. Of several engines or ranks the one with the fewest tokens, since it fills first.
"""

from __future__ import annotations

import json
import re
import typing as t

Cache = dict[str, t.Any]
"""engine, metric, tokens; blocks and block_size (0 where the engine does not say), labels"""
_LINE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
Sample = tuple[dict[str, str], float]


def cache_of(text: str) -> t.Optional[Cache]:
    """None: these metrics do not say."""
    if text.lstrip()[:1] in ("[", "{"):
        return _iterations(text)
    samples: dict[str, list[Sample]] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            samples.setdefault(match.group(1), []).append((dict(_LABEL.findall(match.group(2) or "")), _number(match.group(3))))
    found = [*_vllm(samples), *_sglang(samples), *_tensorrt_llm(samples)]
    return min(found, key=lambda cache: cache["tokens"] or float("inf"), default=None)


def _vllm(samples: t.Mapping[str, list[Sample]]) -> t.Iterator[Cache]:
    for labels, _value in samples.get("vllm:cache_config_info", ()):
        tokens = _number(labels.get("kv_cache_size_tokens"))
        yield _cache("vllm", "vllm:cache_config_info", tokens, labels.get("num_gpu_blocks"), labels.get("block_size"), labels)


def _sglang(samples: t.Mapping[str, list[Sample]]) -> t.Iterator[Cache]:
    totals = samples.get("sglang:max_total_num_tokens", ())
    for labels, value in totals:
        yield _cache("sglang", "sglang:max_total_num_tokens", value, 0, 0, labels)
    for labels, _value in () if totals else samples.get("sglang:cache_config_info", ()):
        yield _cache("sglang", "sglang:cache_config_info", 0, labels.get("num_pages"), labels.get("page_size"), labels)


def _tensorrt_llm(samples: t.Mapping[str, list[Sample]]) -> t.Iterator[Cache]:
    sizes = [value for _labels, value in samples.get("trtllm_kv_cache_tokens_per_block", ())]
    for labels, blocks in samples.get("trtllm_kv_cache_max_blocks", ()) if sizes else ():
        yield _cache("tensorrt_llm", "trtllm_kv_cache_max_blocks", 0, blocks, sizes[0], labels)


def _iterations(text: str) -> t.Optional[Cache]:
    try:
        rows = json.loads(text)
    except ValueError:
        return None
    for row in reversed(rows if isinstance(rows, list) else [rows]):
        stats = row.get("kvCacheStats") if isinstance(row, dict) else None
        if isinstance(stats, dict) and stats.get("maxNumBlocks"):
            return _cache("tensorrt_llm", "kvCacheStats", 0, stats["maxNumBlocks"], stats.get("tokensPerBlock"), {})
    return None


def _cache(engine: str, metric: str, tokens: float, blocks: t.Any, size: t.Any, labels: t.Mapping[str, str]) -> Cache:
    count, each = int(_number(blocks)), int(_number(size))
    return {
        "engine": engine,
        "metric": metric,
        "tokens": int(tokens or count * each),
        "blocks": count,
        "block_size": each,
        "labels": dict(labels),
    }


def _number(text: t.Any) -> float:
    try:
        value = float(text)
    except (TypeError, ValueError):
        return 0.0
    return value if 0 < value < float("inf") else 0.0
