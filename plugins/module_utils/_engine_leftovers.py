# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds the GPUs and the port of an instance, and which of them are the instance's own. Private to the collection.

Ours is a process in the control group of one of the instance's units or containers, or one that carries the instance's mark in its
environment and runs as its user. Everybody else is named and left alone.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import time
import typing as t

from ._bounded import bounded
from ._nvml import Options, Session, run_bounded
from ._nvml_errors import NvmlError
from ._ports import listening
from ._processes import Processes
from ._reader import Reader
from ._wait import start_time

MARK = "GPUFLEET_ENGINE"
"""As plugin_utils/_engine_env.py sets it for every process of an instance."""
_IDLE = 1 << 30
_IDLE_SHARE = 0.01
"""A GPU that nobody uses: no process, and memory in use below 1 GiB or 1 % (what the driver keeps for itself, with NVML's older count)."""
_READ = 3.0
_GRACE = 10.0
_LISTS = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")


class Use(t.NamedTuple):
    """What is in use; `trouble` says why the GPUs could not be asked."""

    pids: frozenset[int]
    memory: tuple[str, ...]
    """UUIDs of GPUs whose memory is in use, with how much."""
    trouble: str


def _query(session: Session, request: dict[str, t.Any]) -> dict[str, t.Any]:
    pids: set[int] = set()
    full: list[str] = []
    version = getattr(session.nvml, "nvmlMemory_v2", None)
    for uuid in request["gpus"]:
        handle = session.call("nvmlDeviceGetHandleByUUID", uuid)
        for name in _LISTS:
            with contextlib.suppress(NvmlError):  # MPS and graphics are not known everywhere
                pids.update(int(process.pid) for process in session.call(name, handle))
        try:
            memory = session.call("nvmlDeviceGetMemoryInfo", handle, *([version] if version else []))
        except NvmlError:
            memory = session.call("nvmlDeviceGetMemoryInfo", handle)
        if memory.used > max(_IDLE, _IDLE_SHARE * memory.total):
            full.append(f"{uuid} ({memory.used / 2**30:.1f} GiB)")
    return {"pids": sorted(pids), "memory": full}


def gpu_use(gpus: t.Sequence[str], options: t.Optional[Options] = None) -> Use:
    """Processes on these GPUs and memory in use, by NVML within a bound. Nothing where no GPU is given or NVML's binding is missing."""
    if not gpus:
        return Use(frozenset(), (), "")
    outcome = run_bounded(_query, {"gpus": list(gpus)}, options or Options(timeout=20))
    if outcome.state in ("no_pynvml", "impostor_pynvml"):
        return Use(frozenset(), (), "")
    if outcome.state != "ok":
        return Use(frozenset(), (), outcome.reason or outcome.state)
    return Use(frozenset(outcome.data["pids"]), tuple(outcome.data["memory"]), "")


def port_holder(port: int) -> t.Optional[int]:
    """pid that listens on the port; 0 where somebody does whom we cannot see."""
    found = listening(Reader(), {port}).get(str(port))
    return None if found is None else int(found["pid"] or 0)


def is_ours(pid: int, name: str, units: t.Container[str], user: str) -> bool:
    described = Processes(Reader()).describe_fully(pid)
    container = (described["container"] or {}).get("name")
    if described["unit"] in units or container == f"gpufleet-engine-{name}":
        return True
    try:
        uids = {0, pwd.getpwnam(user).pw_uid}
        return _uid(pid) in uids and _marked(pid, name)
    except (OSError, KeyError):
        return False


def _uid(pid: int) -> int:
    return os.stat(f"/proc/{pid}").st_uid


def _marked(pid: int, name: str) -> bool:
    """Read in a child: the environment of a process that hangs in the driver hangs its reader too."""

    def read(_slot: t.Any) -> bool:
        with open(f"/proc/{pid}/environ", "rb") as source:
            return f"{MARK}={name}".encode() in source.read().split(b"\0")

    return bounded(read, _READ).data is True


def words(pid: int) -> str:
    """A process for people."""
    if not pid:
        return "a process in another pid namespace"
    about = Processes(Reader()).describe_fully(pid)
    where = about["unit"] or (about["container"] or {}).get("name")
    return f"{about['name'] or 'a process'} (pid {pid}, user {about['user'] or '?'}{f', {where}' if where else ''})"


def end(pids: t.Iterable[int], ours: t.Callable[[int], bool]) -> list[int]:
    """TERM, then KILL; a pid that became another process meanwhile is left alone. Returns those that were told to end."""
    began = {pid: start_time(pid) for pid in pids}
    told = [pid for pid in began if began[pid] is not None and ours(pid) and start_time(pid) == began[pid]]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in told:
            if start_time(pid) == began[pid]:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
        until = time.monotonic() + _GRACE
        while time.monotonic() < until and any(start_time(pid) == began[pid] for pid in told):
            time.sleep(0.2)
    return told
