# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""After all that: one exact version, held, kept, quiet."""

from __future__ import annotations

import json
from typing import Any


def test_second_run_asked_for_nothing(action_log: Any) -> None:
    assert action_log() == []
    assert action_log("package-query") == []


def test_second_run_cost_one_module(action_log: Any, host_tasks: dict[str, int]) -> None:
    assert [action.words for action in action_log("module")] == ["gpu_info"]
    assert host_tasks["total"] <= 5


def test_set_is_held_and_automatic_upgrades_know_it(host: Any) -> None:
    with host.sudo():
        record = json.loads(host.file("/var/lib/gpufleet/driver.json").content_string)
        excluded = host.check_output("apt-config dump Unattended-Upgrade::Package-Blacklist")
    assert set(record["packages"].values()) == {"580.105.08-1"}
    assert set(host.check_output("apt-mark showhold").split()) == set(record["packages"])
    assert [name for name in record["packages"] if f'"^{name}$"' not in excluded] == []


def test_files_of_the_present_set_are_kept_whole_and_no_others(host: Any) -> None:
    root = "/var/lib/gpufleet/packages/driver"
    with host.sudo():
        assert host.check_output(f"ls {root}") == "580.105.08"
        record = json.loads(host.file("/var/lib/gpufleet/driver.json").content_string)
        listed = json.loads(host.file(f"{root}/580.105.08/files.json").content_string)["packages"]
        assert set(listed) == set(record["packages"])
        for name, entry in listed.items():
            shown = host.check_output(f"dpkg-deb -W --showformat='${{Package}} ${{Version}}' {root}/580.105.08/{entry['file']}")
            assert shown == f"{name} {record['packages'][name]}"


def test_nothing_is_left_of_the_interruption(host: Any) -> None:
    assert host.check_output("dpkg --audit") == ""
    assert not host.file("/usr/sbin/policy-rc.d").exists
