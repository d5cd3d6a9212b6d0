"""Holds of the toolkit's set: dnf's list of locks, what is said where there is none."""

from __future__ import annotations

from typing import Any

import pytest
from test_container_plan import facts, good, plan

from ansible_collections.gpufleet.inference.plugins.plugin_utils import _toolkit_holds as holds

LIST = "/etc/dnf/plugins/versionlock.list"
OURS = "".join(f"# Added lock by gpufleet.inference\n{name}-0:1.20.0-1.*\n" for name in sorted(holds.NAMES))
THEIRS = "# theirs\nkernel-0:5.14.0-1.el9.*\n"


def dnf(given: dict[str, Any], text: str | None) -> dict[str, Any]:
    given["packages"]["manager"] = "dnf"
    given["container_info"]["versionlock"] = None if text is None else {"path": LIST, "text": text}
    given["packages"]["holds"] = [name for name in holds.NAMES if f"{name}-0:" in (text or "")]
    return given


def test_a_virgin_host_gets_a_lock_of_each_package_at_the_version_that_comes() -> None:
    details = plan(dnf(facts(), THEIRS)).details
    assert details["locks"] == {"path": LIST, "text": THEIRS + OURS}
    assert details["record"]["holds"] == sorted(holds.NAMES)
    assert "holds" not in details, "no apt-mark on a host with dnf"


@pytest.mark.parametrize("text", [THEIRS + OURS, OURS + THEIRS])
def test_held_is_held_wherever_the_lines_are(text: str) -> None:
    changes = [change.id for change in plan(dnf(good(), text)).changes if "hold" in change.id or "record" in change.id]
    assert changes == []


def test_a_move_lifts_our_locks_first_and_writes_those_of_the_new_version() -> None:
    details = plan(dnf(good(), THEIRS + OURS), version="1.20.1").details
    assert details["locks_before"]["text"] == THEIRS
    assert details["locks"]["text"] == THEIRS + OURS.replace("1.20.0", "1.20.1")


def test_a_move_with_apt_holds_again_what_it_lifted_first() -> None:
    details = plan(good(), version="1.20.1").details
    assert details["lift_first"] == sorted(holds.NAMES)
    assert details["holds"] == {"hold": sorted(holds.NAMES), "lift": []}
    assert plan(good(), version="1.20.1", hold=False).details["holds"] == {"hold": [], "lift": []}, "they are lifted once"


def test_what_was_lifted_is_known_for_a_transaction_that_fails() -> None:
    assert plan(good(), version="1.20.1").details["lifted"] == {"holds": sorted(holds.NAMES)}
    assert plan(good(), state="absent").details["lifted"] == {"holds": sorted(holds.NAMES)}
    locks = {"path": LIST, "text": THEIRS + OURS}
    assert plan(dnf(good(), THEIRS + OURS), version="1.20.1").details["lifted"] == {"holds": [], "locks": locks}
    assert plan(dnf(good(), THEIRS + OURS), state="absent").details["lifted"] == {"holds": [], "locks": locks}


def test_what_was_not_lifted_is_not_put_back() -> None:
    given = good()
    given["packages"]["holds"] = ["libnvidia-container1"]
    given["container_info"]["toolkit"]["record"]["holds"] = []
    assert plan(given, version="1.20.1").details["lifted"] == {"holds": []}, "it is somebody else's"
    assert plan(dnf(facts(), THEIRS)).details["lifted"] == {"holds": []}, "their list is not written for nothing"


def test_a_lock_of_ours_that_its_package_has_left_is_written_anew() -> None:
    details = plan(dnf(good(), OURS.replace("libnvidia-container1-0:1.20.0", "libnvidia-container1-0:1.19.1"))).details
    assert sorted(details["locks"]["text"].splitlines()) == sorted(OURS.splitlines())


def test_no_hold_lifts_ours_alone() -> None:
    assert plan(dnf(good(), THEIRS + OURS), hold=False).details["locks"]["text"] == THEIRS


@pytest.mark.parametrize(("manager", "command"), [("dnf", "dnf versionlock delete"), ("apt", "apt-mark unhold")])
def test_a_foreign_hold_says_the_hosts_own_command(manager: str, command: str) -> None:
    given = dnf(good(), OURS)
    given["packages"]["manager"] = manager
    given["container_info"]["toolkit"]["record"] = None
    found = [finding for finding in plan(given, version="1.20.1").findings if finding.id == "container_toolkit.foreign_hold"]
    assert [finding.fix for finding in found] == [f"If the hold is no longer wanted: {command} {' '.join(sorted(holds.NAMES))}"]


def test_without_the_plugin_nothing_can_be_held_and_it_says_so() -> None:
    findings = plan(dnf(facts(), None)).findings
    assert [(finding.id, finding.severity) for finding in findings] == [("container_toolkit.no_versionlock", "block")]
    assert "nvidia_container_toolkit_hold: false" in findings[0].fix
    assert plan(dnf(facts(), None), hold=False).findings == []


def test_absent_takes_our_locks_out() -> None:
    absent = plan(dnf(good(), THEIRS + OURS), state="absent").details["absent"]
    assert absent["locks"] == [{"path": LIST, "text": THEIRS}]
    assert absent["lift"] == []
