# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back: what is kept, what is recorded, and that going back twice is going back once."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from driver_hosts import NAMES, blocking, facts, found, ids, planned, with_driver
from fake_apt import REQUEST, FakeApt, change, record_fixture  # noqa: F401

from ansible_collections.gpufleet.inference.plugins.module_utils import _apt_files, _package_files
from ansible_collections.gpufleet.inference.plugins.module_utils._apt_files import parse_uris, room_for
from ansible_collections.gpufleet.inference.plugins.module_utils._driver_rollback import roll_back
from ansible_collections.gpufleet.inference.plugins.module_utils._package_answers import PackageError

OLD, NEW = "580.1.1-1", "580.2.2-1"


def upgraded(rollback: str = "best_effort", **state: t.Any) -> FakeApt:
    """From OLD to NEW; the old one had one part more."""
    apt = FakeApt()
    change(apt, rollback=rollback)
    apt.packages["nvidia-part"] = ("580.1.1-1", "installed")
    apt.offers["nvidia-a"] = [(NEW, "mirror")]
    for name, value in state.items():
        setattr(apt, name, value)
    apt.asked.clear()
    change(apt, rollback=rollback)
    return apt


def read(record: Path) -> dict[str, t.Any]:
    content: dict[str, t.Any] = json.loads(record.read_text())
    return content


def test_going_back_is_one_transaction_from_files_and_happens_once(record: Path) -> None:
    apt = upgraded()
    apt.asked.clear()
    apt.offers.clear()
    done = roll_back(apt, True, False)  # type: ignore[arg-type]
    assert done.changed
    assert apt.asked == ["install files"]
    assert apt.packages["nvidia-a"] == (OLD, "installed")
    assert read(record)["rolled_back"] == {"version": "580.2.2", "packages": {"nvidia-a": NEW}}
    assert "previous" not in read(record)
    assert not roll_back(apt, True, False).changed  # type: ignore[arg-type]
    assert apt.packages["nvidia-a"] == (OLD, "installed")


def test_holds_and_the_exclusion_follow(record: Path) -> None:
    apt = upgraded()
    assert (apt.held, apt.excluded) == ({"nvidia-a"}, ["nvidia-a"])
    roll_back(apt, True, False)  # type: ignore[arg-type]
    assert read(record)["holds"] == apt.excluded == ["nvidia-a", "nvidia-part"]
    assert apt.held == {"nvidia-a", "nvidia-part"}
    apt = upgraded()
    roll_back(apt, False, False)  # type: ignore[arg-type]
    assert (apt.held, apt.excluded) == (set(), [])


def test_parts_that_only_the_new_set_has_leave_in_the_same_transaction(record: Path) -> None:
    apt = upgraded()
    content = read(record)
    content["packages"]["nvidia-b-new"] = NEW
    record.write_text(json.dumps(content))
    apt.packages["nvidia-b-new"] = (NEW, "installed")
    roll_back(apt, True, False)  # type: ignore[arg-type]
    assert "nvidia-b-new" not in apt.packages


def test_only_the_present_set_and_the_one_before_are_kept(record: Path) -> None:
    apt = upgraded()
    root = record.parent / "packages"
    assert sorted(folder.name for folder in root.iterdir()) == ["580.1.1", "580.2.2"]
    apt.offers["nvidia-a"] = [("580.3.3-1", "mirror")]
    change(apt)
    assert sorted(folder.name for folder in root.iterdir()) == ["580.2.2", "580.3.3"]
    assert read(record)["previous"]["version"] == "580.2.2"


def test_files_that_cannot_be_had_are_said_so_and_refused_where_they_are_required(record: Path) -> None:
    _package_files.forget()
    apt = FakeApt({"nvidia-a": OLD})
    apt.offers["nvidia-a"] = [(NEW, "mirror")]
    fetch = apt.fetch_files
    apt.fetch_files = lambda specs, folder: fetch(specs, folder) if NEW in specs.values() else lost()  # type: ignore[method-assign]
    with pytest.raises(PackageError, match="could not be brought back") as error:
        change(apt, rollback="required")
    assert error.value.reason == "rollback_unavailable"
    assert apt.packages["nvidia-a"][0] == OLD
    assert "install" not in apt.asked
    change(apt)
    assert read(record)["previous"]["unavailable"] == "gone"


@pytest.mark.parametrize("text", ["{", '{"schema": 1, "packages": []}', '{"schema": 1, "packages": {"nvidia-a": {"version": "x"}}}'])
def test_a_broken_list_of_kept_files_is_made_anew(record: Path, text: str) -> None:
    apt = upgraded()
    (record.parent / "packages/580.2.2/files.json").write_text(text)
    apt.offers["nvidia-a"] = [("580.3.3-1", "mirror")]
    change(apt)
    assert "unavailable" not in read(record)["previous"]
    roll_back(apt, True, False)  # type: ignore[arg-type]
    assert apt.packages["nvidia-a"][0] == NEW


def test_full_disk_is_no_way_back_and_no_traceback(record: Path) -> None:
    def full(specs: t.Mapping[str, str], folder: str) -> dict[str, str]:
        raise OSError(28, "No space left on device")

    apt = FakeApt({"nvidia-a": OLD})
    apt.offers["nvidia-a"] = [(NEW, "mirror")]
    apt.fetch_files = full  # type: ignore[method-assign]
    change(apt)
    assert "No space left on device" in read(record)["previous"]["unavailable"]


def lost() -> dict[str, str]:
    raise PackageError("not_available", "gone")


def test_way_back_that_would_not_resolve_is_found_out_by_simulation(record: Path) -> None:
    upgraded(unfit="libc6 is too old")
    assert read(record)["previous"]["unavailable"] == "libc6 is too old"


def test_kept_file_that_was_damaged_is_not_installed(record: Path) -> None:
    apt = upgraded()
    next((record.parent / "packages/580.1.1").glob("*.deb")).write_text("bitrot")
    with pytest.raises(PackageError, match="nvidia-a") as error:
        roll_back(apt, True, False)  # type: ignore[arg-type]
    assert error.value.reason == "rollback_unavailable"
    assert apt.packages["nvidia-a"][0] == NEW


def test_hold_of_others_stops_the_way_back(record: Path) -> None:
    apt = upgraded()
    content = read(record)
    record.write_text(json.dumps({**content, "holds": []}))
    with pytest.raises(PackageError) as error:
        roll_back(apt, True, False)  # type: ignore[arg-type]
    assert error.value.reason == "foreign_hold"


def test_policy_none_keeps_nothing(record: Path) -> None:
    upgraded(rollback="none")
    assert not (record.parent / "packages").exists()


def test_interrupted_upgrade_goes_back_to_where_it_started(record: Path) -> None:
    def cut_off() -> None:
        raise PackageError("killed", "signal 9")

    with pytest.raises(PackageError):
        upgraded(during=cut_off)
    assert read(record)["previous"]["packages"]["nvidia-a"] == OLD
    apt = FakeApt({"nvidia-a": NEW})
    roll_back(apt, True, False)  # type: ignore[arg-type]
    assert apt.packages["nvidia-a"][0] == OLD
    assert read(record)["rolled_back"]["packages"] == {"nvidia-a": NEW}
    assert "pending" not in read(record)


def test_second_interruption_does_not_take_half_a_set_for_the_way_back(record: Path) -> None:
    def cut_off() -> None:
        raise PackageError("killed", "signal 9")

    apt = FakeApt()
    change(apt)
    apt.during = cut_off
    for version in (NEW, "580.3.3-1"):
        apt.offers["nvidia-a"] = [(version, "mirror")]
        with pytest.raises(PackageError):
            change(apt)
        apt.packages["nvidia-a"] = (version, "installed")
    assert read(record)["previous"]["packages"] == {"nvidia-a": OLD}


def test_failure_before_the_first_package_leaves_the_record_as_it_was(record: Path) -> None:
    def locked() -> None:
        raise PackageError("locked", "held by process 4711 (apt-get)")

    apt = FakeApt()
    change(apt)
    before = read(record)
    apt.offers["nvidia-a"] = [(NEW, "mirror")]
    apt.during = locked
    with pytest.raises(PackageError):
        change(apt)
    assert read(record) == before


def test_present_after_a_rollback_forgets_it_only_when_the_version_moves(record: Path) -> None:
    apt = upgraded()
    roll_back(apt, True, False)  # type: ignore[arg-type]
    apt.offers["nvidia-a"] = [(OLD, "mirror")]
    change(apt)
    assert read(record)["rolled_back"]["version"] == "580.2.2"
    apt.offers["nvidia-a"] = [(NEW, "mirror")]
    change(apt)
    assert "rolled_back" not in read(record)
    assert read(record)["previous"]["version"] == "580.1.1"


PREVIOUS = {"packages": dict.fromkeys(NAMES, "570.133.20-1"), "source": "nvidia", "version": "570.133.20"}
BACK = with_driver("580.159.04", previous=PREVIOUS)


def test_plan_of_going_back_names_both_versions_and_needs_the_reboot_of_any_change() -> None:
    plan = planned(facts(BACK), state="rolled_back", branch=580, reboot="delegate")
    change = next(change for change in plan.changes if change.id == "driver.packages")
    assert "from driver 580.159.04 to 570.133.20" in change.message
    assert plan.details["packages"]["state"] == "rolled_back"
    assert plan.details["reboot"]["reasons"][0]["message"] == "module 580.159.04 is loaded, 570.133.20 is installed"
    assert blocking(plan) == []
    assert "driver" not in plan.details["stack"], "an advisory of the older driver must not stand in the way back"


def test_rolled_back_host_has_nothing_to_do() -> None:
    host = facts(with_driver("570.133.20", rolled_back={"version": "580.159.04", "packages": {}}))
    assert ids(planned(host, state="rolled_back")) == []
    assert ids(planned(host)) == [], "nor has state present that asks for nothing"


def test_nothing_to_go_back_to_is_said() -> None:
    assert "no earlier set is recorded" in found(planned(facts(with_driver()), state="rolled_back"), "nothing_to_roll_back").message
    assert found(planned(facts(), state="rolled_back"), "nothing_to_roll_back").severity == "block"


def test_asking_for_what_was_rolled_back_is_done_with_a_warning() -> None:
    host = facts(with_driver("570.133.20", rolled_back={"version": "580.159.04", "packages": {}}))
    plan = planned(host, version="580.159.04")
    assert found(plan, "rolled_back").severity == "warn"
    assert "driver.packages" in ids(plan)


def test_missing_way_back_is_a_warning_for_a_rollout_to_read() -> None:
    host = facts(with_driver("580.159.04", previous={**PREVIOUS, "unavailable": "no repository has it"}))
    assert found(planned(host), "rollback_unavailable").severity == "warn"
    assert found(planned(host, state="rolled_back"), "rollback_unavailable").severity == "block"
    assert planned(host, rollback="none").findings == []


def test_files_of_a_transaction_are_read_off_apts_list() -> None:
    text = "'http://m/./a_1%3a2-1_amd64.deb' a_1%3a2-1_amd64.deb 20672 SHA256:AB12\n'http://m/b_3_all.deb' b_3_all.deb 10\n"
    assert [tuple(one) for one in parse_uris(text)] == [("a", "a_1%3a2-1_amd64.deb", 20672, "ab12"), ("b", "b_3_all.deb", 10, "")]


def test_disk_is_measured_before_it_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("usage", (), {"free": 300 << 20})
    monkeypatch.setattr(_apt_files.shutil, "disk_usage", lambda _path: usage)
    room_for(10 << 20, f"{tmp_path}/not/yet")
    with pytest.raises(PackageError, match="300 MiB free") as error:
        room_for(100 << 20, f"{tmp_path}/not/yet")
    assert error.value.reason == "disk_full"
