# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver that hangs: NVML calls that no signal ends, made by a FUSE file whose reads are never answered."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _hung, _nvml, _wait

ROOT = Path(__file__).resolve().parents[3]
SERVER = ROOT / "tests/integration/hung/blocking_fuse.py"
STATE_SCHEMA = json.loads((ROOT / "schemas/state.schema.json").read_text())
needs_fuse = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="needs root and /dev/fuse for a process that cannot be killed"
)
SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import conftest
from ansible_collections.gpufleet.inference.plugins.module_utils import _gpu_query, _nvml
options = _nvml.Options(**json.loads(sys.argv[2]))
print(json.dumps(_nvml.run_bounded(_gpu_query.query, {}, options)._asdict()))
"""


@pytest.fixture
def blocked(tmp_path: Path) -> Iterator[Path]:
    """A file whose reads hang until `<its folder>.release` exists."""
    folder = tmp_path / "fuse"
    folder.mkdir()
    server = subprocess.Popen([sys.executable, str(SERVER), str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        if server.stdout.readline() != "ready\n":
            pytest.skip("FUSE cannot be mounted here")
        yield folder / "blocked"
    finally:
        _release(folder / "blocked")
        time.sleep(0.3)
        ctypes.CDLL(None).umount2(os.fsencode(folder), 2)
        server.kill()
        server.wait()


def _release(blocked: Path) -> None:
    Path(f"{blocked.parent}.release").touch()


def _wait_until(condition: Any, seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _ask(host: Any, timeout: float = 1.0) -> tuple[dict[str, Any], float]:
    """A session in a process of its own, whose output is a pipe: whoever keeps it open makes this wait."""
    options = json.dumps(host.options._replace(timeout=timeout)._asdict())
    begin = time.monotonic()
    result = subprocess.run([sys.executable, "-c", SCRIPT, str(ROOT), options], capture_output=True, text=True, timeout=30)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout), time.monotonic() - begin


@needs_fuse
def test_a_child_that_cannot_be_killed(machine: Any, blocked: Path) -> None:
    host = machine("h200x2")
    base = _ask(host, 20)[1]
    host.simulate("fault", "hang_path", str(blocked), "--gpu", "1")

    outcome, seconds = _ask(host, 1.0)
    assert outcome["state"] == "hung"
    assert seconds < base + 1.0 + 1.0, "returns within the timeout and a moment"
    pid = outcome["hung"]["pid"]
    # One thread a GPU: the one that asks the broken GPU cannot die, and so the process stays although its first thread has ended.
    stuck = [task for task in Path(f"/proc/{pid}/task").iterdir() if "State:\tD" in (task / "status").read_text()]
    assert len(stuck) == 1, "the child really is in uninterruptible sleep"
    assert outcome["hung"]["call"].startswith("nvmlDevice")
    assert f"process {pid}" in outcome["reason"]
    held = [os.readlink(f"{stuck[0]}/fd/{name}") for name in os.listdir(f"{stuck[0]}/fd")]
    assert held, "its files can be seen"
    assert not [target for target in held if target.startswith(("pipe:", "socket:"))]
    assert os.getsid(pid) == pid

    mark = json.loads((host.root / "run/gpufleet/nvml_hung.json").read_text())
    jsonschema.validate(mark, {**STATE_SCHEMA["$defs"]["nvml_hung"]})
    assert (mark["pid"], mark["boot_id"], mark["start_time"]) == (pid, _wait.boot_id(), _wait.start_time(pid))

    begin = time.monotonic()
    again = _nvml.run_bounded(lambda _session, _request: 1, {}, host.options)
    assert time.monotonic() - begin < 0.2, "a later call does not wait"
    assert (again.state, again.hung) == ("hung", outcome["hung"])
    assert again.timings_ms == {}, "and starts no child"

    info = host.collect()
    assert info["state"] == "hung"
    assert info["nvml"]["hung"] == outcome["hung"]
    assert [gpu["state"] for gpu in info["gpus"]] == ["unavailable", "unavailable"]

    _release(blocked)
    assert _wait_until(lambda: _wait.start_time(pid) is None), "the kill takes effect once the driver lets go"
    host.simulate("fault", "none")
    assert host.collect()["state"] == "ok"
    assert not (host.root / "run/gpufleet/nvml_hung.json").exists()


@needs_fuse
def test_the_library_itself_cannot_be_loaded(machine: Any, blocked: Path) -> None:
    host = machine("h200x2")
    outcome, seconds = _ask(host_with_library(host, blocked), 0.5)
    assert outcome["state"] == "hung"
    assert outcome["hung"]["call"] == f"dlopen {blocked}"
    assert seconds < 3


def host_with_library(host: Any, library: Path) -> Any:
    host.options = host.options._replace(library=str(library))
    return host


def test_a_hang_that_a_signal_ends_leaves_no_mark(machine: Any) -> None:
    host = machine("h200x2")
    host.simulate("fault", "hang", "-1", "--gpu", "0")
    begin = time.monotonic()
    info = host.collect(timeout=0.7)
    assert time.monotonic() - begin < 1.7
    assert info["state"] == "hung"
    assert info["nvml"]["hung"] is None
    assert not (host.root / "run/gpufleet/nvml_hung.json").exists()
    host.simulate("fault", "none")
    assert host.collect()["state"] == "ok"


def test_a_mark_counts_for_one_process_only(host: Any) -> None:
    run_dir = str(host.root / "run/gpufleet")
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        started = _wait.start_time(sleeper.pid)
        mark, trouble = _hung.leave_mark(run_dir, sleeper.pid, started, "nvmlInitWithFlags")
        assert trouble == ""
        found = _hung.read_mark(run_dir)
        assert found is not None
        assert found["since"] == mark["since"]
        _hung.leave_mark(run_dir, sleeper.pid, (started or 0) + 1, None)
        assert _hung.read_mark(run_dir) is None, "another process with this pid"
        path = host.root / "run/gpufleet/nvml_hung.json"
        assert not path.exists(), "a mark of the past goes away"
        _hung.leave_mark(run_dir, sleeper.pid, started, None)
        path.write_text(path.read_text().replace(_wait.boot_id(), "another boot"))
        assert _hung.read_mark(run_dir) is None
        path.write_text("{ broken")
        assert _hung.read_mark(run_dir) is None
        _hung.leave_mark(run_dir, sleeper.pid, started, None)
    finally:
        sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert _hung.read_mark(run_dir) is None, "a zombie hangs no more"
    sleeper.wait()


def test_a_mark_that_cannot_be_written_is_said(host: Any) -> None:
    host.write("run/gpufleet", "a file where the folder should be")
    mark, trouble = _hung.leave_mark(str(host.root / "run/gpufleet"), 1, 2, None)
    assert mark["pid"] == 1
    assert trouble


def test_a_folder_of_somebody_else_is_not_believed(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """/tmp is everyone's: a mark put there for us would make us idle, and a link would make us write elsewhere."""
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        folder = host.root / "own"
        monkeypatch.setattr(_hung, "user_run_dir", lambda: str(folder))
        folder.mkdir()
        owner = folder.stat().st_uid
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1000)
        monkeypatch.setattr(_hung, "_ROOT", owner + 1)
        run_dir = str(host.root / "run/gpufleet")
        mark = {"schema": 1, "pid": sleeper.pid, "start_time": _wait.start_time(sleeper.pid), "boot_id": _wait.boot_id(), "since": "now"}
        (folder / "nvml_hung.json").write_text(json.dumps(mark))
        assert _hung.read_mark(run_dir) is None
        assert _hung.leave_mark(run_dir, 1, 1, None)[1] == f"{folder} belongs to someone else"
        monkeypatch.setattr(os, "geteuid", lambda: owner)
        monkeypatch.setattr(_hung, "_ROOT", 12345 if owner == 0 else 0)
        assert _hung.read_mark(run_dir) is not None, "the same mark in a folder of ours counts"
        folder.rename(host.root / "real")
        folder.symlink_to(host.root / "real")
        assert _hung.read_mark(run_dir) is None
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_stopped_caller_does_not_leave_its_child(machine: Any) -> None:
    """The module is killed while its child waits for the driver: the child ends by itself."""
    host = machine("h200x2")
    host.simulate("fault", "hang", "-1", "--gpu", "0")
    options = json.dumps(host.options._replace(timeout=1.0)._asdict())
    caller = subprocess.Popen([sys.executable, "-c", SCRIPT, str(ROOT), options])
    children = Path(f"/proc/{caller.pid}/task/{caller.pid}/children")
    assert _wait_until(lambda: children.read_text().strip())
    child = int(children.read_text())
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    assert _wait_until(lambda: _wait.start_time(child) is None, 5)
