# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SLO gate: is the new version slower than the old one, or than allowed? Pure; private to the collection.

Relative limits are judged by a bootstrap over request latencies (Efron 1979): a version is slower only where even the optimistic end of the
interval of the ratio is beyond the limit. So noise alone fails few runs, and a factor of two has nowhere to hide.
"""

from __future__ import annotations

import math
import random
import typing as t
from dataclasses import dataclass

Samples = t.Sequence[float]
METRICS = ("ttft", "tpot")
ROUNDS = 400
CONFIDENCE = 0.99
ENOUGH = 30
"""Requests below which nothing is judged."""


@dataclass(frozen=True)
class Limits:
    """Seconds for absolute percentiles by metric, highest ratio to the previous version, highest share of errors."""

    p95: t.Mapping[str, float]
    ratio: float = 1.25
    errors: float = 0.01


@dataclass(frozen=True)
class Verdict:
    """`state`: pass | fail | unknown (too few requests: neither)."""

    state: str
    reasons: tuple[str, ...]
    figures: t.Mapping[str, float]


def percentile(samples: Samples, share: float) -> float:
    """By linear interpolation between ranks, `share` from 0 to 1; ValueError for no samples."""
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def ratio_interval(before: Samples, after: Samples, share: float, seed: int = 0, rounds: int = ROUNDS) -> tuple[float, float, float]:
    """Ratio of a percentile, after to before, with the ends of its interval."""
    draw = random.Random(seed)  # noqa: S311 - the same input gives the same verdict
    one, other = sorted(before), sorted(after)
    ratios = [_resampled(draw, other, share) / max(_resampled(draw, one, share), 1e-9) for _number in range(rounds)]
    tail = (1 - CONFIDENCE) / 2
    middle = percentile(after, share) / max(percentile(before, share), 1e-9)
    return middle, percentile(ratios, tail), percentile(ratios, 1 - tail)


def _resampled(draw: random.Random, ordered: Samples, share: float) -> float:
    """The percentile of one bootstrap sample, without making it: the rank of its k-th of n values follows Beta(k, n - k + 1)."""
    count = len(ordered)
    rank = round(share * (count - 1)) + 1
    return ordered[min(count - 1, int(draw.betavariate(rank, count - rank + 1) * count))]


def judge(
    after: t.Mapping[str, Samples], before: t.Mapping[str, Samples] | None, requests: int, failed: int, limits: Limits, seed: int = 0
) -> Verdict:
    """The verdict over one host. `after`, `before`: metric → seconds of each successful request; without `before` absolute limits only."""
    figures: dict[str, float] = {"requests": requests, "errors": failed / requests if requests else 1.0}
    if requests < ENOUGH:
        return Verdict("unknown", (f"{requests} requests are too few to judge, {ENOUGH} are needed",), figures)
    reasons = []
    if figures["errors"] > limits.errors:
        reasons.append(f"{failed} of {requests} requests failed, at most {limits.errors:.1%} may")
    short: list[str] = []
    for metric in METRICS:
        found = after.get(metric) or ()
        if len(found) < ENOUGH:
            short.append(f"{metric} of {len(found)} requests is too little to judge, {ENOUGH} are needed")
            continue
        for share in (0.5, 0.95, 0.99):
            figures[f"{metric}_p{share * 100:.0f}"] = percentile(found, share)
        p95 = figures[f"{metric}_p95"]
        if p95 > limits.p95.get(metric, math.inf):
            reasons.append(f"{metric} P95 is {p95 * 1000:.0f} ms, at most {limits.p95[metric] * 1000:.0f} ms may be")
        known = (before or {}).get(metric) or ()
        if len(known) >= ENOUGH:
            ratio, low, high = ratio_interval(known, found, 0.5, seed)
            figures.update({f"{metric}_ratio": ratio, f"{metric}_ratio_low": low, f"{metric}_ratio_high": high})
            if low > limits.ratio:
                reasons.append(
                    f"{metric} median is {ratio:.2f} times the previous version's ({low:.2f} to {high:.2f}), at most {limits.ratio:.2f}"
                )
        elif before is not None:
            short.append(f"{metric} of the previous version has {len(known)} requests, {ENOUGH} are needed")
    state = "fail" if reasons else "unknown" if short else "pass"
    return Verdict(state, (*reasons, *short), figures)
