# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a function in a child process that may never come back. Private to the collection.

The child has its own session and none of our file descriptors, and it answers through a piece of shared
memory: whatever it hangs in, it holds no pipe that someone waits on. When the time is over it is killed
and waited for only for a moment, since a process in uninterruptible sleep ignores SIGKILL.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import struct
import time
import typing as t

from ._wait import start_time, wait_exit

KILL_GRACE = 0.3
"""Seconds a killed child gets to disappear before it counts as not reapable."""
SIZE = 8 * 1024 * 1024
"""Room for an answer; pages that are not written cost nothing."""
_NOTE = 128
_LENGTH = struct.Struct("=q")
_BODY = _NOTE + _LENGTH.size


class Slot:
    """Shared memory between parent and child: a note (what the child is doing) and its answer."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, SIZE)

    def note(self, text: str) -> None:
        """Called by the child before each step that may hang."""
        self._map[:_NOTE] = text.encode()[:_NOTE].ljust(_NOTE, b"\0")

    def noted(self) -> t.Optional[str]:
        return self._map[:_NOTE].rstrip(b"\0").decode(errors="replace") or None

    def answer(self, data: t.Any) -> None:
        body = json.dumps(data).encode()
        if len(body) > SIZE - _BODY:
            body = json.dumps({"error": f"answer of {len(body)} bytes is too large"}).encode()
        self._map[_BODY : _BODY + len(body)] = body
        self._map[_NOTE:_BODY] = _LENGTH.pack(len(body))

    def answered(self) -> t.Any:
        length = _LENGTH.unpack(self._map[_NOTE:_BODY])[0]
        return json.loads(self._map[_BODY : _BODY + length]) if length else None

    def close(self) -> None:
        self._map.close()


class Answer(t.NamedTuple):
    """What became of the child."""

    status: str
    """ok | error (it raised) | died (no answer) | timeout (killed and gone) | hung (killed and still there)"""
    data: t.Any
    text: str
    """For people: why there is no data."""
    seconds: float
    call: t.Optional[str]
    """The child's last note."""
    pid: int
    start_time: t.Optional[int]
    """Of a hung child, to know it again."""


def bounded(work: t.Callable[[Slot], t.Any], timeout: float) -> Answer:
    """Run `work(slot)` in a child for at most `timeout` seconds; its JSON-able result is the answer's data."""
    slot = Slot()
    try:
        begin = time.monotonic()
        pid = os.fork()
        if pid == 0:
            _child(slot, work, timeout)
        status = wait_exit(pid, timeout)
        killed = status is None
        if killed:
            os.kill(pid, signal.SIGKILL)
            status = wait_exit(pid, KILL_GRACE)
        seconds = time.monotonic() - begin
        call = slot.noted()
        if status is None:
            return Answer("hung", None, f"no answer after {timeout:g} s; the process ignores SIGKILL", seconds, call, pid, start_time(pid))
        if killed:
            return Answer("timeout", None, f"no answer after {timeout:g} s", seconds, call, pid, None)
        return _judge(slot.answered(), status, seconds, call, pid)
    finally:
        slot.close()


def _judge(answer: t.Any, status: int, seconds: float, call: t.Optional[str], pid: int) -> Answer:
    if answer is None:
        why = f"killed by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "ended without an answer"
        return Answer("died", None, why, seconds, call, pid, None)
    if "error" in answer:
        return Answer("error", None, answer["error"], seconds, call, pid, None)
    return Answer("ok", answer["data"], "", seconds, call, pid, None)


def _child(slot: Slot, work: t.Callable[[Slot], t.Any], timeout: float) -> t.NoReturn:
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, timeout + KILL_GRACE)  # the end of a child whose parent was killed
        _leave_files()
        slot.answer({"data": work(slot)})
    except BaseException as exc:
        slot.answer({"error": f"{type(exc).__name__}: {exc}"})
    finally:
        os._exit(0)


def _leave_files() -> None:
    os.chdir("/")
    try:
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    except OSError:  # no procfs
        highest = 1024
    os.closerange(0, highest + 1)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        if null != number:
            os.dup2(null, number)
