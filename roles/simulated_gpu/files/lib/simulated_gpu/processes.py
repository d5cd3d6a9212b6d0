# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process table of a GPU, in the form processes.c reads: "<pid>=<type> <bytes> <start time> <name>"."""

from __future__ import annotations

from . import state

TYPES = {"compute": "C", "graphics": "G", "mps": "M"}


def start_time(pid: int) -> int:
    """Field 22 of /proc/PID/stat; 0 where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
            return int(handle.read().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def add(uuid: str, pid: int, memory_mib: int, kind: str, name: str, foreign: bool) -> bool:
    """A process of this system is shown while it lives; a foreign one (another PID namespace) until it is removed."""
    started = 0 if foreign else start_time(pid)
    if not foreign and not started:
        raise ValueError(f"no process {pid} here; a process that this system can't see needs --foreign")
    return state.update(state.gpu_file(uuid, "processes"), {str(pid): f"{TYPES[kind]} {memory_mib << 20} {started} {name}"})


def remove(uuid: str, pid: str) -> bool:
    path = state.gpu_file(uuid, "processes")
    keys = list(state.read(path)) if pid == "all" else [pid]
    return state.update(path, dict.fromkeys(keys))


def listed(uuid: str) -> dict[str, str]:
    """Entries that the library would show."""
    out = {}
    for pid, text in state.read(state.gpu_file(uuid, "processes")).items():
        started = int(text.split()[2])
        if not started or start_time(int(pid)) == started:
            out[pid] = text
    return out
