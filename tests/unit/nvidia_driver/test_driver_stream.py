# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dnf module stream of a driver, and what else differs on systems with dnf."""

from __future__ import annotations

from typing import Any

import pytest
from driver_hosts import blocking, facts, found, ids
from test_driver_matrix import planned

ROCKY: dict[str, Any] = {
    "host": {
        "os": {"id": "rocky", "version_id": "9.6", "pretty_name": "Rocky Linux 9.6", "family": "redhat"},
        "kernel": {"release": "5.14.0-570.el9.x86_64", "headers": []},
    },
    "packages": {"manager": "dnf", "streams": {}},
}


def rocky(stream: str = "", record: str = "", version: str = "9.6") -> dict[str, Any]:
    state = {"schema": 1, "packages": {}, "holds": [], "module_stream": record} if record else None
    streams = {"nvidia-driver": stream} if stream else {}
    return facts(ROCKY, {"host": {"os": {"version_id": version}}, "packages": {"streams": streams}, "state_files": {"driver": state}})


def test_a_stream_is_enabled_where_there_is_none() -> None:
    plan = planned(rocky(), branch=580)
    assert plan.details["packages"]["module_stream"] == "nvidia-driver:580-open"
    assert "driver.module_stream" in ids(plan)
    assert planned(rocky(), branch=580, kernel_modules="proprietary").details["packages"]["module_stream"] == "nvidia-driver:580-dkms"


@pytest.mark.parametrize("stream", ["580-open", "open-dkms"])
def test_a_stream_that_serves_is_left_alone(stream: str) -> None:
    plan = planned(rocky(stream), branch=580)
    assert "module_stream" not in plan.details["packages"]
    assert not blocking(plan)


@pytest.mark.parametrize("stream", ["570-open", "580-dkms", "latest-dkms", "580"])
def test_a_stream_of_others_is_never_switched_silently(stream: str) -> None:
    plan = planned(rocky(stream), branch=580)
    finding = found(plan, "module_stream")
    assert (finding.severity, finding.found, finding.nearest) == ("block", f"nvidia-driver:{stream}", "nvidia-driver:580-open")
    assert "module_stream" not in plan.details["packages"]
    switched = planned(rocky(stream), branch=580, module_stream="switch")
    assert switched.details["packages"]["module_stream"] == "nvidia-driver:580-open"
    assert not blocking(switched)


def test_our_own_stream_follows_the_branch() -> None:
    plan = planned(rocky("570-open", record="nvidia-driver:570-open"), branch=580)
    assert plan.details["packages"]["module_stream"] == "nvidia-driver:580-open"
    assert not blocking(plan)


def test_systems_without_streams_get_none() -> None:
    plan = planned(rocky(version="10.1"), branch=580)
    assert "module_stream" not in plan.details["packages"]
    assert plan.details["packages"]["repository_url"].endswith("/rhel10/x86_64/")


def test_headers_and_key_have_their_rpm_names() -> None:
    request = planned(rocky(), branch=580).details["packages"]
    assert request["optional"] == ["kernel-devel-5.14.0-570.el9.x86_64"]
    assert request["repository_key_url"].endswith("/D42D0685.pub")


def test_absent_forgets_a_stream_of_ours() -> None:
    host = rocky("580-open", record="nvidia-driver:580-open")
    host["state_files"]["driver"]["holds"] = ["nvidia-open"]
    assert planned(host, state="absent").details["packages"]["module_stream"] == "nvidia-driver:580-open"
    host["packages"]["streams"] = {"nvidia-driver": "570-dkms"}  # somebody chose another one since
    assert "module_stream" not in planned(host, state="absent").details["packages"]


BEFORE = {"packages": {"nvidia-open": "3:570.133.20-1.el9"}, "version": "570.133.20"}


def test_a_change_that_was_cut_off_before_it_enabled_its_stream_goes_on() -> None:
    host = rocky("570-open", record="nvidia-driver:580-open")
    record = host["state_files"]["driver"]
    record["previous"] = {**BEFORE, "module_stream": {"enabled": "nvidia-driver:570-open", "ours": True}}
    assert blocking(planned(host, branch=580)) == ["driver.module_stream"]
    record["pending"] = {"nvidia-open": "3:580.178.04-1.el9"}
    plan = planned(host, branch=580)
    assert not blocking(plan)
    assert plan.details["packages"]["module_stream"] == "nvidia-driver:580-open"


@pytest.mark.parametrize(
    ("stream", "said"), [("570-open", "enable module stream nvidia-driver:570-open"), ("", "reset module nvidia-driver")]
)
def test_the_way_back_leads_to_the_stream_before(stream: str, said: str) -> None:
    host = rocky("580-open", record="nvidia-driver:580-open")
    host["state_files"]["driver"]["previous"] = {**BEFORE, "module_stream": {"enabled": f"nvidia-driver:{stream}", "ours": True}}
    changes = {change.id: change for change in planned(host, state="rolled_back").changes}
    assert changes["driver.module_stream"].message == said
    host["state_files"]["driver"]["previous"] = BEFORE
    assert "driver.module_stream" not in ids(planned(host, state="rolled_back"))
