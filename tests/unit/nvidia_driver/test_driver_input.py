# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wrong settings: each is a finding with variable, value, what is expected and the nearest thing that works."""

from __future__ import annotations

from typing import Any

import pytest
from driver_hosts import B200, V100, blocking, facts, found, planned, with_driver

WRONG: list[tuple[str, Any, str, str | None]] = [
    ("state", "presnt", "one of present, rolled_back, absent", "present"),
    ("source", "nvdia", "one of auto, nvidia, distribution, runfile", "nvidia"),
    ("branch", "R580", "a driver branch: its number alone (580), or empty", "580"),
    ("branch", True, "a driver branch: its number alone (580), or empty", None),
    ("branch", "5²0", "a driver branch: its number alone (580), or empty", None),
    ("branch", "５８０", "a driver branch: its number alone (580), or empty", None),
    ("version", "580", "an exact driver version (580.159.04), or empty", "'' and nvidia_driver_branch: 580"),
    ("version", "580.159.04-1", "an exact driver version (580.159.04), or empty", "580.159.04"),
    ("kernel_modules", "opens", "one of auto, open, proprietary", "open"),
    ("compute_only", "yes", "true or false", None),
    ("hold", 1, "true or false", None),
    ("packages_extra", "nvidia-settings", "a list of package names", None),
    ("packages_extra", ["nvidia-settings; reboot"], "a list of package names", None),
    ("module_parameters", {"nvidia": "NVreg_X=1"}, "a map of kernel module to a map of parameter to value", None),
    ("module_parameters", {"nvidia": {"NVreg_X": "1\noptions evil"}}, "a map of kernel module to a map of parameter to value", None),
    ("module_parameters", {"nvidia": {"NVreg_X": "1\n"}}, "a map of kernel module to a map of parameter to value", None),
    ("module_parameters", {"nvidia": {"NVreg_X": None}}, "a map of kernel module to a map of parameter to value", None),
    ("live_reload_units", ["--force"], "a list of systemd units (vllm.service)", None),
    ("runfile_tmpdir", "/tmp/../etc", "the absolute path of a folder", None),
    ("module_parameters", {"snd": {"x": 1}}, "a map of kernel module to a map of parameter to value", None),
    ("repository_url", "developer.download.nvidia.com", "a URL (http, https or file), or empty", None),
    ("repository_key", "not a key", "an ASCII-armoured OpenPGP public key, or empty", None),
    ("reboot", "if-needed", "one of never, if_needed, delegate", "if_needed"),
    ("reboot_timeout", 0, "whole seconds from 1 to 604800", None),
    ("package_timeout", 10**9, "whole seconds from 1 to 604800", None),
    ("runfile_timeout", "long", "whole seconds from 1 to 604800", None),
    ("fabric_manager", "yes", "one of auto, present, absent", None),
]


@pytest.mark.parametrize(("name", "value", "expected", "nearest"), WRONG)
def test_wrong_value_is_named(name: str, value: Any, expected: str, nearest: str | None) -> None:
    plan = planned(facts(), **{name: value})
    finding = found(plan, "bad_input")
    assert finding.severity == "block"
    assert finding.message == f"nvidia_driver_{name} is {value!r}; expected {expected}."
    assert finding.subject == f"nvidia_driver_{name}"
    assert finding.nearest == nearest
    assert not plan.changes


def test_all_wrong_values_are_reported_at_once() -> None:
    plan = planned(facts(), state="x", reboot="y", version="z")
    assert sorted(str(finding.subject) for finding in plan.findings) == [
        "nvidia_driver_reboot",
        "nvidia_driver_state",
        "nvidia_driver_version",
    ]


def test_unknown_setting_names_the_nearest() -> None:
    finding = found(planned(facts(), versoin="580.159.04"), "bad_input")
    assert finding.nearest == "version"


def test_version_of_another_branch_is_a_contradiction() -> None:
    finding = found(planned(facts(), branch=570, version="580.159.04"), "bad_input")
    assert finding.nearest == "580, the branch of 580.159.04"


def test_parameters_without_a_module_are_a_contradiction() -> None:
    finding = found(planned(facts(), install_kernel_modules=False, module_parameters={"nvidia": {"NVreg_X": 1}}), "bad_input")
    assert finding.subject == "nvidia_driver_module_parameters"


def test_gpu_that_needs_open_modules_refuses_proprietary_ones() -> None:
    host = facts({"pci": {"gpus": [{"address": "0000:1b:00.0", "device_id": B200}]}})
    finding = found(planned(host, branch=580, kernel_modules="proprietary"), "kernel_modules_contradiction")
    assert finding.message == "nvidia_driver_kernel_modules is proprietary, but b200 run only with the open modules."
    assert finding.nearest == "open"


def test_host_whose_gpus_disagree_has_no_choice() -> None:
    gpus = [{"address": "0000:1b:00.0", "device_id": B200}, {"address": "0000:1c:00.0", "device_id": V100}]
    plan = planned(facts({"pci": {"gpus": gpus}}), branch=580)
    assert (
        "b200 run only with the open modules and v100 only with the proprietary modules"
        in found(plan, "kernel_modules_contradiction").message
    )
    assert not plan.changes


def test_no_branch_drives_all_gpus() -> None:
    plan = planned(facts({"pci": {"gpus": [{"address": "0000:1b:00.0", "device_id": V100}]}}))
    assert found(plan, "no_choice").severity == "block"


def test_unsupported_system_is_refused_before_any_change() -> None:
    plan = planned(facts({"host": {"os": {"id": "gentoo"}}}), branch=580)
    finding = found(plan, "os_unsupported")
    assert (finding.severity, finding.nearest) == ("block", "Debian 12")
    assert not plan.changes
    assert not plan.details.get("packages")


def test_system_with_another_manager_is_refused_before_any_change() -> None:
    plan = planned(facts({"host": {"os": {"id": "sles"}}}), branch=580)
    assert found(plan, "package_manager").found == "Debian 12 with zypper"
    assert not plan.changes


def test_downgrade_has_to_be_asked_for() -> None:
    host = facts(with_driver("580.159.04"))
    finding = found(planned(host, version="570.133.20"), "downgrade")
    assert finding.message == "Driver 570.133.20 is older than the installed 580.159.04; a downgrade has to be asked for."
    assert not blocking(planned(host, version="570.133.20", allow_downgrade=True))


def test_versions_compare_as_versions() -> None:
    assert not blocking(planned(facts(with_driver("570.86.15")), version="570.133.20"))
