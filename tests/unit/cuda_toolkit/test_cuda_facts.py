# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about /usr/local/cuda and compilers, and the record among the state files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._cuda_environment import priority
from ansible_collections.gpufleet.inference.plugins.module_utils._cuda_facts import read_cuda, read_link
from ansible_collections.gpufleet.inference.plugins.module_utils._packages import Packages
from ansible_collections.gpufleet.inference.plugins.module_utils._reader import Reader

ALTERNATIVES = "{mode}\n/usr/local/cuda\n\n/usr/local/cuda-12.4\n124\n/usr/local/cuda-12.8\n128\n\n"
WITH_SLAVES = (
    "auto\n/usr/local/cuda\nnvcc\n/usr/bin/nvcc\n\n"
    "/usr/local/cuda-12.4\n124\n/usr/local/cuda-12.4/bin/nvcc\n/usr/local/cuda-12.8\n128\n\n\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for minor in ("12.4", "12.8"):
        (tmp_path / f"usr/local/cuda-{minor}/bin").mkdir(parents=True)
    (tmp_path / "etc/alternatives").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/alternatives").mkdir(parents=True)
    return tmp_path


def link(root: Path) -> dict[str, Any]:
    return read_link(Reader(rootfs=str(root)))


def test_no_link(root: Path) -> None:
    assert link(root) == {"mode": "absent", "target": None, "alternatives": []}


@pytest.mark.parametrize("mode", ["auto", "manual"])
def test_a_link_of_the_alternatives_system(root: Path, mode: str) -> None:
    (root / "usr/local/cuda").symlink_to("/etc/alternatives/cuda")
    (root / "etc/alternatives/cuda").symlink_to(root / "usr/local/cuda-12.8")
    (root / "var/lib/dpkg/alternatives/cuda").write_text(ALTERNATIVES.format(mode=mode))
    found = link(root)
    assert found["mode"] == mode
    assert found["alternatives"] == ["/usr/local/cuda-12.4", "/usr/local/cuda-12.8"]


def test_followers_of_the_link_are_not_taken_for_toolkits(root: Path) -> None:
    (root / "var/lib/dpkg/alternatives/cuda").write_text(WITH_SLAVES)
    assert link(root)["alternatives"] == ["/usr/local/cuda-12.4", "/usr/local/cuda-12.8"]


def test_a_plain_link_and_a_folder(root: Path) -> None:
    (root / "usr/local/cuda").symlink_to("cuda-12.4")
    assert link(root) == {"mode": "plain", "target": "/usr/local/cuda-12.4", "alternatives": []}
    (root / "usr/local/cuda").unlink()
    (root / "usr/local/cuda").mkdir()
    assert link(root)["mode"] == "folder"


def test_the_compilers_version(root: Path) -> None:
    parts = {"cuda": {"name": "CUDA SDK", "version": "12.8.1"}, "cuda_nvcc": {"name": "CUDA NVCC", "version": "12.8.93"}}
    (root / "usr/local/cuda-12.8/version.json").write_text(json.dumps(parts))
    found = read_cuda(Reader(rootfs=str(root)), Packages("apt", {}))["toolkits"]
    assert [one["nvcc"] for one in found] == [None]
    (root / "usr/local/cuda-12.8/bin/nvcc").write_text("")
    found = read_cuda(Reader(rootfs=str(root)), Packages("apt", {}))["toolkits"]
    assert [(one["version"], one["nvcc"]) for one in found] == [("12.8.1", "12.8.93")]


@pytest.mark.parametrize(("folder", "expected"), [("/usr/local/cuda-12.8", 128), ("/usr/local/cuda-13.0", 130), ("/usr/local/cuda", 1)])
def test_priorities_are_nvidias(folder: str, expected: int) -> None:
    assert priority(folder) == expected
