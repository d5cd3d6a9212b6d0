"""The filter: findings for a machine that nobody has read."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.inference.plugins.filter.stack_findings import FilterModule

from .conftest import info

findings = FilterModule().filters()["stack_findings"]
DAY = "2026-11-30"
MACHINE = {"gpus": ["h100_sxm"] * 8, "os": "debian12"}


def names(machine: t.Any, stack: t.Any = None, **more: t.Any) -> list[str]:
    return [item["id"] for item in findings(machine, stack, today=DAY, **more)]


def test_a_described_machine() -> None:
    assert names(MACHINE, {"name": "lts-620"}) == []
    assert "driver.branch_ended" in names(MACHINE, {"driver": {"branch": 550}})
    assert "cuda.architecture_dropped" in names({"gpus": ["v100"], "os": "debian12"}, {"name": "lts-580"})


def test_products_ids_and_full_documents_mean_the_same() -> None:
    stack = {"driver": {"version": "565.77"}}
    by_product = names({"gpus": ["NVIDIA B200"], "os": "debian12"}, stack)
    assert names({"gpus": ["b200"], "os": "debian12"}, stack) == by_product
    assert names(info(("NVIDIA B200",)), stack) == by_product
    assert "driver.branch_too_old" in by_product


def test_what_the_description_says_counts() -> None:
    assert "driver.open_kernel_too_old" in names({**MACHINE, "kernel": "3.10.0"}, {"driver": {"branch": 620, "kernel_modules": "open"}})
    assert "cuda.driver_too_old" in names({**MACHINE, "driver": "570.211.01"}, {"cuda": {"toolkits": ["13.0.2"]}})
    assert "container_toolkit.engine_too_old" in names(
        {**MACHINE, "container_engines": {"docker": "25.0.5"}}, {"container_toolkit": {"version": "1.20.0"}}
    )
    assert "os.unsupported" in names({**MACHINE, "arch": "aarch64"}, {"driver": {"branch": 620}})


def test_allow_unknown_and_today() -> None:
    allowed = findings(
        MACHINE,
        {"driver": {"version": "550.163.01"}},
        allow=[{"id": "driver.branch_ended", "reason": "x", "expires": "2027-01-01"}],
        today=DAY,
    )
    assert {item["id"]: item["severity"] for item in allowed}["driver.branch_ended"] == "info"
    assert findings({"gpus": ["NVIDIA Z9000"]}, unknown="warn", today=DAY)[0]["severity"] == "warn"
    assert "driver.branch_ended" not in [item["id"] for item in findings(MACHINE, {"driver": {"branch": 550}}, today="2025-01-01")]


@pytest.mark.parametrize(
    ("machine", "more", "text"),
    [
        ("h100", {}, "found str"),
        ({"gpu": ["h100_sxm"]}, {}, "did you mean gpus?"),
        ({"gpus": "h100_sxm"}, {}, "expected a list of product names"),
        ({"gpus": []}, {}, "expected a list of product names"),
        ({"gpus": ["h100_sxm"], "os": "debian-12"}, {}, "did you mean debian12?"),
        (MACHINE, {"today": "tomorrow"}, "expected a date"),
        (MACHINE, {"unknown": "ignore"}, "expected warn or block"),
        (MACHINE, {"stack": []}, "expected a mapping"),
        (MACHINE, {"matrix_overlay": ["/nowhere.yml"]}, "cannot be read"),
    ],
)
def test_bad_input(machine: t.Any, more: dict[str, t.Any], text: str) -> None:
    with pytest.raises(AnsibleFilterError) as error:
        findings(machine, **more)
    assert text in str(error.value)
