"""Settings on simulated GPUs: every GPU gets its own, and one that fails keeps nobody else from it."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_apply import Request, apply, put_back
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_rules import compile_rules
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_session import settle
from ansible_collections.gpufleet.inference.plugins.module_utils._nvml import run_bounded

Make = t.Callable[..., t.Any]


def run(
    machine: t.Any, limit: t.Any = None, persistence: t.Any = None, rules: t.Any = None, record: bool = True, **more: t.Any
) -> dict[str, t.Any]:
    compiled = compile_rules(limit, persistence, rules)
    assert compiled.problems == []
    outcome = settle(Request(compiled.rules, compiled.origins, **more), machine.paths, machine.options, "test", record=record)
    assert outcome.state == "ok", outcome
    return t.cast("dict[str, t.Any]", outcome.data)


def statuses(data: dict[str, t.Any], key: str = "power_limit") -> list[t.Any]:
    return [gpu["settings"].get(key, {}).get("status") for gpu in data["gpus"]]


def test_set_then_unchanged(machine: Make) -> None:
    host = machine()
    first = run(host, "70%", True)
    assert statuses(first) == ["set", "set"]
    assert host.limits() == [490000, 490000]
    assert statuses(run(host, "70%", True)) == ["unchanged", "unchanged"]


def test_check_sets_nothing_and_writes_nothing(machine: Make) -> None:
    host = machine()
    assert statuses(run(host, 300, record=False, check=True)) == ["set", "set"]
    assert host.limits() == [700000, 700000]
    assert not (host.root / "var/lib/gpufleet").exists()
    assert not (host.root / "run/gpufleet").exists()


def test_a_reboot_loses_the_limit(machine: Make) -> None:
    host = machine()
    run(host, 300, True)
    host.boot()
    assert host.limits() == [700000, 700000]
    assert statuses(run(host, 300, True)) == ["set", "set"]


@pytest.mark.parametrize("limit", [100, 701, "20%", "101%"])
def test_out_of_range_on_one_gpu_touches_none(machine: Make, limit: t.Any) -> None:
    host = machine()
    uuids = [gpu["uuid"] for gpu in host.gpus()]
    data = run(host, None, True, [{"select": uuids[0], "power_limit": 500}, {"select": uuids[1], "power_limit": limit}])
    assert data["gpus"] == []
    assert [problem[0] for problem in data["problems"]] == ["out_of_range"]
    text = data["problems"][0][4]
    assert uuids[1] in text
    assert "200 W to 700 W" in text
    assert host.limits() == [700000, 700000]


def test_mixed_products_by_map(machine: Make) -> None:
    host = machine("mixed")
    data = run(host, {"L40S": "80%", "4090": 300, "H100": 500}, True)
    wanted = {"L40S": 280000, "4090": 300000}
    for gpu in host.gpus():
        assert gpu["power"]["limit_mw"] == next(value for name, value in wanted.items() if name in gpu["product"])
    notes = [problem for problem in data["problems"] if problem[0] == "unmatched"]
    assert [problem[8] for problem in notes] == ["info"]


def test_lost_gpu_does_not_stop_the_other(machine: Make) -> None:
    host = machine()
    uuid = host.gpus()[0]["uuid"]
    host.fault(uuid, lost=1)
    data = run(host, 300, True)
    assert [gpu["state"] for gpu in data["gpus"]] == ["lost", "ok"]
    assert statuses(data) == [None, "set"]
    assert host.limits() == [300000]


def test_denied_is_named_per_setting(machine: Make) -> None:
    host = machine()
    uuid = host.gpus()[0]["uuid"]
    host.fault(uuid, **{"call.nvmlDeviceSetPowerManagementLimit": 4})
    data = run(host, 300, True)
    assert statuses(data) == ["denied", "set"]
    assert data["gpus"][0]["settings"]["power_limit"]["error"] == "NO_PERMISSION"


class Liar:
    """A session whose power limit setter of one GPU says yes and does nothing."""

    def __init__(self, session: t.Any, index: int) -> None:
        self.session = session
        self.index = index

    def call(self, name: str, *args: t.Any) -> t.Any:
        if name == "nvmlDeviceSetPowerManagementLimit" and self.session.call("nvmlDeviceGetIndex", args[0]) == self.index:
            return None
        return self.session.call(name, *args)


def test_a_setter_that_lies_is_found_by_reading_back(machine: Make) -> None:
    host = machine()
    compiled = compile_rules(300, True, None)
    request = Request(compiled.rules, compiled.origins)
    outcome = run_bounded(lambda session, _request: apply(Liar(session, 0), request), {}, host.options)
    assert statuses(outcome.data) == ["error", "set"]
    assert outcome.data["gpus"][0]["settings"]["power_limit"]["error"] == "was set to 300000 and reads 700000"


def test_refused_as_not_supported_is_remembered(machine: Make) -> None:
    host = machine()
    uuid = host.gpus()[1]["uuid"]
    host.fault(uuid, **{"call.nvmlDeviceSetGpuLockedClocks": 3})
    rules = [{"select": "all", "gpu_clocks": "345,1200"}]
    assert statuses(run(host, rules=rules), "gpu_clocks") == ["set", "unsupported"]
    recorded = json.loads((host.root / "var/lib/gpufleet/gpu_settings.json").read_text())
    assert recorded["gpus"][uuid]["refused"] == ["gpu_clocks"]
    again = run(host, rules=rules)
    assert statuses(again, "gpu_clocks") == ["unchanged", "unsupported"]
    assert "error" not in again["gpus"][1]["settings"]["gpu_clocks"]


def test_ecc_is_pending_and_its_first_value_recorded(machine: Make) -> None:
    host = machine()
    data = run(host, rules=[{"select": "index:0", "ecc": False}])
    uuid = host.gpus()[0]["uuid"]
    assert data["rules"] == [{"select": uuid, "ecc": False}]
    assert statuses(data, "ecc") == ["set", None]
    assert [gpu["reboot_needed"] for gpu in data["gpus"]] == [True, False]
    record = host.root / "var/lib/gpufleet/gpu_settings.json"
    assert json.loads(record.read_text())["gpus"][uuid]["ecc"] is True
    run(host, rules=[{"select": uuid, "ecc": True}])
    assert json.loads(record.read_text())["gpus"][uuid]["ecc"] is True
    assert "ecc" not in json.loads(record.read_text())["gpus"][host.gpus()[1]["uuid"]]


def test_nothing_is_set_when_the_record_cannot_be_written(machine: Make) -> None:
    host = machine()
    (host.root / "var/lib").mkdir(parents=True)
    (host.root / "var/lib/gpufleet").write_text("in the way")
    data = run(host, 300, True)
    assert "cannot write" in data["failure"]
    assert host.limits() == [700000, 700000]


def test_clock_record_dies_with_the_boot(machine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    host = machine()
    rules = [{"select": "all", "gpu_clocks": 1200, "persistence": True}]
    assert statuses(run(host, rules=rules), "gpu_clocks") == ["set", "set"]
    assert statuses(run(host, rules=rules), "gpu_clocks") == ["unchanged", "unchanged"]
    host.boot()
    assert statuses(run(host, rules=rules), "gpu_clocks") == ["set", "set"]
    run(host, 300, True)
    assert not (host.root / "run/gpufleet/gpu_clocks.json").exists()


def test_clocks_above_the_highest(machine: Make) -> None:
    host = machine()
    data = run(host, rules=[{"select": "all", "gpu_clocks": "300,99999"}])
    assert [problem[0] for problem in data["problems"]] == ["out_of_range", "out_of_range"]


def test_governed_limits_are_left_alone(machine: Make) -> None:
    host = machine()
    run(host, 600, True)
    data = run(host, 500, True, governed=True)
    assert statuses(data) == ["governed", "governed"]
    assert host.limits() == [600000, 600000]


def test_conflict_of_two_selectors(machine: Make) -> None:
    host = machine()
    uuid = host.gpus()[0]["uuid"]
    data = run(host, rules=[{"select": "product:H200", "power_limit": 400}, {"select": uuid, "power_limit": "50%"}])
    assert [problem[0] for problem in data["problems"]] == ["conflict"]
    assert "rules[0]" in data["problems"][0][4]
    assert "rules[1]" in data["problems"][0][4]
    assert host.limits() == [700000, 700000]


def test_a_default_for_all_yields_to_a_selector_also_at_boot(machine: Make) -> None:
    host = machine()
    uuid = host.gpus()[1]["uuid"]
    data = run(host, 600, True, [{"select": uuid, "power_limit": 450}])
    assert host.limits() == [600000, 450000]
    host.boot()
    outcome = settle(Request(data["rules"]), host.paths, host.options, "boot")
    assert outcome.state == "ok"
    assert host.limits() == [600000, 450000]


def test_boot_leaves_out_what_is_out_of_range_and_does_the_rest(machine: Make) -> None:
    host = machine()
    rules = [{"select": "index:0", "power_limit": "900W"}, {"select": "all", "power_limit": "300W", "persistence": True}]
    outcome = settle(Request(rules), host.paths, host.options, "boot")
    assert outcome.data["gpus"][0]["settings"]["out_of_range"]["status"] == "out_of_range"
    assert host.limits() == [700000, 300000]


def test_put_back(machine: Make) -> None:
    host = machine()
    run(host, 300, True)
    uuid = host.gpus()[0]["uuid"]
    outcome = run_bounded(lambda session, _request: put_back(session, {uuid: {"power_limit": 650000}}), {}, host.options)
    assert outcome.data == []
    assert host.limits() == [650000, 300000]


def test_hang_comes_back_as_a_state(machine: Make) -> None:
    host = machine()
    host.fault("", hang=-1)
    compiled = compile_rules(300, None, None)
    outcome = settle(Request(compiled.rules, compiled.origins), host.paths, host.options._replace(timeout=1), "test")
    assert outcome.state == "hung"


def test_second_run_at_the_same_time(machine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.gpufleet.inference.plugins.module_utils import _gpu_settings_session as session
    from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_lock import APPLY_LOCK, hold

    host = machine()
    monkeypatch.setattr(session, "APPLY_WAIT", 0.1)
    who = r"being changed by process \d+ \(the other run"
    with hold(host.paths.run_dir, APPLY_LOCK, "the other run"), pytest.raises(HostError, match=who):
        run(host, 300)
