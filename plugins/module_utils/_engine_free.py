# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether GPUs and port of an instance that was stopped are free. Private to the collection.

Nobody's process is ended here: what belonged to the unit ended with its control group.
"""

from __future__ import annotations

import time
import typing as t

from ._errors import HostError
from ._nvml import Options, Session, run_bounded
from ._nvml_errors import NvmlError
from ._ports import listening
from ._processes import Processes
from ._reader import Reader

_WAIT = 30.0
"""Seconds in which the driver takes back the memory of a process that ended."""


def free(gpus: t.Sequence[str], port: int, wait: float = _WAIT, sleep: t.Callable[[float], None] = time.sleep) -> None:
    """HostError naming who is still there after a bounded wait. `port` 0 is not looked at."""
    begun = time.monotonic()
    while True:
        taken = [*_on_port(port), *_on_gpus(gpus)]
        if not taken:
            return
        if time.monotonic() - begun > wait:
            raise HostError(f"still in use after {wait:g} s: {'; '.join(taken)}")
        sleep(1.0)


def _on_port(port: int) -> list[str]:
    holder = listening(Reader(), only={port}).get(str(port)) if port else None
    return [f"port {port} by {holder['process']} (pid {holder['pid']}, unit {holder['unit']})"] if holder else []


def _on_gpus(gpus: t.Sequence[str]) -> list[str]:
    """Compute processes; a driver that does not answer is the gate's matter when the engine starts."""
    outcome = run_bounded(_processes, {"gpus": list(gpus)}, Options()) if gpus else None
    if outcome is None or outcome.state != "ok":
        return []
    described = Processes(Reader())
    return [f"GPU {uuid} by {described.describe_fully(pid)['name']} (pid {pid})" for uuid, pids in outcome.data.items() for pid in pids]


def _processes(session: Session, request: dict[str, t.Any]) -> dict[str, list[int]]:
    found = {}
    for uuid in request["gpus"]:
        try:
            handle = session.call("nvmlDeviceGetHandleByUUID", uuid)
            found[uuid] = [int(process.pid) for process in session.call("nvmlDeviceGetComputeRunningProcesses", handle)]
        except NvmlError:
            continue
    return found
