"""The allow-list: what it covers, when it expires, and what is no entry at all."""

from __future__ import annotations

import datetime
import typing as t

import pytest

from .conftest import TODAY, Check, ids, info, only

OLD = info(driver="535.309.01")
STACK = {"driver": {"version": "535.309.01"}}
ENTRY = {"id": "driver.branch_ended", "reason": "frozen until the move in spring", "expires": "2027-03-01"}


def test_an_allowed_finding_is_info_and_keeps_its_story(gate: Check) -> None:
    found = only(gate(OLD, STACK, allow=(ENTRY,)), "driver.branch_ended")
    assert found.severity == "info"
    assert found.allowed == {"reason": ENTRY["reason"], "expires": "2027-03-01", "severity": "block"}
    assert only(gate(OLD, STACK), "driver.branch_ended").severity == "block"


def test_only_the_named_finding_is_allowed(gate: Check) -> None:
    assert only(gate(OLD, STACK, allow=(ENTRY,)), "driver.advisory").severity == "block"


def test_a_subject_narrows_the_entry(gate: Check) -> None:
    stack = {"cuda": {"toolkits": ["13.0.2", "12.4.1"]}}
    entry = {**ENTRY, "id": "cuda.advisory", "subject": "12.4.1"}
    found = {item.subject: item.severity for item in gate(info(), stack, allow=(entry,)) if item.id == "cuda.advisory"}
    assert found == {"12.4.1": "info", "13.0.2": "warn"}


def test_the_last_day_still_counts(gate: Check) -> None:
    last = {**ENTRY, "expires": TODAY.isoformat()}
    assert only(gate(OLD, STACK, allow=(last,)), "driver.branch_ended").severity == "info"
    assert "policy.allow_expired" not in ids(gate(OLD, STACK, allow=(last,)))


def test_an_expired_entry_says_when_and_the_finding_counts_again(gate: Check) -> None:
    gone = {**ENTRY, "expires": "2026-11-29"}
    found = gate(OLD, STACK, allow=(gone,))
    assert only(found, "driver.branch_ended").severity == "block"
    expired = only(found, "policy.allow_expired")
    assert expired.severity == "warn"
    assert "2026-11-29" in expired.message
    assert ENTRY["reason"] in expired.message
    assert "the finding counts again" in expired.message


def test_an_expired_entry_that_covers_nothing_here_is_only_noted(gate: Check) -> None:
    expired = only(gate(info(), {}, allow=({**ENTRY, "expires": "2026-01-01"},)), "policy.allow_expired")
    assert expired.severity == "info"
    assert "covers nothing on this host" in expired.message


def test_yaml_dates_are_dates(gate: Check) -> None:
    entry = {**ENTRY, "expires": datetime.date(2027, 3, 1)}
    assert only(gate(OLD, STACK, allow=(entry,)), "driver.branch_ended").severity == "info"


def test_info_is_left_as_it_is(gate: Check) -> None:
    stack = {"cuda": {"toolkits": ["13.2.2"]}}
    found = only(gate(info(driver="580.178.04"), stack, allow=({**ENTRY, "id": "cuda.minor_version_compat"},)), "cuda.minor_version_compat")
    assert found.allowed is None


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("driver.branch_ended", "is str, expected a mapping"),
        ({"id": "driver.branch_ended", "expires": "2027-01-01"}, "lacks reason"),
        ({"id": "driver.branch_ended", "reason": " ", "expires": "2027-01-01"}, "lacks reason"),
        ({"id": "driver.branch_ended", "reason": "x"}, "lacks expires"),
        ({"reason": "x", "expires": "2027-01-01"}, "lacks id"),
        ({"id": "branch ended", "reason": "x", "expires": "2027-01-01"}, "no finding id"),
        ({"id": "driver.branch_ended", "reason": "x", "expires": "next year"}, "expected a date"),
        ({"id": "driver.branch_ended", "reason": "x", "expires": "2028-06-30"}, "at most a year"),
        ({"id": "driver.branch_ended", "reason": "x", "expire": "2027-01-01"}, "did you mean expires?"),
    ],
)
def test_what_is_no_entry_blocks_and_allows_nothing(gate: Check, entry: t.Any, text: str) -> None:
    found = gate(OLD, STACK, allow=(entry,))
    invalid = only(found, "policy.allow_invalid")
    assert invalid.severity == "block"
    assert text in invalid.message
    assert "(driver.branch_ended)" in invalid.message or not isinstance(entry, dict) or entry.get("id") != "driver.branch_ended"
    assert invalid.subject == "gpu_stack_allow[0]"
    assert only(found, "driver.branch_ended").severity == "block"


def test_findings_of_planners_are_covered_too(gate: Check, matrix: t.Any) -> None:
    from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Finding
    from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix import judge

    from .conftest import context

    extra = Finding(
        id="power.out_of_range", severity="block", component="power", found="900", needed="700", message="m", fix="f", source="s"
    )
    found = judge(matrix, info(), {}, context(allow=({**ENTRY, "id": "power.out_of_range"},)), extra=[extra])
    assert only(found, "power.out_of_range").severity == "info"
