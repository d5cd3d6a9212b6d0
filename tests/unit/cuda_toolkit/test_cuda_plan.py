# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The difference between what is wanted and what is there."""

from __future__ import annotations

from typing import Any

import pytest
from cuda_hosts import SHA256, after, host, ids, make, the

from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Plan

WANTED: dict[str, Any] = {"versions": ["12.4.1", "12.8.1"], "default": "12.4.1", "cudnn": {"12": "9.20.0.48"}, "nccl": {"12": "2.29.7"}}
PACKAGES = {
    "cuda-toolkit-12-4": "12.4.1-1",
    "cuda-toolkit-12-8": "12.8.1-1",
    "cuda-nvcc-12-8": "12.8.93-1",
    "libcudnn9-cuda-12": "9.20.0.48-1",
    "libcudnn9-dev-cuda-12": "9.20.0.48-1",
    "libcudnn9-headers-cuda-12": "9.20.0.48-1",
    "libnccl2": "2.29.7-1+cuda12.9",
    "libnccl-dev": "2.29.7-1+cuda12.9",
}


def changes(result: Plan) -> dict[str, str]:
    return {change.subject: change.id.removeprefix("cuda.") for change in result.changes}


def test_a_bare_host_gets_all_of_it() -> None:
    result = make(WANTED, host())
    assert ids(result) == []
    options = {package["name"]: (package["version"], package["cuda_major"]) for package in result.details["packages"]["packages"]}
    assert options == {
        "cuda-toolkit-12-4": ("12.4.1", 0),
        "cuda-toolkit-12-8": ("12.8.1", 0),
        "libcudnn9-cuda-12": ("9.20.0.48", 0),
        "libcudnn9-dev-cuda-12": ("9.20.0.48", 0),
        "libcudnn9-headers-cuda-12": ("9.20.0.48", 0),
        "libnccl2": ("2.29.7", 12),
        "libnccl-dev": ("2.29.7", 12),
    }
    assert result.details["environment"]["default"] == "/usr/local/cuda-12.4"
    assert result.details["packages"]["repository_url"].endswith("/debian12/x86_64/")
    assert result.details["stack"]["cuda"]["toolkits"] == ["12.4.1", "12.8.1"]
    assert result.disruption == "none"
    assert result.decision == "converge"


def test_afterwards_there_is_nothing_to_do() -> None:
    result = make(WANTED, after(WANTED, host(), PACKAGES))
    assert (result.changes, ids(result), result.decision) == ([], [], "nothing")


def test_check_mode_foresees_the_toolkits() -> None:
    cuda = make(WANTED, host()).predicted["cuda"]
    assert [(one["version"], one["default"]) for one in cuda["toolkits"]] == [("12.4.1", True), ("12.8.1", False)]
    assert cuda["cudnn"] == [{"version": "9.20.0.48", "cuda_major": 12}]


def test_without_a_word_the_newest_is_the_default() -> None:
    assert make({"versions": ["9.9.9", "13.0.2", "12.8.1"]}, host()).details["environment"]["default"] == "/usr/local/cuda-13.0"


def test_the_lock_fills_an_empty_list_and_nothing_else() -> None:
    lock = {"cuda": {"toolkit": "13.0.2"}}
    assert make({"versions": []}, host(), lock=lock).details["stack"]["cuda"]["toolkits"] == ["13.0.2"]
    assert make({"versions": ["12.8.1"]}, host(), lock=lock).details["stack"]["cuda"]["toolkits"] == ["12.8.1"]


def test_what_was_ours_and_is_not_wanted_goes() -> None:
    result = make({**WANTED, "versions": ["12.8.1"], "default": "", "cudnn": {}}, after(WANTED, host(), PACKAGES))
    gone = {change.subject for change in result.changes if change.id == "cuda.package"}
    assert gone == {"cuda-toolkit-12-4", "libcudnn9-cuda-12", "libcudnn9-dev-cuda-12", "libcudnn9-headers-cuda-12"}
    assert all(change.after is None for change in result.changes if change.id == "cuda.package")
    assert result.disruption == "engine_restart"


def test_what_a_person_installed_stays() -> None:
    facts = after({"versions": ["12.8.1"]}, host(), {"cuda-toolkit-12-8": "12.8.1-1"})
    facts["packages"]["set"]["cuda-toolkit-11-8"] = "11.8.0-1"
    facts["cuda"]["toolkits"].append(
        {"version": "11.8.0", "path": "/usr/local/cuda-11.8", "origin": "package", "default": False, "nvcc": "11.8.89"}
    )
    assert make({"versions": ["12.8.1"]}, facts).changes == []


def test_the_very_toolkit_put_there_without_a_package_is_taken_as_it_is() -> None:
    toolkit = {"version": "12.8.1", "path": "/usr/local/cuda-12.8", "origin": "runfile", "default": False, "nvcc": "12.8.93"}
    result = make({"versions": ["12.8.1"]}, host(cuda={"toolkits": [toolkit]}))
    assert "packages" not in result.details
    assert ids(result) == []


def test_another_release_in_the_folder_is_not_written_over() -> None:
    toolkit = {"version": "12.8.0", "path": "/usr/local/cuda-12.8", "origin": "runfile", "default": False, "nvcc": "12.8.61"}
    facts = host(cuda={"toolkits": [toolkit]})
    for wanted in ({"versions": ["12.8.1"]}, {"versions": ["12.8.1"], "runfiles": {"12.8.1": {"sha256": SHA256}}}):
        assert the(make(wanted, facts), "cuda.folder_taken").nearest == "12.8.0"


@pytest.mark.parametrize(("flag", "expected"), [(False, ["cuda.downgrade"]), (True, [])])
def test_a_downgrade_has_to_be_asked_for(flag: bool, expected: list[str]) -> None:
    facts = after({"versions": ["12.8.1"]}, host(), {"cuda-toolkit-12-8": "12.8.1-1"})
    result = make({"versions": ["12.8.0"], "allow_downgrade": flag}, facts)
    assert ids(result, "block") == expected
    assert changes(result)["cuda-toolkit-12-8"] == "package"


def test_a_foreign_hold_stops_only_what_moves_it() -> None:
    facts = host(packages={"set": {"libnccl2": "2.29.7-1+cuda12.9"}, "holds": ["libnccl2"]})
    wanted = {"versions": ["12.8.1"], "development": False}
    assert ids(make({**wanted, "nccl": {"12": "2.29.7"}}, facts), "block") == []
    assert the(make({**wanted, "nccl": {"12": "2.30.7"}}, facts), "cuda.foreign_hold").subject == "libnccl2"


def test_nccl_built_for_another_major_is_another_package() -> None:
    facts = after(
        {"versions": ["13.0.2"], "nccl": {"13": "2.29.7"}}, host(), {"cuda-toolkit-13-0": "13.0.2-1", "libnccl2": "2.29.7-1+cuda12.9"}
    )
    assert changes(make({"versions": ["13.0.2"], "nccl": {"13": "2.29.7"}, "development": False}, facts))["libnccl2"] == "package"


def test_a_lost_hold_is_put_back_and_ours_is_lifted_when_not_wanted() -> None:
    facts = after({"versions": ["12.8.1"]}, host(), {"cuda-toolkit-12-8": "12.8.1-1"})
    assert [change.before for change in make({"versions": ["12.8.1"], "hold": False}, facts).changes] == ["held"]
    facts["packages"]["holds"] = []
    assert [change.after for change in make({"versions": ["12.8.1"]}, facts).changes] == ["held"]


def test_a_part_moved_by_someone_else_is_said_and_not_undone() -> None:
    facts = after(WANTED, host(), PACKAGES)
    facts["packages"]["set"] = {**PACKAGES, "cuda-nvcc-12-8": "12.8.99-1"}
    result = make(WANTED, facts)
    assert the(result, "cuda.parts_moved").severity == "warn"
    assert result.changes == []


@pytest.mark.parametrize("trace", ["pending", "broken", "missing"])
def test_an_interrupted_transaction_is_finished(trace: str) -> None:
    facts = after(WANTED, host(), PACKAGES)
    if trace == "pending":
        facts["state_files"]["cuda"]["pending"] = {"cuda-nvcc-12-8": "12.8.93-1"}
    elif trace == "broken":
        facts["packages"]["broken"] = ["cuda-nvcc-12-8"]
    else:
        del facts["packages"]["set"]["cuda-nvcc-12-8"]
    result = make(WANTED, facts)
    assert [change.id for change in result.changes] == ["cuda.repair"]
    assert "packages" in result.details


def test_broken_packages_of_others_stop_a_transaction() -> None:
    facts = host(packages={"broken": ["nvidia-dkms-580"]})
    assert the(make({"versions": ["12.8.1"]}, facts), "cuda.packages_broken").severity == "block"


def test_a_link_in_auto_mode_could_move_by_itself() -> None:
    facts = after({"versions": ["12.8.1"]}, host(), {"cuda-toolkit-12-8": "12.8.1-1"})
    facts["cuda"]["link"]["mode"] = "auto"
    assert changes(make({"versions": ["12.8.1"]}, facts)) == {"/usr/local/cuda": "default"}
    facts["cuda"]["link"]["mode"] = "folder"
    assert the(make({"versions": ["12.8.1"]}, facts), "cuda.link_taken").severity == "block"


def test_a_file_of_ours_that_was_edited_is_put_right() -> None:
    facts = after({"versions": ["12.8.1"]}, host(), {"cuda-toolkit-12-8": "12.8.1-1"})
    facts["state_files"]["files"]["/etc/profile.d/gpufleet-cuda.sh"] = "0" * 64
    assert changes(make({"versions": ["12.8.1"]}, facts)) == {"/etc/profile.d/gpufleet-cuda.sh": "file"}
    result = make({"versions": ["12.8.1"], "profile": False}, facts)
    assert result.details["environment"]["files"]["/etc/profile.d/gpufleet-cuda.sh"] == ""


def test_a_compiler_of_another_toolkit_is_a_finding() -> None:
    facts = after({"versions": ["12.8.1"]}, host(), {"cuda-toolkit-12-8": "12.8.1-1"})
    facts["cuda"]["toolkits"][0]["nvcc"] = "12.4.131"
    assert the(make({"versions": ["12.8.1"]}, facts), "cuda.nvcc_mismatch").severity == "block"
    facts["cuda"]["toolkits"][0]["nvcc"] = None
    assert the(make({"versions": ["12.8.1"]}, facts), "cuda.nvcc_missing").severity == "warn"


@pytest.mark.parametrize("name", ["cuda.json", "driver.json"])
@pytest.mark.parametrize("wanted", [{"versions": ["12.8.1"]}, {"state": "absent"}])
def test_a_record_that_cannot_be_read_stops_the_check(wanted: dict[str, Any], name: str) -> None:
    path = f"/var/lib/gpufleet/{name}"
    result = make(wanted, host(state_files={"errors": {path: f"{path} is not valid JSON"}}))
    assert the(result, "cuda.state_unreadable").subject == path
    assert result.changes == []


def test_the_repositorys_key_is_the_one_that_the_site_expects() -> None:
    mirror = {"versions": ["12.8.1"], "repository_url": "http://mirror/repos"}
    assert make(mirror).details["packages"]["repository_key_fingerprint"] == ""
    expected = {**mirror, "repository_key_fingerprint": "eb69 3b30 35cd 5710 e231 e123 a4b4 6996 3bf8 63cc"}
    assert make(expected).details["packages"]["repository_key_fingerprint"] == "EB693B3035CD5710E231E123A4B469963BF863CC"
    nvidia = make({"versions": ["12.8.1"]}).details["packages"]
    assert nvidia["repository_key_fingerprint"].endswith("3BF863CC")  # the matrix knows it


def test_the_hosts_own_repository_is_used_where_it_is_the_same() -> None:
    facts = host()
    facts["driver"]["repository"] = {"url": "http://mirror/repos/debian12/x86_64", "owned": False, "file": "x"}
    wanted = {"versions": ["12.8.1"], "repository_url": "http://mirror/repos"}
    assert "repository_url" not in make(wanted, facts).details["packages"]
    assert make({"versions": ["12.8.1"]}, facts).details["packages"]["repository_url"].startswith("https://developer.download.nvidia.com/")


@pytest.mark.parametrize(("version", "file"), [("12.4.1", "cuda_12.4.1_550.54.15_linux.run"), ("13.4.1", "cuda_13.4.1_linux.run")])
def test_runfiles_have_the_name_of_their_release(version: str, file: str) -> None:
    wanted: dict[str, Any] = {"versions": [version], "runfiles": {version: {"sha256": SHA256}}}
    url = make(wanted, host()).details["runfiles_present"][0]["url"]
    assert url == f"https://developer.download.nvidia.com/compute/cuda/{version}/local_installers/{file}"
    arm = host(host={"machine_arch": "aarch64", "os": {"id": "ubuntu", "version_id": "24.04"}})
    assert make(wanted, arm).details["runfiles_present"][0]["url"].endswith(file.replace("_linux.run", "_linux_sbsa.run"))


def test_a_runfile_toolkit_that_is_not_wanted_goes_first() -> None:
    wanted: dict[str, Any] = {"versions": ["13.0.1"], "runfiles": {"13.0.1": {"sha256": SHA256}}}
    facts = after(wanted, host(), {})
    assert make(wanted, facts).changes == []
    newer = {"versions": ["13.0.2"], "runfiles": {"13.0.2": {"sha256": SHA256}}}
    details = make(newer, facts).details
    assert details["runfiles_absent"] == ["13.0.1"]
    assert details["runfiles_present"][0]["version"] == "13.0.2"


def test_absent_names_ours_alone() -> None:
    facts = after(WANTED, host(), PACKAGES)
    facts["cuda"]["toolkits"].append(
        {"version": "11.8.0", "path": "/usr/local/cuda-11.8", "origin": "runfile", "default": False, "nvcc": "11.8.89"}
    )
    result = make({"state": "absent"}, facts)
    assert the(result, "cuda.not_ours").subject == "/usr/local/cuda-11.8"
    assert result.details["packages"] == {"state": "absent", "repository_remove": True}
    assert [one["version"] for one in result.predicted["cuda"]["toolkits"]] == ["11.8.0"]


def test_absent_leaves_the_repository_to_the_driver() -> None:
    facts = after(WANTED, host(state_files={"driver": {"packages": {"libnvidia-ml1": "580"}}}), PACKAGES)
    assert make({"state": "absent"}, facts).details["packages"]["repository_remove"] is False


@pytest.mark.parametrize(("driver", "goes"), [({}, True), ({"pending": {"libnvidia-ml1": "580"}}, False)])
def test_absent_takes_the_repository_that_the_driver_left_behind(driver: dict[str, Any], goes: bool) -> None:
    """Configured by the driver's role, kept by its removal for CUDA: then it goes with CUDA."""
    facts = after(WANTED, host(state_files={"driver": driver}), PACKAGES)
    del facts["state_files"]["cuda"]["repository"]
    assert make({"state": "absent"}, facts).details["packages"]["repository_remove"] is goes


def test_absent_on_a_host_without_ours_does_nothing() -> None:
    assert make({"state": "absent"}, host()).changes == []
