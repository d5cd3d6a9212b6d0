# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages change, and which holds and broken packages stand in the way."""

from __future__ import annotations

import pytest
from driver_hosts import NAMES, blocking, facts, found, ids, planned, with_driver

from ansible_collections.gpufleet.inference.plugins.module_utils._apt_files import AUTOMATIC
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_types import OsSupport
from ansible_collections.gpufleet.inference.plugins.plugin_utils._plan_driver_packages import NVIDIA_REPOSITORY, repository_options


def test_virgin_host_gets_the_whole_set_in_one_request() -> None:
    plan = planned(facts(), version="580.159.04")
    request = plan.details["packages"]
    assert request["names"] == ["nvidia-driver-cuda", "nvidia-kernel-open-dkms"]
    assert (request["branch"], request["version"], request["hold"]) == (580, "580.159.04", True)
    assert request["repository_url"] == "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/"
    assert request["from_url"] == request["repository_url"]
    assert plan.decision == "converge"
    assert plan.disruption == "none"
    assert plan.details["stack"]["driver"] == {"branch": 580, "version": "580.159.04", "kernel_modules": "open", "source": "nvidia"}


def test_matrix_chooses_where_nothing_is_asked_for_and_nothing_is_there() -> None:
    request = planned(facts()).details["packages"]
    assert (request["branch"], request["version"]) == (580, "")


def test_host_that_has_what_is_asked_for_is_left_alone() -> None:
    for desired in ({}, {"branch": 570}, {"branch": "570"}, {"version": "570.133.20"}):
        plan = planned(facts(with_driver()), **desired)
        assert (ids(plan), plan.findings, plan.decision) == ([], [], "nothing"), desired


def test_installed_version_stays_although_the_branch_has_a_newer_one() -> None:
    assert not planned(facts(with_driver("580.65.06")), branch=580).changes


def test_branch_change_is_of_class_reboot_because_the_loaded_module_no_longer_fits() -> None:
    plan = planned(facts(with_driver()), branch=580)
    assert "driver.packages" in ids(plan)
    assert plan.disruption == "reboot"
    assert plan.details["packages"]["version"] == ""
    assert plan.decision == "reboot"


def test_missing_package_is_added_at_the_installed_version() -> None:
    plan = planned(facts(with_driver(), {"fabric": {"kind": "nvswitch"}}))
    packages = next(change for change in plan.changes if change.id == "driver.packages")
    assert packages.message == "add nvidia-fabricmanager-570 to driver 570.133.20"
    assert packages.disruption == "none"
    assert plan.details["packages"]["version"] == "570.133.20"


def test_other_kind_of_kernel_modules_is_a_change() -> None:
    assert "driver.packages" in ids(planned(facts(with_driver()), kernel_modules="proprietary"))


def test_user_space_only_asks_for_no_kernel_package_and_loads_nothing() -> None:
    plan = planned(facts(), branch=580, install_kernel_modules=False)
    assert plan.details["packages"]["names"] == ["nvidia-driver-cuda"]
    assert "load" not in plan.details
    assert ids(plan) == ["driver.packages", "driver.repository"] or ids(plan) == ["driver.repository", "driver.packages"]


def test_foreign_hold_blocks_a_change_and_is_named() -> None:
    host = facts(with_driver(), {"state_files": {"driver": {"holds": [NAMES[0]]}}})
    finding = found(planned(host, branch=580), "foreign_hold")
    assert finding.subject == "nvidia-kernel-open-dkms"
    assert finding.fix.startswith("If the hold has served its time: apt-mark unhold nvidia-kernel-open-dkms.")


def test_foreign_hold_does_not_matter_while_nothing_moves() -> None:
    host = facts(with_driver(), {"state_files": {"driver": {"holds": []}}})
    assert not planned(host).findings


def test_own_holds_do_not_block() -> None:
    assert not blocking(planned(facts(with_driver()), branch=580))


def test_lost_hold_is_put_back() -> None:
    host = facts(with_driver(), {"packages": {"holds": [NAMES[1]]}})
    host["driver"]["installed"]["packages"][NAMES[0]]["held"] = False
    plan = planned(host)
    assert ids(plan) == ["driver.hold"]
    assert (plan.details["holds"]["hold_add"], plan.details["holds"]["hold_remove"]) == ([NAMES[0]], [])


def test_only_own_holds_are_lifted() -> None:
    host = facts(with_driver(), {"state_files": {"driver": {"holds": [NAMES[0]]}}})
    lifted = planned(host, hold=False).details["holds"]
    assert (lifted["hold"], lifted["hold_add"], lifted["hold_remove"]) == (False, [], [NAMES[0]])


def test_broken_packages_of_others_block() -> None:
    finding = found(planned(facts({"packages": {"broken": ["libnvidia-foo"]}}), branch=580), "packages_broken")
    assert finding.severity == "block"
    assert finding.subject == "libnvidia-foo"


@pytest.mark.parametrize(
    "record", [{"packages": {"nvidia-kernel-open-dkms": "570.133.20-1"}}, {"pending": {"nvidia-kernel-open-dkms": "570.133.20-1"}}]
)
def test_own_broken_packages_are_repaired(record: dict[str, dict[str, str]]) -> None:
    host = facts(with_driver(), {"packages": {"broken": ["nvidia-kernel-open-dkms"]}, "state_files": {"driver": record}})
    plan = planned(host)
    assert "driver.repair" in ids(plan)
    assert plan.details["packages"]["version"] == "570.133.20"
    assert not blocking(plan)


def test_interrupted_transaction_is_taken_up_even_if_no_package_looks_broken() -> None:
    host = facts(with_driver(pending={"nvidia-driver-cuda": "570.133.20-1"}))
    assert ids(planned(host)) == ["driver.repair"]


@pytest.mark.parametrize(("origin", "how"), [("runfile", "by a .run file"), ("unknown", "without packages")])
def test_driver_without_packages_is_not_covered_by_them(origin: str, how: str) -> None:
    host = facts(with_driver("570.86.15", names=()), {"driver": {"installed": {"origin": origin}}})
    assert f"was installed {how}" in found(planned(host, version="580.159.04"), "foreign_install").message
    assert ids(planned(host, version="570.86.15")) == []


def test_mirror_base_gets_the_folder_of_the_system() -> None:
    for url in ("http://mirror/cuda/repos", "http://mirror/cuda/repos/", "http://mirror/cuda/repos/debian12/x86_64/"):
        request = planned(facts(), branch=580, repository_url=url).details["packages"]
        assert request["repository_url"] == "http://mirror/cuda/repos/debian12/x86_64/"
        assert request["repository_key_url"] == "http://mirror/cuda/repos/debian12/x86_64/3bf863cc.pub"


def test_repository_of_others_with_the_same_address_is_used_and_not_written_again() -> None:
    url = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/"
    host = facts({"driver": {"repository": {"file": "/etc/apt/sources.list.d/cuda.list", "url": url, "owned": False}}})
    plan = planned(host, branch=580)
    assert "driver.repository" not in ids(plan)
    assert "repository_url" not in plan.details["packages"]


def test_distribution_source_needs_no_repository() -> None:
    request = planned(facts(), branch=570, source="distribution").details["packages"]
    assert request["from_url"] == ""
    assert "repository_url" not in request
    assert request["same_version"] == ["libcuda1", "nvidia-kernel-dkms", "nvidia-smi"]


def test_lock_decides_where_nothing_is_asked_for() -> None:
    import datetime

    from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Context

    context = Context(
        today=datetime.date(2026, 11, 30), lock={"driver": {"branch": 580, "version": "580.105.08", "kernel_modules": "open"}}
    )
    assert planned(facts(), context).details["packages"]["version"] == "580.105.08"
    assert planned(facts(with_driver()), context).details["packages"]["version"] == "580.105.08"
    assert planned(facts(), context, version="580.159.04").details["packages"]["version"] == "580.159.04"


def test_automatic_upgrades_are_kept_away_as_long_as_the_set_is_held() -> None:
    host = facts(with_driver(), {"state_files": {"files": {AUTOMATIC: None}}})
    plan = planned(host)
    assert ids(plan) == ["driver.automatic_upgrades"]
    assert plan.details["holds"]["hold"]
    assert "packages" not in plan.details
    assert "driver.automatic_upgrades" in ids(planned(facts(with_driver()), hold=False))
    assert ids(planned(facts(with_driver()))) == []


def test_nvidias_own_repository_has_a_known_key_and_a_mirror_may_have_another() -> None:
    system = OsSupport(
        True, True, "", "os.x", "Debian 13", "debian13", "x86_64", "apt", False, None,
        repository_key_file="8793F200.pub", repository_key_fingerprint="0" * 40,
    )  # fmt: skip
    own = repository_options(f"{NVIDIA_REPOSITORY}/debian13/x86_64/", system, "", "", "")
    assert own["repository_key_url"] == f"{NVIDIA_REPOSITORY}/debian13/x86_64/8793F200.pub"
    assert own["repository_key_fingerprint"] == "0" * 40
    mirror = repository_options("http://mirror/debian13/x86_64/", system, "", "", "")
    assert mirror["repository_key_fingerprint"] == ""
    assert repository_options("http://mirror/", system, "", "", "1" * 40)["repository_key_fingerprint"] == "1" * 40
