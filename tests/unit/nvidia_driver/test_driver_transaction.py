# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of what is ours, and one transaction's order of things. apt is replaced; the real one runs in molecule/nvidia_driver."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from fake_apt import FakeApt, change, record_fixture  # noqa: F401
from openpgp_keys import ED25519, ED25519_FINGERPRINT, TWO_KEYS

from ansible_collections.gpufleet.inference.plugins.module_utils import (
    _driver_repository,
    _driver_steps,
)
from ansible_collections.gpufleet.inference.plugins.module_utils._apt import PackageError, Simulation
from ansible_collections.gpufleet.inference.plugins.module_utils._driver_record import read_record, update_record
from ansible_collections.gpufleet.inference.plugins.module_utils._driver_repository import Repository
from ansible_collections.gpufleet.inference.plugins.module_utils._driver_steps import services_left_alone
from ansible_collections.gpufleet.inference.plugins.module_utils._driver_transaction import heal, remove_packages


def test_transaction_is_recorded_before_it_begins_and_services_are_left_alone(record: Path) -> None:
    apt = FakeApt()
    seen: dict[str, t.Any] = {}

    def during() -> None:
        seen.update(json.loads(record.read_text()))
        seen["policy"] = (record.parent / "policy-rc.d").read_text()

    apt.during = during
    done = change(apt)
    assert seen["pending"] == {"nvidia-a": "580.1.1-1"}
    assert "exit 101" in seen["policy"]
    assert not (record.parent / "policy-rc.d").exists()
    assert done.changed
    assert json.loads(record.read_text()) == {"schema": 1, "packages": {"nvidia-a": "580.1.1-1"}, "holds": ["nvidia-a"], "source": "nvidia"}
    assert apt.asked == ["download", "fetch files", "install"]


def test_second_time_nothing_is_asked_for(record: Path) -> None:
    apt = FakeApt()
    change(apt)
    apt.asked.clear()
    assert not change(apt).changed
    assert apt.asked == []


def test_check_mode_writes_nothing(record: Path) -> None:
    apt = FakeApt()
    assert change(apt, check=True).changed
    assert apt.asked == []
    assert not record.exists()


def test_failed_transaction_leaves_the_record_pending_and_no_policy(record: Path) -> None:
    apt = FakeApt()

    def during() -> None:
        raise PackageError("dpkg_failed", "postinst")

    apt.during = during
    with pytest.raises(PackageError):
        change(apt)
    assert json.loads(record.read_text())["pending"] == {"nvidia-a": "580.1.1-1"}
    assert not (record.parent / "policy-rc.d").exists()


def test_policy_of_a_killed_run_goes_and_that_of_the_host_stays(record: Path) -> None:
    policy = record.parent / "policy-rc.d"
    policy.write_text(_driver_steps._POLICY_TEXT)
    heal(FakeApt(), set())  # type: ignore[arg-type]
    assert not policy.exists()
    policy.write_text("#!/bin/sh\nexit 0\n")
    change(FakeApt())
    assert policy.read_text() == "#!/bin/sh\nexit 0\n"


def test_stale_lists_are_fetched_anew_once(record: Path) -> None:
    apt = FakeApt()
    apt.stale_downloads = 1
    change(apt)
    assert apt.asked == ["download", "update", "download", "fetch files", "install"]
    apt = FakeApt()
    apt.stale_downloads = 2
    with pytest.raises(PackageError):
        change(apt)
    assert "install" not in apt.asked


def test_removal_of_others_is_refused(record: Path) -> None:
    apt = FakeApt()
    apt.removes = ["postgresql"]
    with pytest.raises(PackageError, match="would remove postgresql") as error:
        change(apt)
    assert error.value.reason == "would_remove"
    assert not record.exists()


def test_hold_of_others_is_refused_and_own_ones_move(record: Path) -> None:
    apt = FakeApt({"nvidia-a": "570.1.1-1"})
    apt.held = {"nvidia-a"}
    with pytest.raises(PackageError, match="would move nvidia-a, which someone else holds"):
        change(apt)
    update_record({"holds": ["nvidia-a"]}, str(record))
    assert change(apt).changed
    assert apt.held == {"nvidia-a"}


def test_foreign_hold_stays_foreign_when_nothing_moves(record: Path) -> None:
    apt = FakeApt({"nvidia-a": "580.1.1-1"})
    apt.held = {"nvidia-a"}
    change(apt)
    assert read_record(str(record))["holds"] == []


def test_previous_set_is_kept(record: Path) -> None:
    apt = FakeApt()
    change(apt)
    apt.offers["nvidia-a"] = [("580.2.2-1", "mirror")]
    change(apt)
    assert read_record(str(record))["previous"] == {
        "packages": {"nvidia-a": "580.1.1-1"},
        "source": "nvidia",
        "version": "580.1.1",
    }


def test_new_packages_forget_old_reboots(record: Path) -> None:
    update_record({"rebooted_for": {"driver.module_stale: x": "boot"}}, str(record))
    change(FakeApt())
    assert "rebooted_for" not in read_record(str(record))


def test_half_configured_packages_of_others_are_not_touched(record: Path) -> None:
    apt = FakeApt()
    apt.packages["grub-pc"] = ("2", "half-configured")
    with pytest.raises(PackageError) as error:
        change(apt)
    assert error.value.reason == "foreign_broken"
    assert apt.asked == []


def test_half_configured_packages_of_ours_are_finished(record: Path) -> None:
    update_record({"pending": {"nvidia-a": "580.1.1-1"}}, str(record))
    apt = FakeApt()
    apt.packages["nvidia-a"] = ("580.1.1-1", "half-configured")
    change(apt)
    assert apt.asked == ["configure"]
    assert read_record(str(record))["packages"] == {"nvidia-a": "580.1.1-1"}
    assert "pending" not in read_record(str(record))


def test_package_that_is_not_as_planned_afterwards_is_a_failure(record: Path) -> None:
    apt = FakeApt()
    apt.install = lambda specs, downgrade: None  # type: ignore[method-assign]
    with pytest.raises(PackageError, match=r"after the transaction nvidia-a is absent, wanted 580\.1\.1-1"):
        change(apt)


def test_removal_is_simulated_and_then_forgotten(record: Path) -> None:
    apt = FakeApt()
    change(apt)
    apt.removes = ["postgresql"]
    with pytest.raises(PackageError, match="would also remove postgresql"):
        remove_packages(apt, ["nvidia-a"], False)  # type: ignore[arg-type]
    apt.removes = []
    assert remove_packages(apt, ["nvidia-a"], False).changed  # type: ignore[arg-type]
    assert apt.held == set()
    assert not record.exists()


def test_what_came_along_goes_along_and_nothing_else(record: Path) -> None:
    apt = FakeApt({"old-kernel": "1"})
    plain = apt.simulate
    apt.simulate = lambda specs, downgrade=False: Simulation({**plain(specs).install, "dkms": "3"}, [], "")  # type: ignore[method-assign]
    change(apt)
    assert read_record(str(record))["dependencies"] == ["dkms"]
    apt.packages["dkms"] = ("3", "installed")
    remove_packages(apt, ["nvidia-a"], False)  # type: ignore[arg-type]
    assert set(apt.packages) == {"old-kernel"}


def test_a_removal_that_was_killed_behind_its_packages_is_finished(record: Path) -> None:
    """No package may start a service while policy-rc.d of the killed run is there."""
    apt = FakeApt()
    change(apt)
    update_record({"dependencies": ["dkms"]}, str(record))
    apt.packages = {"dkms": ("3", "installed")}
    policy = record.parent / "policy-rc.d"
    with services_left_alone():
        left = policy.read_text()
    policy.write_text(left)
    assert remove_packages(apt, ["nvidia-a"], False).changed  # type: ignore[arg-type]
    assert not policy.exists()
    assert not apt.packages
    assert not record.exists()


def test_repository_is_tried_before_it_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, source = tmp_path / "key.asc", tmp_path / "x.sources"
    monkeypatch.setattr(_driver_repository, "KEY_FILE", str(key))
    monkeypatch.setattr(_driver_repository, "SOURCE_FILE", str(source))
    apt = FakeApt()

    def refuse(parts: str | None = None) -> None:
        assert parts is not None
        assert "http://mirror/" in (Path(parts) / "try.sources").read_text()
        raise PackageError("repository_signature", "NO_PUBKEY")

    apt.update = refuse  # type: ignore[method-assign]
    with pytest.raises(PackageError):
        Repository("http://mirror/", ED25519).configure(apt)  # type: ignore[arg-type]
    assert not key.exists()
    assert not source.exists()
    good = Repository("http://mirror/", ED25519)
    assert good.configure(FakeApt())  # type: ignore[arg-type]
    assert f"Signed-By: {key}" in source.read_text()
    good.restore()
    assert not source.exists()
    assert not key.exists()


def test_key_that_is_none_is_refused() -> None:
    with pytest.raises(PackageError) as error:
        Repository("http://mirror/", "<html>404</html>")
    assert error.value.reason == "repository_key"


def test_key_with_another_fingerprint_is_refused_before_it_is_trusted() -> None:
    Repository("http://mirror/", ED25519, ED25519_FINGERPRINT.lower())
    with pytest.raises(PackageError, match="expected " + "A" * 40) as error:
        Repository("http://mirror/", ED25519, "A" * 40)
    assert error.value.reason == "repository_key"


def test_file_with_one_key_more_is_not_the_expected_one() -> None:
    with pytest.raises(PackageError, match="expected"):
        Repository("http://mirror/", TWO_KEYS, ED25519_FINGERPRINT)
