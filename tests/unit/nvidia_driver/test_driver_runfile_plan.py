# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver from a .run file as planned: with the collection's own rows, since the installer's options are rows."""

from __future__ import annotations

import datetime
import typing as t

import pytest
from driver_hosts import B200, UNIT, blocking, facts, found, ids, with_driver

from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Context, Plan
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._plan_driver import plan

SHA256 = "ab" * 32
NEW = "580.178.04"


def planned(host: dict[str, t.Any], **desired: t.Any) -> Plan:
    given = {"source": "runfile", "version": NEW, "runfile_sha256": SHA256, **desired}
    return plan(
        {key: value for key, value in given.items() if value is not None}, host, load_matrix(), Context(today=datetime.date(2026, 11, 30))
    )


def arguments(plan: Plan) -> list[str]:
    return list(plan.details["runfile"]["arguments"])


def by_runfile(version: str = NEW, ours: bool = True, loaded: str | None = "same", kind: str = "open") -> dict[str, t.Any]:
    """Changes: a driver of a .run file, complete and running."""
    host = with_driver(version, loaded, names=(), kind=kind)
    host["driver"]["installed"].update(origin="runfile", packages={})
    host["driver"]["repository"] = None
    host["packages"] = {"holds": [], "set": {}}
    record = {"version": version, "sha256": SHA256, "kernel_modules": kind}
    host["state_files"]["driver"] = {"schema": 1, "packages": {}, "holds": [], "source": "runfile", "runfile": record} if ours else None
    return host


def test_virgin_host_gets_the_file_of_its_version_and_machine() -> None:
    plan = planned(facts())
    request = plan.details["runfile"]
    assert request["url"] == f"https://us.download.nvidia.com/tesla/{NEW}/NVIDIA-Linux-x86_64-{NEW}.run"
    assert (request["sha256"], request["kernel_modules"], request["persistenced_unit"]) == (SHA256, "open", True)
    assert (blocking(plan), plan.disruption, plan.decision) == ([], "none", "converge")
    assert "packages" not in plan.details
    assert plan.details["stack"]["driver"]["source"] == "runfile"
    assert plan.predicted["driver"]["installed"]["origin"] == "runfile"
    arm = planned(
        facts({"host": {"machine_arch": "aarch64", "os": {"id": "ubuntu", "version_id": "24.04", "pretty_name": "Ubuntu 24.04"}}})
    )
    assert arm.details["runfile"]["url"].endswith(f"NVIDIA-Linux-aarch64-{NEW}.run")
    assert "--no-install-compat32-libs" in arguments(plan)
    assert "--no-install-compat32-libs" not in arguments(arm)


def test_systems_whose_packages_are_not_installed_yet_can_have_it() -> None:
    assert not blocking(
        planned(facts({"host": {"os": {"id": "rocky", "version_id": "9.5", "family": "redhat", "pretty_name": "Rocky 9.5"}}}))
    )


@pytest.mark.parametrize(
    ("version", "has", "lacks"),
    [
        ("535.216.01", ["--kernel-module-build-directory=kernel-open"], ["--kernel-module-type=open", "--no-rebuild-initramfs"]),
        ("550.163.01", ["--kernel-module-build-directory=kernel-open", "--no-rebuild-initramfs"], ["--kernel-module-type=open"]),
        ("570.133.20", ["--kernel-module-type=open", "--no-rebuild-initramfs"], ["--kernel-module-build-directory=kernel-open"]),
    ],
)
def test_options_are_those_of_the_installers_version(version: str, has: list[str], lacks: list[str]) -> None:
    given = arguments(planned(facts(), version=version, kernel_modules="open"))
    assert set(has) <= set(given)
    assert not set(lacks) & set(given)
    assert {"--silent", "--dkms", "--no-opengl-files", "--no-x-check"} <= set(given)


def test_options_follow_what_is_asked_for() -> None:
    assert "--no-opengl-files" not in arguments(planned(facts(), compute_only=False))
    user_space = arguments(planned(facts(), install_kernel_modules=False))
    assert "--no-kernel-modules" in user_space
    assert not {"--dkms", "--kernel-module-type=open"} & set(user_space)
    assert "--kernel-module-type=proprietary" in arguments(planned(facts(), kernel_modules="proprietary"))
    # A load before the role has written them would be a load without them.
    assert "--skip-module-load" in arguments(planned(facts(), module_parameters={"nvidia": {"NVreg_EnableMSI": 1}}))
    assert arguments(planned(facts(), runfile_options=["--no-drm", "--concurrency-level=8"]))[-2:] == ["--no-drm", "--concurrency-level=8"]


def test_what_an_older_installer_cannot_do_stops_it() -> None:
    loaded = facts(by_runfile("535.183.01", kind="proprietary"))
    assert "--allow-installation-with-running-driver" in arguments(planned(loaded))
    assert found(planned(loaded, version="535.216.01"), "runfile_loaded").nearest == "545.23.06"
    nouveau = facts({"driver": {"nouveau": {"loaded": True, "bound": ["0000:1b:00.0"]}}})
    assert "--skip-module-load" in arguments(planned(nouveau))
    assert found(planned(nouveau, version="535.216.01"), "runfile_nouveau").severity == "block"
    assert found(planned(facts(), version="470.256.02", kernel_modules="open"), "runfile_no_open").nearest == "515.43.04"


@pytest.mark.parametrize(
    ("option", "expected", "nearest"),
    [
        ("--no-dmr", "an option that matrix/runfile.yml lists", "--no-drm"),
        ("--silent", "an option that the role does not decide itself", "[]"),
        ("--no-drm=1", "--no-drm", None),
        ("--concurrency-level", "--concurrency-level=VALUE", None),
    ],
)
def test_options_of_the_site_are_checked(option: str, expected: str, nearest: str | None) -> None:
    wrong = found(planned(facts(), runfile_options=[option]), "bad_input")
    assert (wrong.subject, wrong.nearest) == ("nvidia_driver_runfile_options", nearest)
    assert wrong.needed.startswith(expected)
    assert option in wrong.message


def test_an_option_that_came_later_is_named_with_its_version() -> None:
    wrong = found(planned(facts(), version="470.256.02", kernel_modules="proprietary", runfile_options=["--no-peermem"]), "bad_input")
    assert "from 495.44 on" in wrong.needed


@pytest.mark.parametrize(
    ("desired", "subject", "text"),
    [
        ({"version": "", "branch": 580}, "nvidia_driver_version", "an exact version"),
        ({"runfile_sha256": None}, "nvidia_driver_runfile_sha256", "it is run as root"),
        ({"runfile_sha256": "abc"}, "nvidia_driver_runfile_sha256", "64 hexadecimal digits"),
        ({"runfile_url": "http://x/NVIDIA-Linux-x86_64-570.133.20.run"}, "nvidia_driver_runfile_url", f"the file of driver {NEW}"),
        ({"runfile_url": f"http://x/NVIDIA-Linux-aarch64-{NEW}.run"}, "nvidia_driver_runfile_url", "for x86_64"),
        ({"runfile_url": "driver.run"}, "nvidia_driver_runfile_url", "a URL"),
        ({"runfile_options": "--no-drm"}, "nvidia_driver_runfile_options", "a list"),
        ({"runfile_options": ["--x=$(reboot)"]}, "nvidia_driver_runfile_options", "a list"),
        ({"runfile_tmpdir": "tmp"}, "nvidia_driver_runfile_tmpdir", "absolute"),
        ({"runfile_timeout": 0}, "nvidia_driver_runfile_timeout", "from 1 to"),
        ({"runfile_unverified": "no"}, "nvidia_driver_runfile_unverified", "true or false"),
    ],
)
def test_wrong_input_is_named(desired: dict[str, t.Any], subject: str, text: str) -> None:
    wrong = found(planned(facts(), **desired), "bad_input")
    assert wrong.subject == subject
    assert text in wrong.message


def test_a_branch_alone_is_answered_with_its_newest_release() -> None:
    assert found(planned(facts(), version="", branch=580), "bad_input").nearest == NEW


def test_a_missing_checksum_can_be_waived_and_is_not_needed_where_nothing_is_run() -> None:
    assert not blocking(planned(facts(), runfile_sha256=None, runfile_unverified=True))
    assert not planned(facts(by_runfile()), runfile_sha256=None).findings


def test_names_of_the_sites_own_are_taken_as_they_are() -> None:
    assert not blocking(planned(facts(), runfile_url="http://mirror/driver.run"))
    assert not blocking(planned(facts(), runfile_url=f"file:///srv/NVIDIA-Linux-x86_64-{NEW}-no-compat32.run"))


def test_host_that_has_what_is_asked_for_is_left_alone_whoever_installed_it() -> None:
    for ours in (True, False):
        plan = planned(facts(by_runfile(ours=ours)))
        assert (ids(plan), plan.findings, plan.decision) == ([], [], "nothing")
    assert not planned(facts(by_runfile()), source="auto", version="").changes  # the source that is recorded stays


def test_upgrade_is_of_class_reboot_and_downgrade_has_to_be_asked_for() -> None:
    plan = planned(facts(by_runfile("570.133.20")))
    assert (plan.disruption, plan.decision, blocking(plan)) == ("reboot", "reboot", [])
    assert blocking(planned(facts(by_runfile()), version="580.159.04")) == ["driver.downgrade"]
    assert not blocking(planned(facts(by_runfile()), version="580.159.04", allow_downgrade=True))


def test_an_interrupted_installation_is_finished() -> None:
    host = facts(by_runfile())
    host["state_files"]["driver"]["runfile_pending"] = {"version": NEW, "sha256": SHA256, "kernel_modules": "open"}
    plan = planned(host)
    assert ids(plan) == ["driver.runfile"]
    assert "interrupted" in plan.changes[0].message


def test_packages_give_way_only_when_asked_and_the_whole_set_goes() -> None:
    host = facts(with_driver("570.133.20"))
    assert "nvidia_driver_convert: true" in found(planned(host), "foreign_install").fix
    plan = planned(host, convert=True)
    assert blocking(plan) == []
    assert plan.details["runfile_replaces"] == ["nvidia-driver-cuda", "nvidia-kernel-open-dkms"]
    host["state_files"]["driver"]["holds"] = []
    assert blocking(planned(host, convert=True)) == ["driver.foreign_hold", "driver.foreign_hold"]


def test_a_run_file_gives_way_to_packages_only_when_asked() -> None:
    host = facts(by_runfile("570.133.20", ours=False))
    asked = {"source": "nvidia", "runfile_sha256": None}
    assert "nvidia_driver_convert: true" in found(planned(host, **asked), "foreign_install").fix
    plan = planned(host, convert=True, **asked)
    assert blocking(plan) == []
    assert plan.details["packages"]["remove_runfile"] is True
    same = planned(host, convert=True, source="nvidia", version="", runfile_sha256=None)
    assert same.details["packages"]["version"] == "570.133.20"  # versions never move by themselves
    assert not planned(facts(with_driver("570.133.20")), convert=True, source="nvidia", version="", runfile_sha256=None).changes


def test_a_conversion_that_was_cut_off_goes_on_with_its_own_version() -> None:
    """The .run file is gone, the packages are not there yet, and nobody asked for a version."""
    pending = {"nvidia-driver-cuda": "570.133.20-1", "nvidia-kernel-open-dkms": "570.133.20-1"}
    cut = facts({"state_files": {"driver": {"schema": 1, "packages": {}, "holds": [], "pending": pending}}})
    for desired in ({}, {"branch": 570}):
        plan = planned(cut, source="nvidia", version=None, runfile_sha256=None, convert=True, **desired)
        assert plan.details["packages"]["version"] == "570.133.20"
    other = planned(cut, source="nvidia", version=None, runfile_sha256=None, branch=580)
    assert (other.details["packages"]["branch"], other.details["packages"]["version"]) == (580, "")


def test_a_driver_of_unknown_origin_gives_way_to_nothing() -> None:
    host = facts(by_runfile("570.133.20", ours=False))
    host["driver"]["installed"]["origin"] = "unknown"
    assert blocking(planned(host, convert=True)) == ["driver.foreign_install"]


def test_headers_of_the_running_kernel_are_needed() -> None:
    bare = facts({"host": {"kernel": {"headers": ["6.1.0-56-amd64"]}}})
    assert found(planned(bare), "headers_missing").severity == "block"
    assert not blocking(planned(bare, install_kernel_modules=False))


def test_secure_boot_wants_a_key_for_the_installer() -> None:
    secure = facts({"host": {"secure_boot": {"state": "enabled", "mok_enrolled": True}}})
    assert blocking(planned(secure)) == ["driver.runfile_unsigned"]
    keys = ["--module-signing-secret-key=/root/mok.key", "--module-signing-public-key=/root/mok.der"]
    assert found(planned(secure, runfile_options=keys[:1]), "runfile_unsigned").found.endswith("key= in nvidia_driver_runfile_options")
    assert not blocking(planned(secure, runfile_options=keys))
    assert not blocking(planned(secure, install_kernel_modules=False))


def test_kernel_modules_are_chosen_as_from_any_source() -> None:
    assert "--kernel-module-type=open" in arguments(planned(facts({"pci": {"gpus": [{"address": "x", "device_id": B200}]}})))
    plan = planned(facts({"pci": {"gpus": [{"address": "x", "device_id": B200}]}}), kernel_modules="proprietary")
    assert "driver.kernel_modules_contradiction" in blocking(plan)


def test_the_fabric_manager_comes_from_elsewhere() -> None:
    switches = {"fabric": {"kind": "nvswitch"}}
    plan = planned(facts(switches))
    finding = found(plan, "runfile_fabric_manager")
    assert (finding.severity, NEW in finding.fix) == ("warn", True)
    assert "driver.fabric_manager" not in ids(plan)
    there = planned(facts(switches, {"units": {"nvidia-fabricmanager.service": {**UNIT, "active": "inactive", "enabled": "disabled"}}}))
    assert "driver.fabric_manager" in ids(there)
    assert not there.findings


def test_a_new_driver_gets_the_unit_though_systemd_still_knows_one_whose_package_is_gone() -> None:
    plan = planned(facts({"units": {"nvidia-persistenced.service": UNIT}}))
    assert plan.details["runfile"]["persistenced_unit"] is True
    assert "driver.persistenced_unit" not in ids(plan)


def test_the_persistence_daemons_unit_is_ours_where_there_is_none() -> None:
    host = facts(by_runfile())
    del host["units"]["nvidia-persistenced.service"]
    plan = planned(host)
    assert ids(plan) == ["driver.persistenced_unit", "driver.persistenced"]
    assert plan.details["runfile"]["persistenced_unit"] is True
    assert not planned(host, persistenced=False).changes
    assert planned(facts(), persistenced=False).details["runfile"]["persistenced_unit"] is False


def test_absent_takes_ours_by_its_own_uninstaller_and_leaves_anothers() -> None:
    plan = planned(facts(by_runfile()), state="absent")
    assert "driver.runfile" in ids(plan)
    assert plan.details["runfile"] == {"state": "absent"}
    assert "packages" not in plan.details
    assert (plan.decision, plan.predicted["driver"]["installed"]) == ("reboot", None)
    foreign = planned(facts(by_runfile(ours=False)), state="absent")
    assert "runfile" not in foreign.details
    assert found(foreign, "not_ours").severity == "warn"
