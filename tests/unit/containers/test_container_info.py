# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host's half reads: keys that apt trusts everywhere, rootless Docker of a user."""

from __future__ import annotations

import base64
import os
import pwd
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _cdi_host as cdi_host
from ansible_collections.gpufleet.inference.plugins.module_utils import _config_files as config_files
from ansible_collections.gpufleet.inference.plugins.module_utils import _container_info as container_info
from ansible_collections.gpufleet.inference.plugins.module_utils import _engines_host as engines_host

KEY = b"\x99\x01\x0d some packet " + bytes.fromhex("DDCAE044F796ECB0") + b" and the rest of a signature, long enough for two lines"


def armoured(content: bytes) -> bytes:
    body = base64.encodebytes(content)
    return b"-----BEGIN PGP PUBLIC KEY BLOCK-----\nVersion: x\n\n" + body + b"=abcd\n-----END PGP PUBLIC KEY BLOCK-----\n"


@pytest.mark.parametrize(
    ("content", "found"),
    [(KEY, True), (armoured(KEY), True), (armoured(b"another key of somebody"), False), (b"", False), (b"\n\n$$$\n-", False)],
)
def test_the_key_is_found_by_what_is_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, found: bool) -> None:
    (tmp_path / "whatever.gpg").write_bytes(content)
    monkeypatch.setattr(container_info.glob, "glob", lambda pattern: [str(tmp_path / "whatever.gpg")] if "trusted" in pattern else [])
    assert [Path(path).name for path in container_info._old_keys() if str(tmp_path) in path] == (["whatever.gpg"] if found else [])


def test_a_unit_that_only_systemd_remembers_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toolkit's own unit after a move below 1.18; the planner chose it, and its own did not come."""
    (tmp_path / "there.service").touch()
    paths = {"nvidia-cdi-refresh.service": "gone.service", "gpufleet-docker-cdi.service": "there.service"}
    shown = {name: {"Id": name, "LoadState": "loaded", "FragmentPath": str(tmp_path / path)} for name, path in paths.items()}
    monkeypatch.setattr(container_info, "show_units", lambda names: shown)
    assert list(container_info.collect()["toolkit"]["units"]) == ["gpufleet-docker-cdi.service"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    uid = os.getuid()
    entry = pwd.struct_passwd(("alice", "x", uid, uid, "", str(tmp_path), "/bin/sh"))
    monkeypatch.setattr(engines_host.pwd, "getpwnam", lambda name: {"alice": entry}[name])
    monkeypatch.setattr(engines_host, "docker_info", lambda path: {"asked": path})
    return tmp_path


def test_rootless_docker_of_a_user(home: Path) -> None:
    (home / ".config/docker").mkdir(parents=True)
    (home / ".config/docker/daemon.json").write_text("{}")
    found = engines_host._rootless("alice")
    assert (found["uid"], found["state"], found["text"], found["running"]) == (
        os.getuid(),
        "ok",
        "{}",
        {"asked": f"/run/user/{os.getuid()}/docker.sock"},
    )


def test_a_user_who_is_not_there(home: Path) -> None:
    assert engines_host._rootless("bob") == {"user": "bob", "uid": None}


def test_a_link_to_a_file_of_somebody_else_is_not_followed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".config/docker").mkdir(parents=True)
    (home / ".config/docker/daemon.json").symlink_to("/etc/hostname")
    real = os.stat

    def owned(path: Any, *given: Any, **more: Any) -> os.stat_result:
        found = real(path, *given, **more)
        return os.stat_result((*found[:4], os.getuid() + 1, *found[5:])) if str(path) == "/etc/hostname" else found

    monkeypatch.setattr(engines_host.os, "stat", owned)
    found = engines_host._rootless("alice")
    assert (found["state"], found["text"], found["reason"]) == ("unreadable", None, "it does not belong to alice")


@pytest.mark.parametrize(("modify", "there", "missing"), [(1, False, True), (1, True, False), (0, False, False)])
def test_a_capability_without_its_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modify: int, there: bool, missing: bool) -> None:
    access = tmp_path / "gpu0/mig/gi1/access"
    access.parent.mkdir(parents=True)
    access.write_text(f"DeviceFileMinor: 12\nDeviceFileMode: 292\nDeviceFileModify: {modify}\n")
    monkeypatch.setattr(cdi_host, "_CAPABILITIES", (str(tmp_path / "gpu*/mig/gi*/access"), str(tmp_path / "gpu*/mig/gi*/ci*/access")))
    monkeypatch.setattr(cdi_host.os.path, "exists", lambda path: there)
    assert cdi_host._missing_caps() == (["/dev/nvidia-caps/nvidia-cap12"] if missing else [])


def test_when_a_file_was_changed_is_not_what_its_mtime_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.toml"
    path.write_text("version = 2\n")
    os.utime(path, (4e9, 4e9))  # as an image or rsync -t brings it: a restart at every run otherwise
    changed = config_files.read_config(str(path))["changed_at"]
    assert changed is not None
    assert changed <= time.time()
    monkeypatch.setattr(config_files.time, "time", lambda: changed - 3600)
    assert config_files.read_config(str(path))["changed_at"] is None, "the clock was put back"


@pytest.mark.parametrize("option", ["--config-file=/etc/docker/site.json", "--config-file /etc/docker/site.json"])
def test_docker_reads_the_file_that_its_unit_names(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setattr(engines_host, "_binary", lambda engine, unit: "/usr/bin/dockerd" if engine == "docker" else "")
    monkeypatch.setattr(engines_host, "_version", lambda binary: "26.1.5")
    command = f"{{ path=/usr/bin/dockerd ; argv[]=/usr/bin/dockerd -H fd:// {option} ; ignore_errors=no }}"
    unit = {"ActiveState": "inactive", "ExecStart": command}
    assert engines_host.read_engines({"docker.service": unit}, [])["docker"]["files"][0]["path"] == "/etc/docker/site.json"
    assert engines_host.read_engines({}, [])["docker"]["files"][0]["path"] == "/etc/docker/daemon.json"


def test_a_folder_that_is_a_link_to_the_other_is_no_second_specification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/nvidia.yaml").write_text("kind: nvidia.com/gpu\n")
    (tmp_path / "etc").symlink_to(tmp_path / "run")
    monkeypatch.setattr(cdi_host, "FOLDERS", (str(tmp_path / "etc"), str(tmp_path / "run")))
    assert [spec["path"] for spec in cdi_host.read_cdi()["specs"]] == [str(tmp_path / "run/nvidia.yaml")], "the toolkit's own name for it"


def test_the_journal_of_a_dpkg_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "0000").write_text("Package: libnvidia-container1\nStatus: install ok half-installed\nDescription: x\n Package: no\n")
    (tmp_path / "tmp.i").write_text("Package: never\n")
    monkeypatch.setattr(container_info, "_DPKG_JOURNAL", str(tmp_path / "[0-9]*"))
    assert container_info._dpkg_journal() == ["libnvidia-container1"]
