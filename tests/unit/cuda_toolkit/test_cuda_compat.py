# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cuda-compat: only where the matrix allows it, and gone when the driver has outgrown it."""

from __future__ import annotations

from typing import Any

import pytest
from cuda_hosts import host, ids, make, the

LD = "/etc/ld.so.conf.d/00-gpufleet-cuda-compat.conf"


def compat(wanted: dict[str, Any], facts: dict[str, Any]) -> str | None:
    """Name of the compat package that is asked for."""
    details = make({"versions": ["12.8.1", "13.0.2"], **wanted}, facts).details
    names = [package["name"] for package in details["packages"]["packages"] if "compat" in package["name"]]
    assert bool(details["environment"]["files"][LD]) == bool(names) == details["stack"]["cuda"]["compat"]
    assert len(names) < 2
    return names[0] if names else None


@pytest.mark.parametrize(
    ("driver", "gpu", "word", "expected"),
    [
        ("570.133.20", "h100", "auto", "cuda-compat-13-0"),
        ("570.133.20", "h100", "required", "cuda-compat-13-0"),
        ("570.133.20", "h100", "absent", None),
        ("570.133.20", "rtx4090", "auto", None),
        ("570.133.20", None, "auto", None),
        ("580.82.07", "h100", "auto", "cuda-compat-13-0"),  # 13.0.2 belongs to 580.95.05
        ("580.95.05", "h100", "auto", None),
        ("595.45.04", "h100", "required", None),
        (None, "h100", "auto", None),
    ],
)
def test_who_gets_it(driver: str | None, gpu: str | None, word: str, expected: str | None) -> None:
    assert compat({"compat": word}, host(driver=driver, gpu=gpu)) == expected


def test_the_newest_that_is_needed_serves_all() -> None:
    assert compat({"compat": "auto", "versions": ["12.8.1", "12.9.1"]}, host(driver="550.163.01")) == "cuda-compat-12-9"


@pytest.mark.parametrize(("driver", "gpu"), [("570.133.20", "rtx4090"), (None, "h100"), ("570.133.20", None)])
def test_required_and_impossible_stops_the_host(driver: str | None, gpu: str | None) -> None:
    finding = the(make({"versions": ["13.0.2"], "compat": "required"}, host(driver=driver, gpu=gpu)), "cuda.compat_unsupported")
    assert finding.severity == "block"


def test_required_and_outgrown_is_only_said() -> None:
    assert the(make({"versions": ["13.0.2"], "compat": "required"}, host(driver="595.45.04")), "cuda.compat_outgrown").severity == "info"


def test_an_old_base_branch_is_warned_about_not_refused() -> None:
    # The row is unverified: it may warn, never block.
    assert the(make({"versions": ["12.4.1"], "compat": "auto"}, host(driver="525.147.05")), "cuda.compat_base").severity == "warn"


def test_ours_goes_when_the_driver_outgrows_it() -> None:
    facts = host(
        driver="580.105.08",
        packages={
            "set": {"cuda-compat-13-0": "580.95.05-1", "cuda-toolkit-13-0": "13.0.2-1"},
            "holds": ["cuda-compat-13-0", "cuda-toolkit-13-0"],
        },
        cuda={"compat": [{"version": "580.95.05", "path": "/usr/local/cuda-13.0/compat"}]},
        state_files={"cuda": {"packages": {"cuda-compat-13-0": "580.95.05-1", "cuda-toolkit-13-0": "13.0.2-1"}}, "files": {LD: "x"}},
    )
    result = make({"versions": ["13.0.2"], "compat": "auto"}, facts)
    gone = {change.subject: (change.after, change.disruption) for change in result.changes if change.after is None}
    assert gone == {"cuda-compat-13-0": (None, "engine_restart"), LD: (None, "engine_restart")}
    assert ids(result, "warn", "block") == []


def test_somebody_elses_is_reported_and_left_alone() -> None:
    facts = host(driver="580.105.08", cuda={"compat": [{"version": "580.95.05", "path": "/usr/local/cuda-13.0/compat"}]})
    result = make({"versions": ["13.0.2"]}, facts)
    assert the(result, "cuda.compat_outgrown").severity == "warn"
    assert [change.subject for change in result.changes if change.after is None] == []
