# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The law of the power governor: from a temperature and a limit to the next limit. Pure; private to the collection.

Hot: down by a step, and by more the further above. Cool: up by a step. Between the two thresholds nothing moves,
which keeps the limit from swinging. No reading: the set limit, since the GPU protects itself and a guess does not.
"""

from __future__ import annotations

import typing as t

from ._gpu_settings_rules import Problem, bad_value, unknown_key
from ._gpu_settings_targets import Target, limit_mw, supported
from ._gpu_settings_values import BadValue, power_limit
from ._gpu_settings_words import Device, name_of, title, watts

DEFAULTS: dict[str, t.Any] = {
    "high_celsius": 83,
    "low_celsius": 76,
    "floor": "50%",
    "ceiling": "limit",
    "step_watts": 25,
    "interval_seconds": 5,
    "sensor": "gpu",
}
_NUMBERS = {"high_celsius": (30, 120), "low_celsius": (20, 119), "step_watts": (1, 500), "interval_seconds": (1, 300)}
_SENSORS = ("gpu", "memory")
DEGREES_PER_EXTRA_STEP = 3


class Law(t.NamedTuple):
    """The configuration on one device, in milliwatts and degrees."""

    high_c: float
    low_c: float
    step_mw: int
    floor_mw: int
    ceiling_mw: int


def next_limit(now_mw: int, celsius: t.Optional[float], law: Law) -> tuple[int, str]:
    """The limit to set and why; always within floor and ceiling, whatever `now_mw` is."""
    if celsius is None:
        return law.ceiling_mw, "no temperature reading: the set limit is kept"
    now = min(max(now_mw, law.floor_mw), law.ceiling_mw)
    if celsius >= law.high_c:
        steps = 1 + int((celsius - law.high_c) // DEGREES_PER_EXTRA_STEP)
        return max(now - steps * law.step_mw, law.floor_mw), f"{celsius:g} °C, at or above {law.high_c:g} °C"
    if celsius <= law.low_c:
        return min(now + law.step_mw, law.ceiling_mw), f"{celsius:g} °C, at or below {law.low_c:g} °C"
    return now, f"{celsius:g} °C, between {law.low_c:g} and {law.high_c:g} °C"


def parse_governor(raw: t.Any, where: str = "governor") -> tuple[t.Optional[dict[str, t.Any]], list[Problem]]:
    """Canonical configuration with all keys, None for none; and what is wrong with it."""
    if raw is None or raw == {}:
        return None, []
    if not isinstance(raw, dict):
        return None, [bad_value(where, raw, BadValue("a mapping with " + ", ".join(DEFAULTS)))]
    problems = [unknown_key(where, key, DEFAULTS) for key in raw if key not in DEFAULTS]
    config = {**DEFAULTS, **{key: value for key, value in raw.items() if key in DEFAULTS and value is not None}}
    for key, (low, high) in _NUMBERS.items():
        value = _number(config[key])
        if value is None or not low <= value <= high:
            problems.append(bad_value(_option(where, key), config[key], BadValue(f"a number from {low} to {high}")))
        else:
            config[key] = value
    if config["sensor"] not in _SENSORS:
        problems.append(bad_value(_option(where, "sensor"), config["sensor"], BadValue(" or ".join(_SENSORS))))
    for key in ("floor", "ceiling"):
        try:
            config[key] = "limit" if key == "ceiling" and config[key] == "limit" else power_limit(config[key])
        except BadValue as exc:
            problems.append(bad_value(_option(where, key), config[key], exc))
    if not problems and config["low_celsius"] >= config["high_celsius"]:
        expected = BadValue(f"less than {_option(where, 'high_celsius')} ({config['high_celsius']})", "without a gap the limit would swing")
        problems.append(bad_value(_option(where, "low_celsius"), config["low_celsius"], expected))
    return (None if problems else config), problems


def _number(value: t.Any) -> t.Optional[float]:
    """A number, also as templates write it; whole ones as int, so that equal configurations are equal texts."""
    try:
        number = None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
    return int(number) if number is not None and number.is_integer() else number


def law_for(config: t.Mapping[str, t.Any], device: Device, set_mw: int, where: str = "governor") -> tuple[Law, list[Problem]]:
    """The law on a device whose set limit is `set_mw`, clamped to what the device takes; and what had to be clamped."""
    power = device["power"]
    low = power.get("min_limit_mw") or 0
    floor = limit_mw(config["floor"], device)
    ceiling = set_mw if config["ceiling"] == "limit" else limit_mw(config["ceiling"], device)
    floor, ceiling = (low if floor is None else floor), (set_mw if ceiling is None else ceiling)
    problems = []
    if config["floor"].endswith("W") and floor < low:
        problems.append(_range(where, "floor", floor, f"at least {watts(low)}, the device's minimum", device))
    if ceiling > set_mw:
        problems.append(_range(where, "ceiling", ceiling, f"at most {watts(set_mw)}, the set limit", device))
    if floor > min(ceiling, set_mw):
        problems.append(_range(where, "floor", floor, f"at most {watts(min(ceiling, set_mw))}, the ceiling", device))
    ceiling = min(ceiling, set_mw)
    floor = min(max(floor, low), ceiling)
    return Law(config["high_celsius"], config["low_celsius"], round(config["step_watts"] * 1000), floor, ceiling), problems


def judge_governor(config: t.Optional[t.Mapping[str, t.Any]], targets: t.Iterable[Target], where: str) -> list[Problem]:
    """Floor and ceiling against what each device takes and is set to."""
    problems = []
    for target in targets if config else ():
        set_mw = target.wanted.get("power_limit") or limit_mw("default", target.device)
        if config and set_mw is not None and supported(target.device, "power_limit"):
            problems.extend(law_for(config, target.device, set_mw, where)[1])
    return problems


def _range(where: str, key: str, value: int, needed: str, device: Device) -> Problem:
    option = _option(where, key)
    text = f"{option} is {watts(value)} on {title(device)}; needed: {needed}"
    return Problem("governor_range", option, watts(value), needed, text, f"Set {option} to {needed}.", name_of(device))


def _option(where: str, key: str) -> str:
    """governor.floor, or gpu_power_governor_floor where the options are flat."""
    return where + key if where.endswith("_") else f"{where}.{key}"
