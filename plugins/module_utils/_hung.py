# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mark that a process of ours hangs in the NVIDIA driver. Private to the collection.

While that very process lives (same pid, start time and boot) nobody starts another one: each would hang as well,
and stay until the next reboot. The mark heals by itself once the process is gone.
"""

from __future__ import annotations

import datetime
import os
import typing as t

from . import _paths
from ._errors import HostError
from ._state import read_state, write_state
from ._wait import boot_id, start_time

_ROOT = 0


def user_run_dir() -> str:
    """Run directory of an unprivileged user; root's is `/run/gpufleet`."""
    return f"/tmp/.gpufleet-{os.geteuid()}"  # noqa: S108 - ownership is checked before use


def _trusted(folder: str) -> bool:
    try:
        stat = os.lstat(folder)
    except OSError:
        return False
    return stat.st_uid in (_ROOT, os.geteuid()) and not os.path.islink(folder)


def _folders(run_dir: str) -> list[str]:
    return [run_dir] if os.geteuid() == _ROOT else [run_dir, user_run_dir()]


def read_mark(run_dir: str) -> t.Optional[dict[str, t.Any]]:
    """The mark of a process that still hangs, or None; a mark whose process is gone is removed."""
    for folder in _folders(run_dir):
        path = os.path.join(folder, _paths.NVML_HUNG)
        if not _trusted(folder):
            continue
        try:
            mark = read_state(path, "nvml_hung")
        except HostError:  # unreadable or broken: it cannot name a process, so it cannot hold us up
            mark = None
        if mark and mark.get("boot_id") == boot_id() and start_time(int(mark["pid"])) == mark.get("start_time"):
            return mark
        try:
            os.unlink(path)
        except OSError:  # absent, or root's mark seen by a user: it only says what is over
            continue
    return None


def leave_mark(run_dir: str, pid: int, started: t.Optional[int], call: t.Optional[str]) -> tuple[dict[str, t.Any], str]:
    """Write the mark; returns it and, where it could not be written, why."""
    since = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    mark: dict[str, t.Any] = {"pid": pid, "start_time": started or 0, "boot_id": boot_id(), "since": since}
    if call:
        mark["call"] = call
    folder = _folders(run_dir)[-1]
    try:
        os.makedirs(folder, mode=0o755 if os.geteuid() == _ROOT else 0o700, exist_ok=True)
        if not _trusted(folder):
            return mark, f"{folder} belongs to someone else"
        write_state(os.path.join(folder, _paths.NVML_HUNG), "nvml_hung", mark)
    except (OSError, HostError) as exc:
        return mark, str(exc)
    return mark, ""
