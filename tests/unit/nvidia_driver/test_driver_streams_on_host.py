# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dnf's file of the enabled stream, over a change of the driver's branch, the way back and a removal."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from fake_apt import REQUEST, FakeApt, record_fixture  # noqa: F401

from ansible_collections.gpufleet.inference.plugins.module_utils._dnf_streams import enabled_stream
from ansible_collections.gpufleet.inference.plugins.module_utils._driver_rollback import roll_back
from ansible_collections.gpufleet.inference.plugins.module_utils._driver_transaction import change_packages, driver_ground, remove_packages
from ansible_collections.gpufleet.inference.plugins.module_utils._package_answers import PackageError

OLD, NEW = "580.1.1-1", "595.1.1-1"


def file_of(record: Path) -> Path:
    return record.parent / "modules.d/nvidia-driver.module"


def enable(record: Path, stream: str) -> None:
    """As dnf writes it."""
    file_of(record).parent.mkdir(exist_ok=True)
    file_of(record).write_text(f"[nvidia-driver]\nname=nvidia-driver\nstream={stream}\nprofiles=\nstate=enabled\n\n")


def enabled(record: Path) -> str:
    path = file_of(record)
    return enabled_stream(path.read_text()) if path.exists() else ""


def change(apt: FakeApt, record: Path, stream: str) -> None:
    ground = driver_ground()._replace(stream=f"nvidia-driver:{stream}")
    apt.during = lambda: enable(record, stream)
    change_packages(t.cast(t.Any, apt), REQUEST._replace(branch=int(stream[:3])), "nvidia", True, False, ground, "best_effort")
    apt.during = lambda: None


def upgraded(record: Path, before: str, recorded: str | None) -> FakeApt:
    """580 to 595, from the stream `before`."""
    apt = FakeApt({"nvidia-a": OLD})
    apt.offers["nvidia-a"] = [(NEW, "mirror")]
    if before:
        enable(record, before)
    state = {"schema": 1, "packages": {"nvidia-a": OLD}, "holds": [], **({"module_stream": recorded} if recorded else {})}
    record.write_text(json.dumps(state))
    change(apt, record, "595-open")
    assert (apt.packages["nvidia-a"][0], enabled(record)) == (NEW, "595-open")
    return apt


@pytest.mark.parametrize(
    ("before", "recorded", "then"),
    [
        ("580-open", "nvidia-driver:580-open", "nvidia-driver:580-open"),
        ("580-dkms", None, None),  # somebody else's; leaving it was asked for
        ("", None, None),
    ],
)
def test_the_way_back_leads_to_the_stream_before(record: Path, before: str, recorded: str | None, then: str | None) -> None:
    apt = upgraded(record, before, recorded)
    assert json.loads(record.read_text())["module_stream"] == "nvidia-driver:595-open"
    roll_back(t.cast(t.Any, apt), True, False)
    assert (apt.packages["nvidia-a"][0], enabled(record)) == (OLD, before)
    assert json.loads(record.read_text()).get("module_stream") == then


def test_a_stream_that_the_change_did_not_touch_stays(record: Path) -> None:
    apt = upgraded(record, "595-open", "nvidia-driver:595-open")
    assert "module_stream" not in json.loads(record.read_text())["previous"]
    roll_back(t.cast(t.Any, apt), True, False)
    assert enabled(record) == "595-open"


def test_a_change_that_failed_before_its_first_package_leaves_the_record_of_the_stream(record: Path) -> None:
    apt = upgraded(record, "580-open", "nvidia-driver:580-open")

    def fail() -> None:
        raise PackageError("locked", "another rpm")

    apt.offers["nvidia-a"] = [("600.1.1-1", "mirror")]
    apt.during = fail
    ground = driver_ground()._replace(stream="nvidia-driver:600-open")
    with pytest.raises(PackageError):
        change_packages(t.cast(t.Any, apt), REQUEST._replace(branch=600), "nvidia", True, False, ground, "best_effort")
    assert json.loads(record.read_text())["module_stream"] == "nvidia-driver:595-open"


def test_a_removal_takes_a_stream_of_ours_and_needs_no_repository(record: Path) -> None:
    apt = upgraded(record, "580-open", "nvidia-driver:580-open")
    ground = driver_ground()
    remove_packages(t.cast(t.Any, apt), ["nvidia-a"], True, ground._replace(stream="nvidia-driver:595-open"))
    assert enabled(record) == "595-open"
    remove_packages(t.cast(t.Any, apt), ["nvidia-a"], False, ground)
    assert enabled(record) == "595-open"
    # Cut off behind the packages: the stream still goes.
    remove_packages(t.cast(t.Any, apt), ["nvidia-a"], False, ground._replace(stream="nvidia-driver:595-open"))
    assert enabled(record) == ""
