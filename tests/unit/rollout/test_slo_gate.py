"""The SLO gate on seeded latencies: a slowdown of two is not missed, a wobble raises no alarm."""

from __future__ import annotations

import random

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils._slo_gate import Limits, judge, percentile, ratio_interval

RUNS = 300
LIMITS = Limits(p95={})


def latencies(seed: int, count: int = 120, decode: float = 1.0) -> dict[str, list[float]]:
    """As of a busy engine: a long tail, and requests of one moment that are slow together."""
    draw = random.Random(seed)
    out: dict[str, list[float]] = {"ttft": [], "tpot": []}
    load = 1.0
    for number in range(count):
        if number % 12 == 0:
            load = draw.lognormvariate(0, 0.12)
        out["ttft"].append(0.08 * load * draw.lognormvariate(0, 0.45) + (draw.random() < 0.03) * draw.uniform(0.2, 0.9))
        out["tpot"].append(0.02 * load * decode * draw.lognormvariate(0, 0.15))
    return out


def verdicts(decode: float, wobble: float = 0.0) -> list[str]:
    found = []
    for seed in range(RUNS):
        factor = decode * (1 + random.Random(seed + 7).uniform(-wobble, wobble))
        found.append(judge(latencies(2 * seed + 1, decode=factor), latencies(2 * seed), 120, 0, LIMITS, seed).state)
    return found


def test_a_decode_slowdown_of_two_is_missed_in_less_than_one_percent() -> None:
    missed = sum(state != "fail" for state in verdicts(2.0)) / RUNS
    assert missed < 0.01, missed


@pytest.mark.parametrize("decode", [1.0, 1.05])
def test_a_wobble_of_five_percent_raises_a_false_alarm_in_less_than_five_percent(decode: float) -> None:
    alarms = sum(state != "pass" for state in verdicts(decode, wobble=0.05 if decode == 1.0 else 0.0)) / RUNS
    assert alarms < 0.05, alarms


def test_the_verdict_says_why() -> None:
    verdict = judge(latencies(1, decode=2), latencies(2), 120, 0, LIMITS)
    assert verdict.state == "fail"
    assert "tpot median is" in verdict.reasons[0]
    assert verdict.figures["tpot_ratio_low"] > LIMITS.ratio
    assert judge(latencies(1), latencies(2), 120, 0, LIMITS) == judge(latencies(1), latencies(2), 120, 0, LIMITS), "the same each time"


def test_absolute_limits_and_errors() -> None:
    strict = Limits(p95={"ttft": 0.001})
    assert "ttft P95" in judge(latencies(1), None, 120, 0, strict).reasons[0]
    assert judge(latencies(1), None, 120, 0, Limits(p95={"ttft": 10, "tpot": 10})).state == "pass"
    assert "5 of 120 requests failed" in judge(latencies(1), None, 120, 5, LIMITS).reasons[0]
    assert judge(latencies(1), None, 120, 1, LIMITS).state == "pass"


def test_too_little_is_no_pass() -> None:
    assert judge(latencies(1, 10), latencies(2), 10, 0, LIMITS).state == "unknown"
    assert judge(latencies(1), latencies(2, 10), 120, 0, LIMITS).state == "unknown"
    assert judge({"ttft": [0.1] * 120}, None, 120, 0, LIMITS).state == "unknown"
    assert judge({}, None, 0, 0, LIMITS).state == "unknown"


def test_too_little_hides_no_failure() -> None:
    assert judge({"ttft": [0.1] * 120}, None, 120, 60, LIMITS).state == "fail"


def test_percentiles() -> None:
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile([1, 2], 0.95) == pytest.approx(1.95)
    assert percentile([5], 0.99) == 5
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 0.5)


def test_the_interval_holds_the_ratio() -> None:
    middle, low, high = ratio_interval([1.0] * 50, [2.0] * 50, 0.5)
    assert (middle, low, high) == (2.0, 2.0, 2.0)
