"""Rules on devices: who decides, what is refused, what is left open."""

from __future__ import annotations

import random
import typing as t

from power_devices import device

from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_rules import compile_rules
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_targets import Resolution, pin_indices, resolve


def judged(devices: list[dict[str, t.Any]], limit: t.Any = None, persistence: t.Any = None, rules: t.Any = None) -> Resolution:
    compiled = compile_rules(limit, persistence, rules)
    assert compiled.problems == []
    return resolve(compiled.rules, devices, compiled.origins)


def ids(resolution: Resolution) -> list[tuple[str, str]]:
    return [(problem.id, problem.severity) for problem in resolution.problems]


def test_percent_is_of_each_device_and_whole_watts() -> None:
    found = judged([device(0), device(1, "NVIDIA L4", default_limit_mw=72000, min_limit_mw=40000, max_limit_mw=72000)], "70%")
    assert [target.wanted["power_limit"] for target in found.targets] == [490000, 50000]


def test_default_is_the_devices_own() -> None:
    found = judged([device(0, default_limit_mw=650000)], "default")
    assert found.targets[0].wanted == {"power_limit": 650000}


def test_percent_of_a_device_without_default() -> None:
    found = judged([device(0, default_limit_mw=None)], "70%")
    assert ids(found) == [("no_default", "block")]
    assert "percentage of nothing" in found.problems[0].text
    assert ids(judged([device(0, default_limit_mw=None)], 300)) == []


def test_range_names_device_and_nearest() -> None:
    low, high = judged([device()], 199).problems[0], judged([device()], 701).problems[0]
    assert (low.nearest, high.nearest) == ("200W", "700W")
    assert "below the minimum of that device, which takes 200 W to 700 W" in low.text
    assert "GPU-00000000-0000-0000-0000-000000000000 (NVIDIA H200)" in high.text


def test_unsupported_is_a_note() -> None:
    found = judged([device(0, supported=False, limit_mw=None)], 300)
    assert ids(found) == [("unsupported", "info")]
    assert found.targets[0].unsupported == {"power_limit"}
    assert found.targets[0].wanted == {}


def test_a_map_that_names_no_gpu_here() -> None:
    assert ids(judged([device()], {"H100": 500, "L40S": 300})) == [("unmatched", "block")] * 2
    assert ids(judged([device()], {"H100": 500, "H200": 600})) == [("unmatched", "info")]
    # Persistence for all does not make up for a limit that reaches nobody.
    assert ids(judged([device()], {"H100": 500}, True)) == [("unmatched", "block")]


def test_rules_that_name_no_gpu_here() -> None:
    assert ids(judged([device()], None, None, [{"select": "0000:77:00.0", "ecc": True}])) == [("unmatched", "block")]
    assert ids(judged([device()], "70%", None, [{"select": "product:H100", "power_limit": 400}])) == [("unmatched", "info")]


def test_two_selectors_that_disagree() -> None:
    rules = [{"select": "product:H200", "power_limit": 400}, {"select": "0000:00:00.0", "power_limit": 500}]
    found = judged([device()], None, None, rules)
    assert ids(found) == [("conflict", "block")]
    for part in ("rules[0] (product:H200) says 400W", "rules[1] (0000:00:00.0) says 500W"):
        assert part in found.problems[0].text
    rules = [{"select": "all", "ecc": True}, {"select": "product:H200", "ecc": False}]
    assert ids(judged([device()], None, None, rules)) == [("conflict", "block")]


def test_two_ways_to_say_the_same_agree() -> None:
    rules = [{"select": "product:H200", "power_limit": 350}, {"select": "0000:00:00.0", "power_limit": "50%"}]
    assert ids(judged([device()], None, None, rules)) == []


def test_a_default_for_all_yields_to_a_rule() -> None:
    found = judged([device(0), device(1)], 600, True, [{"select": "0000:01:00.0", "power_limit": 300, "persistence": True}])
    assert ids(found) == []
    assert [target.wanted["power_limit"] for target in found.targets] == [600000, 300000]


def test_limits_without_persistence_are_warned_about() -> None:
    off = {**device(), "persistence": False}
    assert ids(judged([off], 300)) == [("not_kept", "warn")]
    assert ids(judged([off], 300, True)) == []
    assert ids(judged([device()], 300, False)) == [("not_kept", "warn")]
    assert ids(judged([off], None, False)) == []


def test_a_gpu_that_does_not_answer_has_no_target() -> None:
    found = judged([{**device(), "state": "lost"}, device(1)], 300)
    assert [target.device["index"] for target in found.targets] == [1]


def test_index_becomes_uuid() -> None:
    compiled = compile_rules(None, None, [{"select": 1, "ecc": False}, {"select": 7, "ecc": False}])
    rules, problems = pin_indices(compiled.rules, compiled.origins, [device(0), device(1)])
    assert rules == [{"select": device(1)["uuid"], "ecc": False}]
    assert [problem.text.split(":")[0] for problem in problems] == ["rules[1].select"]


def test_whatever_is_resolved_lies_within_the_device() -> None:
    """Property: a wanted limit is inside the device's constraints, or there is a blocking problem for that device."""
    dice = random.Random(20261130)
    for _round in range(3000):
        low = dice.randrange(50, 400) * 1000
        default = low + dice.randrange(0, 500) * 1000
        high = default + dice.randrange(0, 200) * 1000
        devices = [device(0, default_limit_mw=default, min_limit_mw=low, max_limit_mw=high)]
        limit = dice.choice([dice.randrange(2, 1200), f"{dice.randrange(1, 200)}%", f"{dice.uniform(2, 900):.2f}W", "default"])
        found = judged(devices, limit)
        wanted = found.targets[0].wanted.get("power_limit")
        if wanted is None:
            assert ("out_of_range", "block") in ids(found)
        else:
            assert low <= wanted <= high


def test_strict_and_boot_agree_wherever_strict_finds_no_fault() -> None:
    """Property: what was judged good resolves to the same targets from the file, where nobody knows the options any more."""
    dice = random.Random(7)
    devices = [device(n, product) for n, product in enumerate(("NVIDIA H200", "NVIDIA L40S", "NVIDIA H200"))]
    selectors = ["all", "product:H200", "product:L40S", *(d["pci_address"] for d in devices), *(d["uuid"] for d in devices)]
    compared = 0
    for _round in range(2000):
        rules = [{"select": dice.choice(selectors), "power_limit": dice.choice([300, 400])} for _n in range(dice.randrange(0, 4))]
        compiled = compile_rules(dice.choice([None, 350, {"H200": 500}]), dice.choice([None, True]), rules)
        strict = resolve(compiled.rules, devices, compiled.origins)
        if any(problem.severity == "block" for problem in strict.problems):
            continue
        compared += 1
        assert [target.wanted for target in strict.targets] == [target.wanted for target in resolve(compiled.rules, devices).targets]
    assert compared > 500
