"""The law of the governor: alone, and on a simulated GPU that heats and cools."""

from __future__ import annotations

import random
import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_control import (
    DEFAULTS,
    Law,
    law_for,
    next_limit,
    parse_governor,
)

DEVICE: dict[str, t.Any] = {
    "uuid": "GPU-1",
    "product": "NVIDIA H200",
    "power": {"supported": True, "limit_mw": 700000, "default_limit_mw": 700000, "min_limit_mw": 200000, "max_limit_mw": 700000},
}
LAW = Law(80, 70, 25000, 350000, 700000)


@pytest.mark.parametrize(
    ("now", "celsius", "after"),
    [
        (700000, 79.9, 700000),
        (700000, 80, 675000),
        (700000, 82.9, 675000),
        (700000, 83, 650000),
        (700000, 90, 600000),
        (600000, 75, 600000),
        (600000, 70.1, 600000),
        (600000, 70, 625000),
        (690000, 20, 700000),
        (360000, 99, 350000),
        (350000, 99, 350000),
        (200000, 75, 350000),
        (900000, 75, 700000),
        (400000, None, 700000),
    ],
)
def test_next_limit(now: int, celsius: float | None, after: int) -> None:
    assert next_limit(now, celsius, LAW)[0] == after


def test_never_outside_whatever_comes() -> None:
    dice = random.Random(1)
    for _round in range(5000):
        floor = dice.randrange(100000, 500000)
        law = Law(dice.uniform(60, 90), dice.uniform(30, 60), dice.randrange(1000, 200000), floor, floor + dice.randrange(0, 400000))
        after, _why = next_limit(dice.randrange(0, 2000000), dice.choice([None, dice.uniform(-50, 300)]), law)
        assert law.floor_mw <= after <= law.ceiling_mw


def simulate(ambient: float, load_w: float, minutes: int = 30) -> tuple[list[int], list[float]]:
    """A body of one thermal mass: 0.09 K per watt above ambient in the end, a time constant of 40 s, a look each 5 s."""
    limit, celsius = 700000, ambient
    limits, temperatures = [], []
    for _look in range(minutes * 12):
        power = min(load_w, limit / 1000)
        celsius += (ambient + 0.09 * power - celsius) * (5 / 40)
        limit, _why = next_limit(limit, celsius, LAW)
        limits.append(limit)
        temperatures.append(celsius)
    return limits, temperatures


def test_a_cool_room_is_left_alone() -> None:
    limits, _temperatures = simulate(ambient=5, load_w=700)
    assert set(limits) == {700000}


def test_a_hot_room_settles_below_the_threshold_without_swinging() -> None:
    limits, temperatures = simulate(ambient=30, load_w=700)
    assert max(temperatures[-60:]) < 80
    steady = limits[-120:]
    assert len(set(steady)) == 1
    assert 350000 < steady[0] < 700000


def test_an_oven_ends_at_the_floor() -> None:
    limits, _temperatures = simulate(ambient=60, load_w=700)
    assert limits[-1] == 350000


def test_the_limit_comes_back_when_the_load_goes() -> None:
    limit, celsius = 400000, 85.0
    for _look in range(200):
        celsius += (30 + 0.09 * 100 - celsius) * (5 / 40)
        limit, _why = next_limit(limit, celsius, LAW)
    assert limit == 700000


def test_defaults_are_complete_and_good() -> None:
    config, problems = parse_governor({"sensor": "gpu"})
    assert problems == []
    assert config == DEFAULTS
    assert parse_governor(None) == (None, [])
    assert parse_governor({}) == (None, [])


def test_numbers_as_templates_write_them() -> None:
    one, other = parse_governor({"high_celsius": "80.0", "step_watts": 20.0}), parse_governor({"high_celsius": 80, "step_watts": "20"})
    assert one == other
    assert one[1] == []


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"high_celsius": 300}, "governor.high_celsius is 300; expected a number from 30 to 120"),
        ({"high_celsius": True}, "governor.high_celsius"),
        ({"low_celsius": 83}, "governor.low_celsius is 83"),
        ({"sensor": "cpu"}, "gpu or memory"),
        ({"floor": "limit"}, "governor.floor"),
        ({"floor": "%"}, "percentage of nothing"),
        ({"ceilng": 3}, "did you mean 'ceiling'"),
        ({"interval_seconds": 0}, "from 1 to 300"),
        ({"step_watts": "fast"}, "governor.step_watts is 'fast'"),
        ([1], "a mapping with"),
    ],
)
def test_bad_configuration(given: t.Any, part: str) -> None:
    config, problems = parse_governor(given)
    assert config is None
    assert any(part in problem.text for problem in problems)


def test_flat_names_of_the_role() -> None:
    _config, problems = parse_governor({"high_celsius": 1}, "gpu_power_governor_")
    assert problems[0].where == "gpu_power_governor_high_celsius"


@pytest.mark.parametrize(
    ("config", "set_mw", "floor", "ceiling", "problems"),
    [
        ({}, 700000, 350000, 700000, 0),
        ({"floor": "60%"}, 490000, 420000, 490000, 0),
        ({"floor": "10%"}, 490000, 200000, 490000, 0),
        ({"floor": "100W"}, 490000, 200000, 490000, 1),
        ({"floor": "90%"}, 490000, 490000, 490000, 1),
        ({"ceiling": "600W"}, 490000, 350000, 490000, 1),
        ({"ceiling": "400W"}, 490000, 350000, 400000, 0),
    ],
)
def test_law_on_a_device(config: dict[str, t.Any], set_mw: int, floor: int, ceiling: int, problems: int) -> None:
    law, found = law_for({**DEFAULTS, **config}, DEVICE, set_mw)
    assert (law.floor_mw, law.ceiling_mw) == (floor, ceiling)
    assert len(found) == problems
