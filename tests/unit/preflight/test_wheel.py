# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unpacking nvidia-ml-py's wheel: all or nothing, and only what its RECORD vouches for."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _wheel
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError


def make_wheel(path: Path, version: str = "13.0", files: dict[str, bytes] | None = None, record: bool = True, tamper: str = "") -> str:
    info = f"nvidia_ml_py-{version}.dist-info"
    content = {
        "pynvml.py": b"VERSION = 1\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: nvidia-ml-py\nVersion: {version}\n\nText: no\n".encode(),
    }
    content.update(files or {})
    lines = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
        for name, data in content.items()
    ]
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in content.items():
            wheel.writestr(name, data + (b"# changed" if name == tamper else b""))
        if record:
            wheel.writestr(f"{info}/RECORD", "\n".join([*lines, f"{info}/RECORD,,"]))
    return str(path)


def test_identity_and_unpacking(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "a.whl")
    target = tmp_path / "opt" / "python"
    assert _wheel.wheel_identity(wheel) == ("nvidia-ml-py", "13.0")
    assert _wheel.installed_version(str(target), "nvidia-ml-py") is None
    _wheel.unpack(wheel, str(target))
    assert (target / "pynvml.py").read_text() == "VERSION = 1\n"
    assert _wheel.installed_version(str(target), "nvidia-ml-py") == "13.0"
    assert list(target.parent.iterdir()) == [target]


def test_a_newer_wheel_replaces_the_directory_and_leaves_nothing_of_the_old(tmp_path: Path) -> None:
    target = tmp_path / "python"
    _wheel.unpack(make_wheel(tmp_path / "a.whl", files={"old.py": b"1"}), str(target))
    _wheel.unpack(make_wheel(tmp_path / "b.whl", version="13.1"), str(target))
    assert _wheel.installed_version(str(target), "nvidia-ml-py") == "13.1"
    assert not (target / "old.py").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tamper": "pynvml.py"}, "damaged"),
        ({"record": False}, "no RECORD"),
        ({"files": {"../evil.py": b"1"}}, "outside its directory"),
    ],
)
def test_a_bad_wheel_is_refused_and_the_old_directory_stays(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    target = tmp_path / "python"
    _wheel.unpack(make_wheel(tmp_path / "good.whl"), str(target))
    with pytest.raises(HostError, match=message):
        _wheel.unpack(make_wheel(tmp_path / "bad.whl", version="14.0", **arguments), str(target))  # type: ignore[arg-type]
    assert _wheel.installed_version(str(target), "nvidia-ml-py") == "13.0"
    assert not (tmp_path / "evil.py").exists()
    assert not [name for name in tmp_path.iterdir() if name.name.startswith(".")]


def test_what_is_not_a_wheel_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_text("not a zip")
    with pytest.raises(HostError, match="not a wheel"):
        _wheel.wheel_identity(str(tmp_path / "x.whl"))
    with pytest.raises(HostError, match="does not exist"):
        _wheel.wheel_identity(str(tmp_path / "y.whl"))


def test_remove_is_quiet_where_nothing_is(tmp_path: Path) -> None:
    _wheel.unpack(make_wheel(tmp_path / "a.whl"), str(tmp_path / "python"))
    _wheel.remove(str(tmp_path / "python"))
    _wheel.remove(str(tmp_path / "python"))
    assert [name.name for name in tmp_path.iterdir()] == ["a.whl"]
