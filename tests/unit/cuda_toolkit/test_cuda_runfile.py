# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a runfile put there is found by what is new."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _cuda_record, _cuda_runfile
from ansible_collections.gpufleet.inference.plugins.module_utils._cuda_runfile import install, uninstall
from ansible_collections.gpufleet.inference.plugins.module_utils._runfile import RunfileError

INSTALLER = """#!/bin/sh
[ "$*" = "--silent --toolkit" ] || exit 3
mkdir -p {root}/cuda-13.0/bin; touch {root}/cuda-13.0/bin/nvcc {loader}/cuda-13-0.conf
"""


class Host:
    """The places of a host, below a folder of the test."""

    def __init__(self, tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.local, self.loader, self.runfile = tmp / "usr-local", tmp / "ld.so.conf.d", tmp / "cuda.run"
        for folder in (self.local, self.loader):
            folder.mkdir()
        self.folder = self.local / "cuda-13.0"
        (self.local / "somebodys").write_text("x")
        self.packaged: set[str] = set()
        monkeypatch.setattr(_cuda_runfile, "PLACES", {str(self.local): "cuda-{minor}", str(self.loader): ".*cuda.*"})
        monkeypatch.setattr(_cuda_runfile, "_FOLDER", re.compile(str(self.local) + r"/cuda-\d+\.\d+$"))
        monkeypatch.setattr(_cuda_runfile, "_packaged", lambda path: path in self.packaged)
        monkeypatch.setattr(_cuda_record, "CUDA_RECORD", str(tmp / "cuda.json"))

    def write(self, text: str = INSTALLER) -> None:
        self.runfile.write_text(text.format(root=self.local, loader=self.loader))

    def install(self) -> None:
        install(str(self.runfile), "13.0.2", str(self.folder), "a" * 64, 20)

    def tree(self) -> list[str]:
        return sorted(str(path.relative_to(self.local.parent)) for root in (self.local, self.loader) for path in root.rglob("*"))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_in_and_out_again_leaves_the_host_as_it_was(host: Host) -> None:
    before = host.tree()
    host.write()
    host.install()
    entry = _cuda_record.read_record()["runfiles"]["13.0.2"]
    assert entry["paths"] == [str(host.loader / "cuda-13-0.conf"), str(host.folder)]
    assert "runfile_pending" not in _cuda_record.read_record()
    assert uninstall("13.0.2")
    assert host.tree() == before
    assert not uninstall("13.0.2")


def test_a_failed_installer_leaves_no_trace(host: Host) -> None:
    before = host.tree()
    host.write(INSTALLER + "echo no space; exit 1\n")
    with pytest.raises(RunfileError, match=r"rc 1.*no space") as caught:
        host.install()
    assert caught.value.reason == "installer_failed"
    assert host.tree() == before


def test_after_an_interruption_it_begins_anew_from_what_was_there_before(host: Host) -> None:
    before = _cuda_runfile.listing(str(host.folder))
    tree = host.tree()
    _cuda_record.update_record({"runfile_pending": {"version": "13.0.2", "before": before}})
    host.folder.mkdir()
    (host.folder / "half").write_text("x")
    (host.loader / "cuda-13-0.conf").write_text("x")
    host.write()
    host.install()
    assert not (host.folder / "half").exists()
    uninstall("13.0.2")
    assert host.tree() == tree


def test_a_folder_of_somebody_else_is_not_written_over(host: Host) -> None:
    host.folder.mkdir()
    (host.folder / "bin").mkdir()
    host.write()
    with pytest.raises(RunfileError, match="not put there by this role") as caught:
        host.install()
    assert caught.value.reason == "folder_taken"
    assert host.tree() == ["usr-local/cuda-13.0", "usr-local/cuda-13.0/bin", "usr-local/somebodys"]


def test_cuda_compat_may_live_in_the_folder_already(host: Host) -> None:
    (host.folder / "compat").mkdir(parents=True)
    host.packaged = {str(host.folder), str(host.folder / "compat")}
    host.write()
    host.install()
    uninstall("13.0.2")
    assert host.tree() == ["usr-local/cuda-13.0", "usr-local/cuda-13.0/compat", "usr-local/somebodys"]


def test_a_record_that_names_other_places_removes_nothing_there(host: Host, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    _cuda_record.update_record({"runfiles": {"13.0.2": {"sha256": "", "paths": [str(victim)]}}})
    uninstall("13.0.2")
    assert victim.exists()


def test_what_others_put_there_meanwhile_is_theirs(host: Host) -> None:
    """A folder unpacked while the installer ran would be removed with the toolkit, data and all."""
    host.write(INSTALLER + "mkdir -p {root}/models {root}/cuda-12.4; touch {root}/models/weights {root}/cuda-12.4/nvcc\n")
    host.install()
    assert _cuda_record.read_record()["runfiles"]["13.0.2"]["paths"] == [str(host.loader / "cuda-13-0.conf"), str(host.folder)]
    assert uninstall("13.0.2")
    assert not host.folder.exists()
    assert (host.local / "models/weights").exists()
    assert (host.local / "cuda-12.4/nvcc").exists()


def test_what_others_put_there_between_an_interruption_and_the_next_run_is_theirs(host: Host) -> None:
    _cuda_record.update_record({"runfile_pending": {"version": "13.0.2", "before": _cuda_runfile.listing(str(host.folder))}})
    (host.local / "models").mkdir()
    host.write()
    host.install()
    assert (host.local / "models").exists()


def test_a_record_that_names_the_work_of_others_is_not_followed(host: Host) -> None:
    (host.local / "models").mkdir()
    _cuda_record.update_record({"runfiles": {"13.0.2": {"sha256": "a" * 64, "paths": [str(host.local / "models"), str(host.local)]}}})
    assert uninstall("13.0.2")
    assert (host.local / "models").exists()
