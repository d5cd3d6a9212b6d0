# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module files, initramfs, what runs, and reboots: by evidence, then by policy."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from driver_hosts import NAMES, UNIT, blocking, facts, found, ids, planned, with_driver

from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Context
from ansible_collections.gpufleet.inference.plugins.plugin_utils._facts import merge
from ansible_collections.gpufleet.inference.plugins.plugin_utils._plan_driver_reboot import normal

STALE = "module 570.133.20 is loaded, 580.159.04 is installed"
UPGRADED = with_driver("580.159.04", loaded="570.133.20")
KEY = f"driver.module_stale: {STALE}"
NOTED = {
    "schema": 1,
    "reasons": [{"id": "driver.module_stale", "component": "driver", "message": STALE}],
    "boot_id": "boot-1",
    "run_id": "r",
    "since": "s",
}
PREDICTED = ["driver.load", "driver.persistenced"]


@pytest.mark.parametrize("state", ["present", "absent", "rolled_back"])
@pytest.mark.parametrize("name", ["driver.json", "cuda.json", "reboot_required.json"])
def test_a_record_that_cannot_be_read_stops_the_check(state: str, name: str) -> None:
    path = f"/var/lib/gpufleet/{name}"
    broken = facts(with_driver(), {"state_files": {"driver": None, "errors": {path: f"{path} is not valid JSON"}}})
    plan = planned(broken, state=state, branch=580)
    finding = found(plan, "state_unreadable")
    assert (finding.severity, finding.subject) == ("block", path)
    assert "not valid JSON" in finding.message
    assert (plan.changes, plan.details) == ([], {})


def test_first_install_loads_without_a_reboot() -> None:
    plan = planned(facts(), branch=580)
    assert plan.details["load"] == ["nvidia", "nvidia-uvm"]
    assert [change for change in ids(plan) if change in PREDICTED] == PREDICTED
    assert "reboot" not in plan.details


def test_nouveau_at_work_means_a_reboot_and_no_load() -> None:
    plan = planned(facts({"driver": {"nouveau": {"loaded": True, "bound": ["0000:1b:00.0"]}}}), branch=580, reboot="if_needed")
    assert "driver.reboot" in ids(plan)
    assert "driver.load" not in ids(plan)
    assert plan.details["reboot"]["reasons"][0]["id"] == "driver.nouveau_loaded"


def test_nouveau_is_kept_out_by_a_file_of_ours_unless_someone_does_it_already() -> None:
    wanted = next(
        entry for entry in planned(facts(), branch=580).details["files"] if entry["path"] == "/etc/modprobe.d/gpufleet-nouveau.conf"
    )
    assert "blacklist nouveau\noptions nouveau modeset=0\n" in wanted["content"]
    others = planned(facts({"driver": {"nouveau": {"blacklisted": True}}}), branch=580).details["files"]
    assert [entry["path"] for entry in others] == ["/etc/modules-load.d/gpufleet-nvidia.conf"]


def test_nouveau_at_work_in_spite_of_a_blacklist_came_from_an_initramfs_without_it() -> None:
    kernel = {"installed": ["6.1.0-57-amd64"], "next_boot": "6.1.0-57-amd64"}
    at_work = {"driver": {"nouveau": {"blacklisted": True, "loaded": True}}, "host": {"kernel": kernel}}
    plan = planned(facts(with_driver("580.178.04"), at_work), branch=580, reboot="if_needed")
    assert "/etc/modprobe.d/gpufleet-nouveau.conf" in [entry["path"] for entry in plan.details["files"]]
    assert plan.details["initramfs"]["must_have"] == "etc/modprobe.d/gpufleet-nouveau.conf"
    assert ids(plan).index("driver.initramfs") < ids(plan).index("driver.reboot")


def test_files_that_are_no_longer_wanted_are_removed() -> None:
    host = facts(with_driver(), {"state_files": {"files": {"/etc/modprobe.d/gpufleet-nouveau.conf": "abc"}}})
    assert {"path": "/etc/modprobe.d/gpufleet-nouveau.conf", "content": None} in planned(host, nouveau_blacklist=False).details["files"]


def test_parameters_are_written_sorted() -> None:
    plan = planned(facts(), branch=580, module_parameters={"nvidia": {"NVreg_B": 2, "NVreg_A": True}, "nvidia-uvm": {"x": "y"}})
    content = next(
        entry["content"]
        for entry in plan.details["files"]
        if entry["path"].endswith("gpufleet-nvidia.conf") and "modprobe" in entry["path"]
    )
    assert content.endswith("options nvidia NVreg_A=1 NVreg_B=2\noptions nvidia_uvm x=y\n")


def test_initramfs_is_rebuilt_until_every_kernel_has_the_files() -> None:
    kernels = {"host": {"kernel": {"installed": ["6.1.0-57-amd64", "6.1.0-58-amd64"], "next_boot": "6.1.0-58-amd64"}}}
    first = planned(facts(kernels), branch=580)
    mark = first.details["initramfs"]["mark"]
    assert first.details["initramfs"]["command"] == ["update-initramfs", "-u", "-k", "all"]
    assert set(mark) == {"6.1.0-57-amd64", "6.1.0-58-amd64"}
    files = {entry["path"]: __import__("hashlib").sha256(entry["content"].encode()).hexdigest() for entry in first.details["files"]}
    done = {"state_files": {"files": files, "driver": {"schema": 1, "packages": {}, "holds": [], "initramfs": mark}}}
    assert "driver.initramfs" not in ids(planned(facts(kernels, done), branch=580))
    newer = {"host": {"kernel": {"installed": ["6.1.0-57-amd64", "6.1.0-58-amd64", "6.1.0-59-amd64"]}}}
    assert "driver.initramfs" in ids(planned(facts(kernels, done, newer), branch=580))


DRACUT = "/etc/dracut.conf.d/gpufleet-nouveau.conf"


def test_dracut_leaves_nouveau_out_and_takes_it_back() -> None:
    redhat = {"host": {"os": {"family": "redhat"}, "kernel": {"installed": ["5.14.0-1.x86_64"]}}}
    plan = planned(facts(redhat), branch=580)
    content = {entry["path"]: entry["content"] for entry in plan.details["files"]}[DRACUT]
    assert content.endswith('omit_drivers+=" nouveau "\n')
    assert plan.details["initramfs"]["without_nouveau"] is True
    assert DRACUT not in [entry["path"] for entry in planned(facts(redhat), branch=580, nouveau_blacklist=False).details["files"]]
    there = facts(with_driver(), redhat, {"state_files": {"files": {DRACUT: "abc"}, "driver": {"initramfs": {"5.14.0-1.x86_64": "abc"}}}})
    gone = planned(there, state="absent").details
    assert {"path": DRACUT, "content": None} in gone["files"]
    assert (gone["initramfs"]["mark"], gone["initramfs"]["without_nouveau"]) == ({"5.14.0-1.x86_64": ""}, False)


def test_a_debian_family_with_dracut_has_its_drop_in_and_its_tool() -> None:
    """As Ubuntu 26.04 comes."""
    kernel = {"installed": ["7.0.0-10-generic"], "initramfs_tool": "dracut"}
    plan = planned(facts({"host": {"kernel": kernel}}), branch=580)
    assert 'omit_drivers+=" nouveau "' in {entry["path"]: entry["content"] for entry in plan.details["files"]}[DRACUT]
    initramfs = plan.details["initramfs"]
    assert initramfs["command"] == ["dracut", "--force", "--regenerate-all"]
    assert initramfs["listings"] == [["lsinitrd", "/boot/initrd.img-7.0.0-10-generic"]]
    assert (initramfs["without_nouveau"], initramfs["must_have"]) == (True, "")
    other = planned(facts({"host": {"kernel": {**kernel, "initramfs_tool": "initramfs-tools"}}}), branch=580)
    assert DRACUT not in [entry["path"] for entry in other.details["files"]]
    assert other.details["initramfs"]["command"][0] == "update-initramfs"


def test_no_initramfs_where_there_is_no_kernel() -> None:
    assert "driver.initramfs" not in ids(planned(facts(), branch=580))


@pytest.mark.parametrize(
    ("policy", "changes", "severity", "decision"),
    [("never", ["driver.reboot_required"], "warn", "reboot"), ("delegate", ["driver.reboot_required"], "warn", "reboot")],
)
def test_mismatch_is_noted_first(policy: str, changes: list[str], severity: str, decision: str) -> None:
    plan = planned(facts(UPGRADED), reboot=policy)
    assert ids(plan) == changes
    assert found(plan, "reboot_required").severity == severity
    assert plan.decision == decision


def test_never_fails_once_all_other_work_is_done() -> None:
    plan = planned(facts(UPGRADED, {"state_files": {"reboot_required": NOTED}}), reboot="never")
    assert ids(plan) == []
    finding = found(plan, "reboot_required")
    assert finding.severity == "block"
    assert finding.message == f"A reboot is needed: {STALE}. The host cannot serve the asked driver until then."


def test_delegate_is_quiet_once_the_reboot_is_noted() -> None:
    plan = planned(facts(UPGRADED, {"state_files": {"reboot_required": NOTED}}), reboot="delegate")
    assert (ids(plan), blocking(plan)) == ([], [])


def test_note_is_renewed_after_a_boot_that_did_not_help() -> None:
    plan = planned(facts(UPGRADED, {"state_files": {"reboot_required": {**NOTED, "boot_id": "boot-0"}}}), reboot="delegate")
    assert ids(plan) == ["driver.reboot_required"]


def test_note_goes_when_the_evidence_is_gone() -> None:
    plan = planned(facts(with_driver("580.159.04"), {"state_files": {"reboot_required": NOTED}}))
    assert ids(plan) == ["driver.reboot_required"]
    assert plan.details["reboot"] == {"reasons": [], "keys": [], "now": False}


def test_notes_of_other_components_are_left_alone() -> None:
    other = {**NOTED, "reasons": [{"id": "power.ecc", "component": "power", "message": "ECC pending"}]}
    assert not planned(facts(with_driver(), {"state_files": {"reboot_required": other}})).changes


def test_if_needed_reboots_once() -> None:
    plan = planned(facts(UPGRADED), reboot="if_needed")
    assert ids(plan) == ["driver.reboot"]
    assert plan.details["reboot"]["keys"] == [KEY]
    assert plan.disruption == "reboot"


def test_reboot_that_did_not_help_is_never_repeated() -> None:
    plan = planned(facts(UPGRADED, {"state_files": {"driver": {"rebooted_for": {KEY: "boot-0"}}}}), reboot="if_needed")
    assert ids(plan) == []
    assert STALE in found(plan, "reboot_did_not_help").message


def test_reboot_that_was_ordered_but_did_not_happen_is_done() -> None:
    plan = planned(facts(UPGRADED, {"state_files": {"driver": {"rebooted_for": {KEY: "boot-1"}}}}), reboot="if_needed")
    assert ids(plan) == ["driver.reboot"]


def test_new_packages_are_new_evidence_for_a_reboot() -> None:
    before = with_driver("570.133.20", rebooted_for={"driver.module_stale: module 570.133.20 is loaded, 580.105.08 is installed": "boot-0"})
    assert "driver.reboot" in ids(planned(facts(before), version="580.105.08", reboot="if_needed"))


def test_own_machine_is_never_rebooted_from_within() -> None:
    context = Context(today=datetime.date(2026, 11, 30), local_connection=True)
    plan = planned(facts(UPGRADED, {"state_files": {"reboot_required": NOTED}}), context, reboot="if_needed")
    assert ids(plan) == []
    assert "never rebooted from within" in found(plan, "reboot_required").message
    assert blocking(plan) == ["driver.reboot_required"]


def test_parameter_not_in_force_is_a_reason_but_the_host_serves_until_then() -> None:
    running = facts(with_driver(), {"driver": {"loaded": {"parameters": {"NVreg_A": "0"}}}})
    plan = planned(running, module_parameters={"nvidia": {"NVreg_A": "1", "NVreg_Unseen": "1"}}, reboot="never")
    assert "module parameter NVreg_A is 0, 1 is configured" in found(plan, "reboot_required").message
    assert found(plan, "reboot_required").severity == "warn"


@pytest.mark.parametrize(("written", "shown"), [("1", "Y"), ("0x10", "16"), ("0", "N"), ("abc", "abc")])
def test_parameter_values_compare_as_the_kernel_prints_them(written: str, shown: str) -> None:
    assert normal(written) == normal(shown)


def test_kernel_without_a_module_for_the_next_boot_is_not_booted() -> None:
    dkms = [{"name": "nvidia", "version": "580.159.04", "kernel": "6.1.0-57-amd64", "state": "installed"}]
    host = facts(UPGRADED, {"driver": {"installed": {"dkms": dkms}}, "host": {"kernel": {"next_boot": "6.1.0-58-amd64"}}})
    assert found(planned(host, reboot="if_needed"), "module_missing_next_boot").subject == "6.1.0-58-amd64"


def test_running_kernel_without_module_reboots_into_the_one_that_has_it() -> None:
    dkms = [{"name": "nvidia", "version": "580.159.04", "kernel": "6.1.0-58-amd64", "state": "installed"}]
    changes = {"driver": {"installed": {"dkms": dkms, "module_version": None}}, "host": {"kernel": {"next_boot": "6.1.0-58-amd64"}}}
    host = facts(with_driver("580.159.04", loaded=None), changes)
    plan = planned(host, reboot="if_needed")
    assert (plan.decision, blocking(plan), ids(plan)) == ("reboot", [], ["driver.reboot"])
    assert plan.details["reboot"]["reasons"][0]["id"] == "driver.kernel_changed"
    assert blocking(planned(host, reboot="never")) == []  # noted first
    noted = merge(host, {"state_files": {"reboot_required": {"boot_id": "boot-1", "reasons": plan.details["reboot"]["reasons"]}}})
    assert blocking(planned(noted, reboot="never")) == ["driver.reboot_required"]
    assert blocking(planned(noted, reboot="delegate")) == []
    tried = {"state_files": {"driver": {"rebooted_for": {plan.details["reboot"]["keys"][0]: "boot-0"}}}}
    assert blocking(planned(merge(host, tried), reboot="if_needed")) == ["driver.reboot_did_not_help"]


RUNS, NEXT = "6.1.0-57-amd64", "6.1.0-58-amd64"
SILENT = {"unread": [{"part": "driver.installed.module_version", "reason": "modinfo gave no answer in 30 s", "needs_root": False}]}


def built(kernel: str) -> dict[str, str]:
    return {"name": "nvidia", "version": "580.159.04", "kernel": kernel, "state": "installed"}


@pytest.mark.parametrize("dkms", [[built(RUNS)], []])
def test_no_answer_of_modinfo_is_not_the_answer_no(dkms: list[dict[str, str]]) -> None:
    silent = {"driver": {"installed": {"dkms": dkms, "module_version": None, "modules": {}}}, "host": {"kernel": {"next_boot": NEXT}}}
    plan = planned(facts(with_driver("580.159.04", loaded=None), silent, SILENT), reboot="if_needed")
    assert (blocking(plan), found(plan, "module_unknown").severity) == ([], "warn")
    assert (ids(plan), plan.details["load_version"]) == (["driver.load"], "580.159.04")
    running = planned(facts(with_driver("580.159.04"), silent, SILENT))
    assert (blocking(running), ids(running)) == ([], [])


@pytest.mark.parametrize(
    "installed",
    [{"dkms": [built(NEXT)], "modules": {}}, {"dkms": [], "modules": {RUNS: None}}],
    ids=["DKMS has it for another kernel only", "the silence was about the next kernel"],
)
def test_silence_does_not_hide_that_there_is_none(installed: dict[str, Any]) -> None:
    host = facts(with_driver("580.159.04", loaded=None), {"driver": {"installed": {**installed, "module_version": None}}}, SILENT)
    assert blocking(planned(host)) == ["driver.module_missing"]


def test_packages_without_a_module_are_no_success() -> None:
    host = facts(
        with_driver("580.159.04", loaded=None), {"driver": {"installed": {"module_version": None}}, "host": {"kernel": {"headers": []}}}
    )
    plan = planned(host)
    finding = found(plan, "module_missing")
    assert finding.severity == "block"
    assert finding.message.endswith("no nvidia kernel module for the running kernel 6.1.0-57-amd64 (headers missing).")
    assert "linux-headers-6.1.0-57-amd64" in finding.fix
    assert not blocking(planned(host, install_kernel_modules=False))
    assert blocking(planned(merge(host, {"pci": {"gpus": []}}))) == ["driver.module_missing"]


def test_stopped_daemon_is_started_and_an_unwanted_one_is_stopped() -> None:
    stopped = facts(with_driver(), {"units": {"nvidia-persistenced.service": {**UNIT, "active": "failed"}}})
    assert planned(stopped).details["services"] == [{"unit": "nvidia-persistenced.service", "enabled": True, "started": True}]
    plan = planned(facts(with_driver()), persistenced=False)
    assert plan.details["services"] == [{"unit": "nvidia-persistenced.service", "enabled": False, "started": False}]
    assert plan.disruption == "host_service_restart"


def test_daemon_without_module_is_only_touched_to_be_stopped() -> None:
    host = facts(with_driver("580.159.04", loaded=None), {"units": {"nvidia-persistenced.service": {**UNIT, "active": "failed"}}})
    assert "services" not in planned(host, install_kernel_modules=False).details
    stopped = planned(host, install_kernel_modules=False, persistenced=False).details["services"]
    assert stopped == [{"unit": "nvidia-persistenced.service", "enabled": False, "started": False}]


def test_static_unit_counts_as_enabled() -> None:
    assert not planned(facts(with_driver(), {"units": {"nvidia-persistenced.service": {**UNIT, "enabled": "static"}}})).changes


def test_daemon_that_no_package_brings_is_a_warning() -> None:
    host = facts(with_driver())
    host["units"] = {}
    assert found(planned(host), "persistenced_missing").severity == "warn"


def test_fabric_manager_of_an_nvswitch_machine_must_run() -> None:
    fabric: dict[str, Any] = {
        "fabric": {"kind": "nvswitch"},
        "units": {"nvidia-fabricmanager.service": {**UNIT, "active": "inactive", "enabled": "disabled"}},
    }
    names = ("nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-fabricmanager-570")
    host = facts(with_driver(names=names), fabric)
    assert [service["unit"] for service in planned(host).details["services"]] == ["nvidia-fabricmanager.service"]
    assert not planned(host, fabric_manager="absent").changes


def test_hung_driver_is_not_changed_below() -> None:
    assert found(planned(facts(with_driver(), {"state": "hung"}), branch=580), "hung").severity == "block"


@pytest.mark.parametrize(
    ("state", "mok", "blocks"), [("enabled", False, True), ("enabled", None, True), ("enabled", True, False), ("disabled", None, False)]
)
def test_secure_boot_without_a_key_is_refused(state: str, mok: bool | None, blocks: bool) -> None:
    plan = planned(facts({"host": {"secure_boot": {"state": state, "mok_enrolled": mok}}}), branch=580)
    assert ("driver.secure_boot" in blocking(plan)) is blocks


def test_host_without_gpu_gets_a_warning_and_no_load() -> None:
    plan = planned(facts({"pci": {"gpus": []}}), branch=580)
    assert found(plan, "no_gpu").severity == "warn"
    assert "driver.load" not in ids(plan)


def test_missing_headers_are_said_beforehand_and_asked_for() -> None:
    host = facts({"host": {"kernel": {"headers": ["6.1.0-57-amd64"], "next_boot": "6.1.0-58-amd64"}}})
    plan = planned(host, branch=580)
    assert found(plan, "headers_missing").subject == "6.1.0-58-amd64"
    assert plan.details["packages"]["optional"] == ["linux-headers-6.1.0-58-amd64"]
    assert planned(host, branch=580, install_kernel_modules=False).details["packages"]["optional"] == []


def test_check_mode_predicts_what_later_roles_see() -> None:
    predicted = planned(facts(), version="580.159.04").predicted
    assert predicted["driver"]["loaded"]["version"] == "580.159.04"
    assert (predicted["state"], predicted["nvml"]["driver_version"]) == ("ok", "580.159.04")
    assert predicted["units"]["nvidia-persistenced.service"]["active"] == "active"


def test_check_mode_predicts_the_fabric_manager_of_an_nvswitch_machine() -> None:
    predicted = planned(facts({"fabric": {"needed": True, "kind": "nvswitch"}}), version="580.159.04").predicted
    assert predicted["fabric"]["manager"] == {"unit": "nvidia-fabricmanager.service", "installed_version": "580.159.04", "active": "active"}
    assert predicted["fabric"]["ready"] is True
    assert "fabric" not in planned(facts(), version="580.159.04").predicted


def test_nothing_running_is_predicted_without_the_reboot_it_needs() -> None:
    predicted = planned(facts(with_driver()), version="580.159.04", reboot="delegate").predicted
    assert predicted["driver"]["installed"]["version"] == "580.159.04"
    assert "loaded" not in predicted["driver"]


def test_planning_on_the_predicted_host_finds_nothing_left() -> None:
    first = planned(facts(), version="580.159.04")
    hashes = {entry["path"]: __import__("hashlib").sha256(entry["content"].encode()).hexdigest() for entry in first.details["files"]}
    after = facts(
        first.predicted, {"state_files": {"files": hashes}, "packages": {"holds": ["nvidia-driver-cuda", "nvidia-kernel-open-dkms"]}}
    )
    assert ids(planned(after, version="580.159.04")) == []


def test_absent_takes_away_what_is_ours() -> None:
    plan = planned(facts(with_driver()), state="absent")
    assert plan.details["packages"] == {"state": "absent", "names": sorted(NAMES), "repository_remove": True}
    by_hand = planned(facts(with_driver(), {"driver": {"repository": None}}), state="absent")
    assert by_hand.details["packages"]["repository_remove"] is True  # its key is still there
    assert {"path": "/etc/modules-load.d/gpufleet-nvidia.conf", "content": None} in plan.details["files"]
    assert plan.details["reboot"]["reasons"][0]["id"] == "driver.still_loaded"
    assert next(change for change in plan.changes if change.id == "driver.packages").disruption == "reboot"


def test_absent_leaves_a_driver_of_others_alone() -> None:
    host = facts(with_driver())
    host["state_files"] = {"driver": None, "files": {}}
    host["driver"]["repository"] = None
    plan = planned(host, state="absent")
    assert ids(plan) == []
    assert found(plan, "not_ours").severity == "warn"


def test_absent_on_a_virgin_host_is_nothing() -> None:
    plan = planned(facts(), state="absent")
    assert (ids(plan), plan.findings, plan.decision) == ([], [], "nothing")


def test_odd_facts_never_raise() -> None:
    for odd in (
        {},
        {"host": None, "driver": None, "pci": None, "packages": None, "state_files": None},
        {"driver": {"installed": {"packages": None}}},
    ):
        assert planned(odd).component == "driver"


@pytest.mark.parametrize("cuda", [{"packages": {"cuda-toolkit-12-8": "12.8.1-1"}}, {"packages": {}, "repository": True}])
def test_absent_leaves_a_repository_that_cuda_still_uses(cuda: dict[str, Any]) -> None:
    plan = planned(facts(with_driver(), {"state_files": {"cuda": {"schema": 1, "holds": [], **cuda}}}), state="absent")
    assert plan.details["packages"]["repository_remove"] is False
    assert "driver.repository" not in ids(plan)


CUDA = {"state_files": {"cuda": {"schema": 1, "holds": [], "packages": {"cuda-toolkit-12-8": "12.8.1-1"}}}}
RUNFILE = {"source": "runfile", "runfile": {"version": "570.133.20"}, "runfile_unit": "hash"}


@pytest.mark.parametrize(
    "changes",
    [
        (with_driver(),),
        (with_driver(), CUDA),
        (with_driver(pending={"nvidia-driver-cuda": "580.159.04-1"}, previous={"version": "1"}), {"packages": {"broken": list(NAMES)}}),
        (with_driver(initramfs={"6.1": "hash"}), {"host": {"kernel": {"installed": ["6.1"]}}}),
        (with_driver(), {"driver": {"modprobe_conf": {"/etc/modprobe.d/gpufleet-nouveau.conf": "hash"}}}),
        (with_driver(names=(), **RUNFILE), {"driver": {"repository": None, "installed": {"origin": "runfile"}}}),
    ],
    ids=["packages", "beside CUDA", "interrupted", "initramfs", "nouveau's file", "runfile"],
)
def test_after_absent_check_mode_shows_later_roles_a_host_without_it(changes: tuple[dict[str, Any], ...]) -> None:
    host = facts(*changes)
    first = planned(host, state="absent", reboot="if_needed")
    assert first.changes
    after = merge(host, first.predicted)
    again = planned(after, state="absent", reboot="if_needed")
    assert (ids(again), again.findings, again.predicted) == ([], [], {})
    assert (after["state"], after["driver"]["loaded"]) == ("no_driver", None)
    assert (after["packages"]["holds"], after["packages"]["broken"]) == ([], [])
    assert set(after["state_files"]["files"].values()) == {None}
    fresh = planned(after, branch=580)
    assert {"driver.packages", "driver.load"} <= set(ids(fresh))


def test_absent_without_a_reboot_still_shows_the_loaded_modules() -> None:
    predicted = planned(facts(with_driver()), state="absent", reboot="delegate").predicted
    assert "loaded" not in predicted["driver"]
    assert "state" not in predicted


def test_holds_of_others_stay_in_the_prediction() -> None:
    host = facts(with_driver(), {"packages": {"holds": [*NAMES, "linux-image-amd64"]}})
    assert planned(host, state="absent").predicted["packages"]["holds"] == ["linux-image-amd64"]
