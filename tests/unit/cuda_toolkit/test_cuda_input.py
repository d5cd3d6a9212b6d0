# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wrong wishes: each is one finding that names the variable and what works."""

from __future__ import annotations

from typing import Any

import pytest
from cuda_hosts import SHA256, host, ids, make, the


@pytest.mark.parametrize(
    ("wanted", "subject", "nearest"),
    [
        ({"versions": ["12.8"]}, "versions", "12.8.2"),
        ({"versions": [12.8]}, "versions", "12.8.2"),
        ({"versions": ["latest"]}, "versions", None),
        ({"versions": ["12.8.0", "12.8.1"]}, "versions", "12.8.1"),
        ({"versions": "12.8.1"}, "versions", "['12.8.2']"),
        ({"versions": ["12.8.1"], "default": "12.4.1"}, "default", "12.8.1"),
        ({"versions": ["12.8.1", "13.0.2"], "default": ["12.8.1", "13.0.2"]}, "default", "12.8.1"),
        ({"versions": ["12.8.1"], "runfiles": {"12.8.1": {}}}, "runfiles", None),
        ({"versions": ["12.8.1"], "runfiles": {"12.8.1": {"sha256": "abc"}}}, "runfiles", None),
        ({"versions": ["12.8.1"], "runfiles": {"12.8.2": {"sha256": SHA256}}}, "runfiles", "12.8.1"),
        ({"versions": ["12.8.1"], "runfiles": {"12.8.1": {"sha256": SHA256, "urll": "x"}}}, "runfiles", None),
        ({"versions": ["12.8.1"], "cudnn": {"12": "latest"}}, "cudnn", None),
        ({"versions": ["12.8.1", "13.0.2"], "nccl": {"12": "2.29.7", "13": "2.29.7"}}, "nccl", "{'13': 2.29.7}"),
        ({"versions": ["12.8.1"], "compat": "yes"}, "compat", None),
        ({"versions": ["12.8.1"], "packages_extra": ["cuda-12-8"]}, "packages_extra", "cuda-toolkit-12-8"),
        ({"versions": ["12.8.1"], "packages_extra": ["cuda-drivers-580"]}, "packages_extra", None),
        ({"versions": ["12.8.1"], "package_timeout": 0}, "package_timeout", None),
        ({"versions": ["12.8.1"], "runfile_timeout": 0}, "runfile_timeout", None),
        ({"versions": ["12.8.1"], "runfile_timeout": True}, "runfile_timeout", None),
        ({"versions": ["12.8.1"], "repository_key_fingerprint": "3bf863cc"}, "repository_key_fingerprint", None),
        ({"versions": ["12.8.1"], "repository_url": "ftp//x"}, "repository_url", None),
        ({"versions": ["12.8.1\n"]}, "versions", None),
        ({"versions": ["12.8.1"], "packages_extra": ["cuda-gdb-12-8\n"]}, "packages_extra", None),
        ({"versions": ["12.8.1"], "cudnn": {"1²": "9.20.0.48"}}, "cudnn", None),
        ({"versions": ["12.8.1"], "repository_url": "http://mirror/repos\n"}, "repository_url", None),
        ({"versions": ["12.8.1\n"]}, "versions", "12.8.2"),
        ({"versions": ["12.8.1"], "hodl": True}, "hodl", "hold"),
    ],
)
def test_a_wrong_setting_is_named_with_the_nearest_that_works(wanted: dict[str, Any], subject: str, nearest: str | None) -> None:
    result = make(wanted)
    finding = the(result, "cuda.bad_input")
    assert finding.severity == "block"
    assert finding.subject == f"cuda_toolkit_{subject}"
    if nearest:
        assert finding.nearest == nearest
    assert result.changes == []
    assert result.details == {}


def test_all_that_is_wrong_is_said_at_once() -> None:
    assert ids(make({"versions": ["12"], "compat": "maybe", "hold": "si"})) == ["cuda.bad_input"] * 3


def test_an_empty_list_never_takes_toolkits_away() -> None:
    assert ids(make({"versions": []})) == ["cuda.nothing_asked"]
    result = make({"versions": []}, host(state_files={"cuda": {"packages": {"cuda-toolkit-12-8": "12.8.1-1"}}}))
    assert the(result, "cuda.bad_input").severity == "block"
    assert result.changes == []


def test_cudnn_for_a_major_that_is_not_there() -> None:
    finding = the(make({"versions": ["12.8.1"], "cudnn": {"13": "9.20.0.48"}}), "cudnn.cuda_not_installed")
    assert finding.severity == "block"
    assert finding.component == "cudnn"
    assert finding.nearest == "12"


def test_cudnn_for_a_toolkit_of_somebody_else_is_fine() -> None:
    toolkit = {"version": "13.0.2", "path": "/usr/local/cuda-13.0", "origin": "runfile", "default": True, "nvcc": "13.0.88"}
    facts = host(cuda={"toolkits": [toolkit]})
    assert ids(make({"versions": ["12.8.1"], "cudnn": {"13": "9.20.0.48"}}, facts), "block") == []


def test_a_build_that_does_not_exist_for_this_major() -> None:
    finding = the(make({"versions": ["13.0.2"], "cudnn": {"13": "9.10.2.21"}}), "cudnn.cuda_mismatch")
    assert finding.severity == "block"
    assert "CUDA 11 and 12" in finding.message
    assert finding.nearest is not None


@pytest.mark.parametrize("unknown", ["warn", "block"])
def test_an_unknown_library_version_follows_the_policy(unknown: str) -> None:
    finding = the(make({"versions": ["12.8.1"], "nccl": {"12": "2.29.6"}}, unknown=unknown), "nccl.unknown")
    assert finding.severity == unknown
    assert finding.nearest == "2.29.7"


def test_the_runfile_of_a_release_whose_file_name_is_a_guess_needs_its_url() -> None:
    wanted: dict[str, Any] = {"versions": ["13.5.0"], "runfiles": {"13.5.0": {"sha256": SHA256}}}
    assert the(make(wanted), "cuda.runfile_unknown").nearest == "cuda_13.5.0_linux.run"
    wanted["runfiles"]["13.5.0"]["url"] = "https://mirror.example/cuda_13.5.0_linux.run"
    assert ids(make(wanted), "block") == []


def test_packages_need_apt_or_dnf_and_runfiles_do_not() -> None:
    sles = host(host={"os": {"id": "sles", "version_id": "15.7", "pretty_name": "SLES 15 SP7"}}, packages={"manager": "zypper"})
    assert the(make({"versions": ["12.8.1"]}, sles), "cuda.os_unsupported").severity == "block"
    assert ids(make({"versions": ["12.8.1"], "runfiles": {"12.8.1": {"sha256": SHA256}}}, sles), "block") == []
