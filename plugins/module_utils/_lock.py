# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of a host: one run at a time changes it. Private to the collection.

A file, not an flock: it has to outlive the module that takes it, until the run releases it, its time is over,
or its owner is known to be dead.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import time
import typing as t

from ._errors import HostError
from ._files import remove
from ._state import read_state, write_state

_GUARD = ".run.lock.guard"
_GUARD_SECONDS = 5.0
"""The guard is held for the time of reading and writing one small file."""

Lock = dict[str, t.Any]


class Locked(HostError):
    """Another run holds the lock; `lock` says which."""

    def __init__(self, path: str, lock: Lock) -> None:
        owner = lock["owner"]
        super().__init__(
            f"another run is changing this host: {lock.get('what') or 'no purpose given'}, by {owner['user']} on {owner['controller']} "
            f"(process {owner['pid']}), since {lock['since']}; its lock expires at {lock['expires']}. "
            f"Wait for it; if you know that it is over, remove {path}"
        )
        self.lock = lock


class Acquired(t.NamedTuple):
    """`previous` is another run's lock that was replaced, `why` it could be."""

    lock: Lock
    changed: bool
    previous: t.Optional[Lock] = None
    why: str = ""


def acquire(path: str, wanted: Lock, ttl: float, now: datetime.datetime, dead: t.Optional[str] = None) -> Acquired:
    """Take the lock, or renew our own. `wanted`: run_id, owner, what; `dead`: run id of a lock whose owner is known to be dead."""
    with _guard(path):
        held = read_state(path, "run_lock")
        why = ""
        if held and held["run_id"] != wanted["run_id"]:
            if held["run_id"] == dead:
                why = "its owner is dead"
            elif now >= datetime.datetime.fromisoformat(held["expires"]):
                why = "it had expired"
            else:
                raise Locked(path, held)
        ours = held if held and not why else None
        lock = {
            **wanted,
            "since": ours["since"] if ours else now.isoformat(timespec="seconds"),
            "expires": (now + datetime.timedelta(seconds=ttl)).isoformat(timespec="seconds"),
        }
        write_state(path, "run_lock", lock)
        return Acquired(lock, ours is None, held if why else None, why)


def release(path: str, run_id: str) -> bool:
    """Give the lock back; False when it is not ours (any more)."""
    with _guard(path):
        held = read_state(path, "run_lock")
        if not held or held["run_id"] != run_id:
            return False
        return remove(path).changed


@contextlib.contextmanager
def _guard(path: str) -> t.Iterator[None]:
    """Keep two modules from deciding at the same moment."""
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        fd = os.open(os.path.join(folder, _GUARD), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise HostError(f"cannot use {path}: {exc.strerror}; the lock needs root (become: true)") from exc
    try:
        deadline = time.monotonic() + _GUARD_SECONDS
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise HostError(f"{path} is being decided on by another process for more than {_GUARD_SECONDS:g} s") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(fd)
