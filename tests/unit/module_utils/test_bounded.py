# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Children with a bound: functions and commands."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _bounded, _subprocess, _wait


def test_an_answer_comes_back() -> None:
    answer = _bounded.bounded(lambda _slot: {"pid": os.getpid(), "session": os.getsid(0)}, 5)
    assert answer.status == "ok"
    assert answer.data == {"pid": answer.pid, "session": answer.pid}
    assert answer.pid != os.getpid()


def test_what_it_raises_is_told() -> None:
    def fail(slot: Any) -> None:
        slot.note("step two")
        raise ValueError("no")

    answer = _bounded.bounded(fail, 5)
    assert (answer.status, answer.text, answer.call) == ("error", "ValueError: no", "step two")


def test_a_child_that_exits_or_dies() -> None:
    answer = _bounded.bounded(lambda _slot: os._exit(3), 5)
    assert (answer.status, answer.text) == ("died", "ended without an answer")
    answer = _bounded.bounded(lambda _slot: os.kill(os.getpid(), 9), 5)
    assert (answer.status, answer.text) == ("died", "killed by signal 9")


def test_an_answer_that_is_too_large_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bounded, "SIZE", 4096)
    answer = _bounded.bounded(lambda _slot: "x" * 5000, 5)
    assert (answer.status, answer.text) == ("error", "answer of 5012 bytes is too large")


def test_timeout_is_kept_without_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int) -> int:
        raise OSError

    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    begin = time.monotonic()
    assert _bounded.bounded(lambda _slot: time.sleep(30), 0.3).status == "timeout"
    assert 0.3 <= time.monotonic() - begin < 0.8
    assert _bounded.bounded(lambda _slot: 1, 5).data == 1


def test_commands() -> None:
    result = _subprocess.run(["sh", "-c", "echo out; echo err >&2; echo $LC_ALL; cat; exit 3"])
    assert result == ("ok", 3, "out\nC\n", "err\n")
    assert not result.success
    assert _subprocess.run(["no-such-command-here"]).state == "missing"
    assert _subprocess.run(["sh", "-c", "kill -9 $$"]).rc == -9


def test_a_command_is_killed_with_what_it_started() -> None:
    begin = time.monotonic()
    result = _subprocess.run(["sh", "-c", "sleep 60 & echo $!; wait"], timeout=0.3)
    assert time.monotonic() - begin < 1
    assert (result.state, result.success) == ("timeout", False)
    time.sleep(0.05)
    assert _wait.start_time(int(result.out)) is None


def test_what_a_command_leaves_behind_is_not_waited_for() -> None:
    """A daemon that keeps standard output open, as maintainer scripts like to start."""
    begin = time.monotonic()
    result = _subprocess.run(["sh", "-c", "setsid sleep 2 & echo started"], timeout=5)
    assert (result.success, result.out) == (True, "started\n")
    assert time.monotonic() - begin < 1


def test_start_time_knows_processes_apart() -> None:
    assert _wait.start_time(os.getpid()) == _wait.start_time(os.getpid())
    assert _wait.start_time(2**22 + 1) is None
