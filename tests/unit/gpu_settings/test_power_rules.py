"""What people write, and what they are told when it cannot be used."""

from __future__ import annotations

import math
import typing as t

import pytest
import yaml

from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_rules import Names, compile_rules
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_values import (
    BadValue,
    boolean,
    clocks,
    compute_mode,
    pci_address,
    power_limit,
    product_matches,
    select,
)

UUID = "GPU-5f9b1c7e-0d2a-4c57-8a41-0c5d8e3f1a22"


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        (300, "300W"),
        (300.0, "300W"),
        (250.5, "250.5W"),
        ("300", "300W"),
        ("300W", "300W"),
        ("300 w", "300W"),
        ("300 watts", "300W"),
        ("70%", "70%"),
        (" 70.0 % ", "70%"),
        ("110%", "110%"),
        ("default", "default"),
        ("Default", "default"),
    ],
)
def test_power_limit(given: t.Any, canonical: str) -> None:
    assert power_limit(given) == canonical
    assert power_limit(canonical) == canonical


@pytest.mark.parametrize(
    ("given", "hint", "nearest"),
    [
        (True, "YAML reads yes", None),
        (0, "positive", None),
        (-300, "positive", None),
        (math.nan, "positive", None),
        (math.inf, "positive", None),
        (0.7, "not a share", "70%"),
        (1.5, "not a share", "150%"),
        ("0.85", "not a share", "85%"),
        ("%", "percentage of nothing", "100%"),
        ("0%", "percentage of nothing", "100%"),
        ("%70", "", "70%"),
        ("300kW", "", "300W"),
        ("defualt", "", "default"),
        ("-70%", "", None),
        ("", "", None),
        ([300], "", None),
        ({}, "", None),
        (None, "", None),
    ],
)
def test_power_limit_refused(given: t.Any, hint: str, nearest: str | None) -> None:
    with pytest.raises(BadValue) as refused:
        power_limit(given)
    assert hint in refused.value.hint
    assert refused.value.nearest == nearest
    assert "default limit" in refused.value.expected


@pytest.mark.parametrize(
    ("text", "meaning"), [("yes", True), ("no", False), ("on", True), ("true", True), ("'yes'", True), ("'False'", False), ("1", True)]
)
def test_boolean_in_every_spelling_of_yaml(text: str, meaning: bool) -> None:
    assert boolean(yaml.safe_load(text)) is meaning


@pytest.mark.parametrize("given", ["maybe", 2, 1.0, None, [], "enabled"])
def test_boolean_refused(given: t.Any) -> None:
    with pytest.raises(BadValue):
        boolean(given)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("210,1980", "210,1980"),
        ("'210, 1980'", "210,1980"),
        ("[210, 1980]", "210,1980"),
        ("1200", "1200,1200"),
        ("'1200'", "1200,1200"),
        ("reset", "reset"),
        ("210-1980", "210,1980"),
    ],
)
def test_clocks(text: str, canonical: str) -> None:
    assert clocks(yaml.safe_load(text)) == canonical


@pytest.mark.parametrize(
    ("given", "nearest"), [("1980,210", "210,1980"), ("default", "reset"), (0, "reset"), (True, None), ([1, 2, 3], None), ("fast", None)]
)
def test_clocks_refused(given: t.Any, nearest: str | None) -> None:
    with pytest.raises(BadValue) as refused:
        clocks(given)
    assert refused.value.nearest == nearest


def test_compute_mode() -> None:
    assert compute_mode("Exclusive-Process") == "exclusive_process"
    with pytest.raises(BadValue) as refused:
        compute_mode("exclusive")
    assert refused.value.nearest == "exclusive_process"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("all", "all"),
        ("product:H100", "product:H100"),
        ("'product: RTX 4090'", "product:RTX 4090"),
        (UUID, UUID),
        (UUID.upper(), UUID),
        ("'1b:00.0'", "0000:1b:00.0"),
        ("'00000000:1B:00.0'", "0000:1b:00.0"),
        ("0001:1b:00.0", "0001:1b:00.0"),
        ("0", "index:0"),
        ("index:3", "index:3"),
    ],
)
def test_select(text: str, canonical: str) -> None:
    assert select(yaml.safe_load(text)) == canonical


@pytest.mark.parametrize(
    ("text", "hint", "nearest"),
    [
        ("17:00.0", "quote PCI addresses", None),
        ("H100", "", "product:H100"),
        ("'MIG-1'", "physical GPU", None),
        ("GPU-123", "", None),
        ("'product:('", "", "\\("),
        ("'product:'", "", None),
        ("yes", "", None),
        ("''", "", None),
    ],
)
def test_select_refused(text: str, hint: str, nearest: str | None) -> None:
    with pytest.raises(BadValue) as refused:
        select(yaml.safe_load(text))
    assert hint in refused.value.hint
    assert refused.value.nearest == nearest


@pytest.mark.parametrize(
    ("pattern", "name", "hit"),
    [
        ("L4", "NVIDIA L4", True),
        ("L4", "NVIDIA L40S", False),
        ("L40", "NVIDIA L40S", False),
        ("l40s?", "NVIDIA L40S", True),
        ("H100", "NVIDIA H100 80GB HBM3", True),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", True),
        ("4090", "NVIDIA GeForce RTX 4090", True),
        ("A100", "NVIDIA A100-SXM4-80GB", True),
        ("H100|H200", "NVIDIA H200", True),
        ("H200", "", False),
    ],
)
def test_products_are_whole_words(pattern: str, name: str, hit: bool) -> None:
    assert product_matches(pattern, name) is hit


def test_pci_address_of_anything_else() -> None:
    assert pci_address("1b:00") is None
    assert pci_address("0000:1b:00.8") is None


NAMES = Names("gpu_power_limit", "gpu_power_persistence", "gpu_power_rules")


def texts(limit: t.Any = None, persistence: t.Any = None, rules: t.Any = None) -> list[str]:
    compiled = compile_rules(limit, persistence, rules, NAMES)
    assert [problem.severity for problem in compiled.problems] == ["block"] * len(compiled.problems)
    return [problem.text for problem in compiled.problems]


def test_nothing_asked_is_no_rule() -> None:
    for nothing in (None, "", {}, []):
        assert compile_rules(nothing, None, nothing, NAMES).rules == []


def test_rules_in_their_order_with_their_origins() -> None:
    compiled = compile_rules({"H200": 600, 4090: "80%"}, True, [{"select": 1, "ecc": "no"}], NAMES)
    assert compiled.problems == []
    assert compiled.rules == [
        {"select": "product:H200", "power_limit": "600W"},
        {"select": "product:4090", "power_limit": "80%"},
        {"select": "all", "persistence": True},
        {"select": "index:1", "ecc": False},
    ]
    assert compiled.origins == ["gpu_power_limit['H200']", "gpu_power_limit['4090']", "gpu_power_persistence", "gpu_power_rules[0]"]


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"limit": "fast"}, ["gpu_power_limit is 'fast'", "expected a number of watts"]),
        ({"limit": [300]}, ["gpu_power_limit is [300]", "or a map of product"]),
        ({"limit": {"H200": True}}, ["gpu_power_limit['H200'] is True"]),
        ({"limit": {"(": 300}}, ["gpu_power_limit['('] is '('", "regular expression"]),
        ({"persistence": "maybe"}, ["gpu_power_persistence is 'maybe'", "true or false"]),
        ({"rules": "all"}, ["gpu_power_rules is 'all'", "a list of rules"]),
        ({"rules": ["all"]}, ["gpu_power_rules[0] is 'all'", "a mapping with select"]),
        ({"rules": [{"power_limit": 300}]}, ["gpu_power_rules[0].select", "says which GPUs"]),
        ({"rules": [{"select": "all"}]}, ["gpu_power_rules[0]", "it sets nothing"]),
        ({"rules": [{"select": "all", "powerlimit": 300}]}, ["unknown key 'powerlimit'", "did you mean 'power_limit'"]),
        ({"rules": [{"select": "H100", "ecc": True}]}, ["gpu_power_rules[0].select is 'H100'", "did you mean 'product:H100'"]),
        ({"rules": [{"select": "all", "gpu_clocks": "9,1"}]}, ["gpu_power_rules[0].gpu_clocks is '9,1'", "did you mean '1,9'"]),
    ],
)
def test_message_names_option_value_expectation(given: dict[str, t.Any], parts: list[str]) -> None:
    found = texts(**given)
    assert len(found) == 1
    for part in parts:
        assert part in found[0]


def test_everything_wrong_is_said_at_once() -> None:
    assert len(texts("fast", "maybe", [{"select": "all", "x": 1, "ecc": 7}, 3])) == 5
