# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether GPUs and port of an instance that was stopped are free: no process and the memory back. Private to the collection.

A process that the instance left behind is ended; everybody else's is named and left alone.
"""

from __future__ import annotations

import time
import typing as t

from ._engine_leftovers import end, gpu_use, is_ours, port_holder, words
from ._errors import HostError

_WAIT = 30.0
"""Seconds in which the driver takes back the memory of a process that ended."""


def free(
    name: str,
    user: str,
    units: t.Container[str],
    gpus: t.Sequence[str],
    port: int,
    wait: float = _WAIT,
    sleep: t.Callable[[float], None] = time.sleep,
) -> list[int]:
    """pids of the instance's own left-overs that were ended. HostError naming who else is still there after a bounded wait.

    `units`: of the instance; `port` 0 is not looked at. A driver that does not answer is the gate's matter when the engine starts.
    """
    begun = time.monotonic()
    ended: list[int] = []
    while True:
        use, holder = gpu_use(gpus), port_holder(port) if port else None
        pids = {*use.pids, *([holder] if holder else ())}
        told = end((pid for pid in pids if pid not in ended), lambda pid: is_ours(pid, name, units, user))
        if told:
            ended += told
            continue
        taken = [f"GPU memory by {words(pid)}" for pid in sorted(use.pids - set(ended))]
        taken += [f"port {port} by {words(holder)}"] if holder is not None and holder not in ended else []
        taken += [f"memory of {gpu}, though no process is listed" for gpu in use.memory if not use.pids]
        if not taken and not pids:
            return ended
        if time.monotonic() - begun > wait:
            still = taken or [f"a process of its own that does not end: {words(pid)}" for pid in sorted(pids)]
            raise HostError(f"still in use after {wait:g} s: {'; '.join(still)}")
        sleep(1.0)
