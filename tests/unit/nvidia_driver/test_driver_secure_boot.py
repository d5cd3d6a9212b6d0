# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia_driver_secure_boot: what is refused, staged, waited for and taken back."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from driver_hosts import blocking, facts, found, ids, planned, with_driver

OURS, VENDOR, OTHER = "a" * 40, "b" * 40, "c" * 40
CONTENT = b"\x30\x82\x03\x01" + b"certificate" * 9
PEM = "-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(CONTENT).decode() + "-----END CERTIFICATE-----\n"
MOK = {"branch": 580, "secure_boot": "mok", "mok_given": "usable"}


def boot(
    fingerprint: str | None = None, enrolled: tuple[str, ...] = (), requested: tuple[str, ...] = (), state: str = "enabled"
) -> dict[str, Any]:
    key = {"private": "/var/lib/dkms/mok.key", "certificate": "/var/lib/dkms/mok.pub", "fingerprint": fingerprint}
    known = [VENDOR, *enrolled]
    own = fingerprint in known if fingerprint else None
    parts = {"state": state, "lockdown": "integrity", "mok_enrolled": own, "key": key, "enrolled": known, "requested": list(requested)}
    return {"host": {"secure_boot": parts}}


def recorded(mark: str = OURS) -> dict[str, Any]:
    return {
        "state_files": {
            "driver": {"schema": 1, "packages": {}, "holds": [], "mok": {"fingerprint": mark, "boot_id": "boot-1", "made": True}}
        }
    }


def test_mok_makes_and_requests_a_key_and_touches_nothing_else() -> None:
    plan = planned(facts(boot()), **MOK)
    assert (ids(plan), blocking(plan), plan.decision) == (["driver.mok"], [], "converge")
    assert plan.details == {"mok": {"state": "present", "private": "/var/lib/dkms/mok.key", "certificate": "/var/lib/dkms/mok.pub"}}


def test_waiting_host_is_not_ready_and_nothing_is_staged_twice() -> None:
    plan = planned(facts(boot(OURS, requested=(OURS,))), **{**MOK, "mok_given": ""})
    assert (ids(plan), blocking(plan)) == ([], ["driver.mok_enrolment_pending"])
    assert "Enroll MOK" in found(plan, "mok_enrolment_pending").fix


def test_enrolled_key_lets_the_plan_go_on() -> None:
    plan = planned(facts(boot(OURS, enrolled=(OURS,))), branch=580, secure_boot="mok")
    assert not blocking(plan)
    assert {"driver.packages", "driver.load"} <= set(ids(plan))
    assert "driver.mok" not in ids(plan)


def test_dropped_request_is_made_anew() -> None:
    assert ids(planned(facts(boot(OURS), recorded()), **MOK)) == ["driver.mok"]


@pytest.mark.parametrize(("password", "finding"), [("", "mok_password_missing"), ("unusable", "bad_input")])
def test_password_is_asked_for_by_name_and_never_shown(password: str, finding: str) -> None:
    plan = planned(facts(boot()), **{**MOK, "mok_given": password})
    assert found(plan, finding).subject == "nvidia_driver_mok_password"
    assert "driver.mok" not in ids(plan)


def test_request_of_others_is_not_joined() -> None:
    plan = planned(facts(boot(OURS, requested=(OTHER,))), **MOK)
    assert "driver.mok_foreign_request" in blocking(plan)
    assert "driver.mok" not in ids(plan)


def test_foreign_hold_is_said_before_anything_is_staged() -> None:
    held = {"packages": {"holds": ["nvidia-kernel-open-dkms"], "set": {"nvidia-kernel-open-dkms": "570.133.20-1"}}}
    plan = planned(facts(boot(), held), **MOK)
    assert "driver.foreign_hold" in blocking(plan)


def test_imported_key_is_compared_by_its_certificate() -> None:
    mark = hashlib.sha1(CONTENT, usedforsecurity=False).hexdigest()
    given = {**MOK, "mok_certificate": PEM, "mok_private_key": True}
    assert ids(planned(facts(boot(OURS, enrolled=(OURS,))), **given)) == ["driver.mok"]
    assert "driver.packages" in ids(planned(facts(boot(mark, enrolled=(mark,))), **given))
    assert blocking(planned(facts(boot(mark, requested=(mark,))), **given)) == ["driver.mok_enrolment_pending"]


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        ({"mok_certificate": PEM}, "nvidia_driver_mok_private_key"),
        ({"mok_private_key": True}, "nvidia_driver_mok_certificate"),
        ({"mok_certificate": "MIIB", "mok_private_key": True}, "nvidia_driver_mok_certificate"),
        ({"secure_boot": "moc"}, "nvidia_driver_secure_boot"),
    ],
)
def test_wrong_input(settings: dict[str, Any], variable: str) -> None:
    assert variable in [finding.subject for finding in planned(facts(), **settings).findings]


def test_prebuilt_signed_takes_only_what_the_distribution_signs() -> None:
    plan = planned(facts(boot(OURS, enrolled=(OURS,))), branch=580, secure_boot="prebuilt_signed")
    assert found(plan, "secure_boot_not_prebuilt").nearest == "nvidia_driver_secure_boot: mok"
    assert not blocking(planned(facts(boot(state="disabled")), branch=580, secure_boot="prebuilt_signed"))


@pytest.mark.parametrize("desired", [{"branch": 570}, {"state": "absent"}, {"branch": 570, "secure_boot": "prebuilt_signed"}])
def test_our_request_is_taken_back_when_it_is_not_wanted(desired: dict[str, Any]) -> None:
    host = facts(
        with_driver(), boot(OURS, requested=(OURS,)), {"state_files": {"driver": {"mok": recorded()["state_files"]["driver"]["mok"]}}}
    )
    plan = planned(host, **desired)
    assert plan.details["mok"] == {"state": "absent", "fingerprint": OURS}


def test_request_without_a_record_of_ours_stays() -> None:
    assert "mok" not in planned(facts(boot(OURS, requested=(OURS,))), branch=580).details


def test_running_driver_needs_no_key_of_ours() -> None:
    plan = planned(facts(with_driver(), boot(OURS)), branch=570, secure_boot="mok")
    assert not plan.changes
    assert not blocking(plan)
