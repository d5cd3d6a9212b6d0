# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IMEX on the compute trays of a rack: which nodes it is told of, and whether it runs with them. Private to the collection."""

from __future__ import annotations

import os
import re
import typing as t

from ._reader import Reader

_CONFIG = "/etc/nvidia-imex/config.cfg"
_NODES = "/etc/nvidia-imex/nodes_config.cfg"
_CGROUPS = ("fs/cgroup/system.slice", "fs/cgroup/systemd/system.slice")
_SLACK = 1.0
"""Seconds; the boot time that the kernel tells has no fractions."""


def read_imex(reader: Reader) -> dict[str, t.Any]:
    """Keys `nodes`, `config` and `stale` of gpu_info's `fabric.imex`."""
    lines = (line.partition("#")[0].strip() for line in (reader.text(reader.fs(_NODES)) or "").splitlines())
    config = dict(re.findall(r"^([A-Z_]+)=(.*?)\s*$", reader.text(reader.fs(_CONFIG)) or "", re.MULTILINE))
    return {"nodes": [line for line in lines if line], "config": config, "stale": _stale(reader)}


def _stale(reader: Reader) -> t.Optional[bool]:
    """It reads its files once, when it starts."""
    started = _started(reader)
    if started is None:
        return None
    changed = [os.stat(reader.fs(path)).st_mtime for path in (_CONFIG, _NODES) if os.path.exists(reader.fs(path))]
    return any(time > started + _SLACK for time in changed)


def _started(reader: Reader) -> t.Optional[float]:
    """When the service's oldest process began, None where it does not run."""
    boot = re.search(r"^btime (\d+)$", reader.text(reader.proc("stat")) or "", re.MULTILINE)
    texts = (reader.text(reader.sys(f"{base}/nvidia-imex.service/cgroup.procs")) for base in _CGROUPS)
    pids = next((text.split() for text in texts if text), [])
    fields = ((reader.text(reader.proc(f"{pid}/stat")) or "").rpartition(")")[2].split() for pid in pids)
    ticks = [int(words[19]) for words in fields if len(words) > 19]
    return int(boot.group(1)) + min(ticks) / os.sysconf("SC_CLK_TCK") if boot and ticks else None
