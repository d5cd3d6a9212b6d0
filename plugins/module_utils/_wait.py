# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait for a child process with a bound, and tell one process from another that reuses its pid.

Private to the collection. `subprocess` waits without a bound after a kill, and a process in
uninterruptible sleep ignores SIGKILL; therefore all our children are waited for here.
"""

from __future__ import annotations

import os
import select
import time
import typing as t


def wait_exit(pid: int, timeout: float) -> t.Optional[int]:
    """Reap child `pid`; its wait status, or None when it still runs after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):  # kernel before 5.3, or a sandbox without it
        return _poll_exit(pid, deadline)
    try:
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        poller.poll(max(0.0, timeout) * 1000)
    finally:
        os.close(fd)
    return _reap(pid)


def _poll_exit(pid: int, deadline: float) -> t.Optional[int]:
    pause = 0.0005
    while True:
        status = _reap(pid)
        left = deadline - time.monotonic()
        if status is not None or left <= 0:
            return status
        time.sleep(min(pause, left))
        pause = min(pause * 2, 0.02)


def _reap(pid: int) -> t.Optional[int]:
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # someone else reaped it: it is gone, its status unknown
        return 0
    return status if done == pid else None


def start_time(pid: int) -> t.Optional[int]:
    """Field 22 of /proc/PID/stat in clock ticks; None when there is no such living process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
        ended = fields[0] in (b"Z", b"X") and not _other_threads(pid)
        return None if ended else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def _other_threads(pid: int) -> bool:
    """A process whose first thread has ended lives on as a zombie while another thread hangs in the kernel."""
    try:
        return any(int(task) != pid for task in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return False


def boot_id() -> str:
    """Identity of this boot; empty where the kernel does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as source:
            return source.read().strip()
    except OSError:
        return ""
