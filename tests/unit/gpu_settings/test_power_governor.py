"""The governor on simulated GPUs: steps, and an end that gives back the set limit."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_control import DEFAULTS
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_governor import GIVE_UP, govern, restore
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_lock import hold
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_session import GOVERNOR_LOCK, governor_runs
from ansible_collections.gpufleet.inference.plugins.module_utils._state import dump

Make = t.Callable[..., t.Any]
RULES = [{"select": "all", "power_limit": "600W", "persistence": True}]


def configured(host: t.Any, rules: t.Any = None, **governor: t.Any) -> t.Any:
    config = {**DEFAULTS, "high_celsius": 80, "low_celsius": 70, "floor": "50%", "step_watts": 100, **governor}
    path = host.root / "etc/gpufleet/gpu_settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump("gpu_settings_desired", {"rules": RULES if rules is None else rules, "governor": config}))
    for gpu in host.gpus():
        host.reading(gpu["uuid"], temperature_gpu=75)
    return host


class Ticks:
    """Stands in for the wait between ticks: runs one step of a script at each."""

    def __init__(self, *steps: t.Callable[[], None]) -> None:
        self.steps = list(steps)
        self.lines: list[str] = []
        self.ready = 0

    def wait(self, _seconds: float) -> bool:
        if not self.steps:
            return True
        self.steps.pop(0)()
        return False

    def run(self, host: t.Any) -> int:
        def ready() -> None:
            self.ready += 1

        return govern(host.paths, host.options, self.wait, self.lines.append, ready)


def test_steps_and_the_set_limit_in_the_end(machine: Make) -> None:
    host = configured(machine())
    hot, cool = (gpu["uuid"] for gpu in host.gpus())
    seen: list[list[int]] = []
    ticks = Ticks(
        lambda: seen.append(host.limits()),
        lambda: host.reading(hot, temperature_gpu=80),
        lambda: seen.append(host.limits()),
        lambda: seen.append(host.limits()),
        lambda: seen.append(host.limits()),
        lambda: host.reading(hot, temperature_gpu=60),
        lambda: seen.append(host.limits()),
        lambda: host.reading(hot, temperature_gpu=90),
    )
    assert ticks.run(host) == 0
    # 700 W is above the set limit: taken into the range at once. 350 W is the floor.
    assert seen == [[600000, 600000], [500000, 600000], [400000, 600000], [350000, 600000], [450000, 600000]]
    assert host.limits() == [600000, 600000]
    assert f"{hot}: 600 W → 500 W (80 °C, at or above 80 °C)" in ticks.lines
    assert f"{hot}: set limit 600 W, set" in ticks.lines
    assert not any(cool in line and "→" in line for line in ticks.lines[1:] if "700 W" not in line)
    assert ticks.ready > 0
    assert not (host.root / "run/gpufleet/power_governor.json").exists()


def test_an_exception_restores_too(machine: Make) -> None:
    host = configured(machine())
    host.reading(host.gpus()[0]["uuid"], temperature_gpu=99)

    def crash() -> None:
        assert host.limits()[0] < 600000
        raise RuntimeError("crash")

    with pytest.raises(RuntimeError):
        Ticks(crash).run(host)
    assert host.limits() == [600000, 600000]


def test_no_sensor_keeps_the_set_limit_and_is_said_once(machine: Make) -> None:
    host = configured(machine())
    uuid = host.gpus()[0]["uuid"]
    host.fault(uuid, **{"call.nvmlDeviceGetTemperature": 3, "call.nvmlDeviceGetTemperatureV": 3})
    ticks = Ticks(*[lambda: None] * 4)
    assert ticks.run(host) == 0
    assert host.limits() == [600000, 600000]
    assert [line for line in ticks.lines if line.startswith(f"{uuid}: no temperature")] == [
        f"{uuid}: no temperature reading: the set limit is kept"
    ]


def test_a_gpu_without_rule_has_its_default_as_set_limit(machine: Make) -> None:
    host = configured(machine(), rules=[])
    host.reading(host.gpus()[0]["uuid"], temperature_gpu=80)
    assert Ticks(lambda: None).run(host) == 0
    assert host.limits() == [700000, 700000]


def test_a_configuration_without_governor_ends_it(machine: Make) -> None:
    host = configured(machine())
    path = host.root / "etc/gpufleet/gpu_settings.json"
    ticks = Ticks(lambda: None, lambda: path.write_text(dump("gpu_settings_desired", {"rules": RULES, "governor": None})) and None)
    ticks.steps.extend([lambda: pytest.fail("it went on")])
    assert ticks.run(host) == 0


def test_a_new_configuration_is_taken_up(machine: Make) -> None:
    host = configured(machine())
    seen: list[list[int]] = []
    ticks = Ticks(lambda: configured(host, rules=[{"select": "all", "power_limit": "400W"}]) and None, lambda: seen.append(host.limits()))
    assert ticks.run(host) == 0
    assert seen == [[400000, 400000]]


def test_nvml_gone_ends_with_an_error_after_some_patience(machine: Make) -> None:
    host = configured(machine())
    host.fault("", mismatch=1)
    ticks = Ticks(*[lambda: None] * 20)
    assert ticks.run(host) == 1
    assert len(ticks.steps) == 20 - GIVE_UP + 1
    assert any("mismatch" in line for line in ticks.lines)


def test_a_lost_gpu_does_not_end_the_care_for_the_other(machine: Make) -> None:
    host = configured(machine())
    one, other = (gpu["uuid"] for gpu in host.gpus())
    host.fault(one, lost=1)
    host.reading(other, temperature_gpu=80)
    seen: list[list[int]] = []
    assert Ticks(lambda: seen.append(host.limits()), lambda: seen.append(host.limits())).run(host) == 0
    assert seen == [[500000], [400000]]


def test_only_one_governor(machine: Make) -> None:
    host = configured(machine())
    assert not governor_runs(host.paths)
    with hold(host.paths.run_dir, GOVERNOR_LOCK, "the first"):
        assert governor_runs(host.paths)
        with pytest.raises(HostError, match="the first"):
            Ticks().run(host)


def test_state_file_tells_the_code_it_runs(machine: Make) -> None:
    host = configured(machine())
    texts: list[str] = []
    Ticks(lambda: texts.append((host.root / "run/gpufleet/power_governor.json").read_text())).run(host)
    assert len(json.loads(texts[0])["runtime_sha256"]) == 64


def test_restore_without_configuration_gives_the_default(machine: Make) -> None:
    host = machine()
    lines: list[str] = []
    assert restore(host.paths, host.options, lines.append) == 0
    host.fault("", mismatch=1)
    assert restore(host.paths, host.options, lines.append) == 1
    assert "could not be restored" in lines[-1]
