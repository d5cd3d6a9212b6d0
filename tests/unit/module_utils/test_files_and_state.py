# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Atomic writes, state files with schema numbers, and what happens when the disk says no."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _files, _state
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError


def test_write_is_idempotent_and_shows_a_diff(tmp_path: Path) -> None:
    path = tmp_path / "deep/er/a.conf"
    first = _files.write_text(str(path), "one\n", mode=0o640)
    assert first.changed
    assert first.diff == {"before_header": str(path), "after_header": str(path), "before": "", "after": "one\n"}
    assert path.stat().st_mode & 0o777 == 0o640
    assert not _files.write_text(str(path), "one\n", mode=0o640).changed
    second = _files.write_text(str(path), "two\n", mode=0o640)
    assert (second.changed, second.diff["before"], second.diff["after"]) == (True, "one\n", "two\n")
    assert os.listdir(path.parent) == ["a.conf"], "no temporary file stays"


def test_a_changed_mode_is_a_change(tmp_path: Path) -> None:
    path = tmp_path / "a"
    _files.write_text(str(path), "x", mode=0o644)
    inode = path.stat().st_ino
    result = _files.write_text(str(path), "x", mode=0o600)
    assert result.changed
    assert result.diff["after_header"].endswith("(mode 0600)")
    assert (path.stat().st_mode & 0o777, path.stat().st_ino) == (0o600, inode)


def test_check_mode_touches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "none/a"
    assert _files.write_text(str(path), "x", check=True).changed
    assert not path.parent.exists()
    path.parent.mkdir()
    path.write_text("x")
    assert _files.remove(str(path), check=True).changed
    assert path.exists()
    assert _files.remove(str(path)).changed
    assert not _files.remove(str(path)).changed


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A tmpfs of 64 KiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], capture_output=True).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_disk_full_leaves_the_old_file(small_disk: Path) -> None:
    path = small_disk / "unit.service"
    _files.write_text(str(path), "old\n")
    with pytest.raises(HostError, match=r"cannot write .*unit\.service: no space left on the file system; the file is as it was"):
        _files.write_text(str(path), "new\n" * 100_000)
    assert path.read_text() == "old\n"
    assert os.listdir(small_disk) == ["unit.service"]


def test_read_only_file_system(small_disk: Path) -> None:
    path = small_disk / "a"
    _files.write_text(str(path), "old\n")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(HostError, match="mounted read-only"):
        _files.write_text(str(path), "new\n")
    with pytest.raises(HostError, match=r"cannot remove .*read-only"):
        _files.remove(str(path))
    assert not _files.write_text(str(path), "old\n").changed


def test_a_failing_rename_cleans_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def refuse(*_args: Any) -> None:
        raise OSError(errno.EACCES, "no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(HostError, match="root is needed"):
        _files.write_text(str(path), "new")
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["a"])


def test_bytes_that_are_no_text_survive(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"caf\xe9\n")
    text = _files.read_text(str(path))
    assert text is not None
    assert not _files.write_text(str(path), text).changed


def test_state_round_trip(tmp_path: Path) -> None:
    path = str(tmp_path / "s.json")
    assert _state.read_state(path, "driver_record") is None
    _state.write_state(path, "driver_record", {"packages": {"b": "1", "a": "2"}, "holds": []})
    assert _state.read_state(path, "driver_record") == {"schema": 1, "packages": {"b": "1", "a": "2"}, "holds": []}
    assert not _state.write_state(path, "driver_record", {"holds": [], "packages": {"a": "2", "b": "1"}}).changed


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not valid JSON"),
        ("[]", "has no schema number"),
        ('{"schema": true}', "has no schema number"),
        ('{"schema": 2}', "has schema 2, this version of gpufleet.inference understands up to 1"),
        ('{"schema": 0}', "cannot be upgraded"),
    ],
)
def test_state_files_that_are_refused_by_name(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(content)
    with pytest.raises(HostError, match=message) as error:
        _state.read_state(str(path), "reboot_required")
    assert str(path) in str(error.value)


def test_upgrade_goes_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_state.SCHEMAS, "driver_record", 3)
    monkeypatch.setitem(_state.UPGRADES, ("driver_record", 1), lambda old: {**old, "one": True})
    monkeypatch.setitem(_state.UPGRADES, ("driver_record", 2), lambda old: {**old, "two": old["one"]})
    assert _state.upgrade({"schema": 1}, "driver_record") == {"schema": 3, "one": True, "two": True}


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("driver_record", '{"schema": 1, "packages": {}, "holds": 5}', "holds is 5, expected a list; repair or remove it"),
        ("cuda_record", '{"schema": 1, "packages": ["a"], "holds": []}', r"packages is \['a'\], expected a map"),
    ],
)
def test_a_part_of_another_shape_is_refused_by_name(tmp_path: Path, kind: str, content: str, message: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(content)
    with pytest.raises(HostError, match=message):
        _state.read_state(str(path), kind)


def test_shapes_are_those_of_the_schema() -> None:
    """The contract says what each part is; the modules' own table must not say otherwise."""
    kinds = json.loads((Path(__file__).resolve().parents[3] / "schemas/state.schema.json").read_text())["$defs"]
    for kind, parts in _state.SHAPES.items():
        for name, shape in parts.items():
            described = kinds[kind]["properties"][name]["type"]
            assert {dict: "object", list: "array"}[shape] in ([described] if isinstance(described, str) else described), (kind, name)
