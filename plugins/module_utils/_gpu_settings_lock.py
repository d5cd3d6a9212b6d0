# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One at a time: locks of device settings on a host. Private to the collection.

`flock` is gone with its process, whatever ends it, so there is no stale lock. The file says who holds it.
Two locks: RUN_LOCK for a whole run of the module, APPLY_LOCK for the moment in which a process sets something;
a run starts units that set something themselves, so one lock would wait for itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import typing as t

from ._errors import HostError

RUN_LOCK = "gpu_settings.lock"
APPLY_LOCK = "gpu_settings_apply.lock"


class Locked(HostError):
    """Someone else holds the lock."""


@contextlib.contextmanager
def hold(run_dir: str, name: str, what: str, wait: float = 0.0) -> t.Iterator[None]:
    """Hold lock `name`, waiting up to `wait` seconds; Locked names the holder."""
    path = os.path.join(run_dir, name)
    try:
        os.makedirs(run_dir, mode=0o755, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as exc:
        raise HostError(f"cannot use the lock {path}: {exc.strerror}") from exc
    try:
        _take(fd, path, wait)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()} {what} since {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


def _take(fd: int, path: str, wait: float) -> None:
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            if time.monotonic() >= deadline:
                pid, *rest = os.pread(fd, 200, 0).decode(errors="replace").strip().split(" ", 1)
                who = f"process {pid} ({''.join(rest)})" if pid else "another process"
                text = f"the device settings of this host are being changed by {who}; this run changed nothing, start it later ({path})"
                raise Locked(text) from None
            time.sleep(0.05)


def held(run_dir: str, name: str) -> bool:
    """Whether someone holds lock `name`; works unprivileged."""
    try:
        fd = os.open(os.path.join(run_dir, name), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(fd)
