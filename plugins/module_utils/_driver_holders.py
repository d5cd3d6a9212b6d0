# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who keeps the loaded driver from being unloaded: processes, kernel modules, the console. Private to the collection.

From /proc/PID/fd and sysfs alone, so that it also works where NVML does not answer. Those links can be read without the
memory lock of a process, which one that hangs in the driver may hold.
"""

from __future__ import annotations

import os
import typing as t

from ._open_files import open_files
from ._processes import Processes
from ._reader import Reader

_NAMES = ("nvidia", "gdrdrv")


def read_holders(reader: Reader, pids: t.Iterable[int] = ()) -> dict[str, t.Any]:
    """The part `driver.holders` of gpu_info; `pids`: from NVML's process table, which also knows those without an open file."""
    opened = _open_devices(reader)
    for pid in pids:
        opened.setdefault(pid, set())
    described = Processes(reader)
    return {
        "processes": [{"pid": pid, **described.describe_fully(pid), "devices": sorted(devices)} for pid, devices in sorted(opened.items())],
        "modules": module_tree(reader),
        "console": _console(reader),
    }


def module_tree(reader: Reader) -> list[dict[str, t.Any]]:
    """The nvidia modules and all that hold one of them, those first that nothing needs: the order to unload in."""
    root = reader.sys("module")
    todo = [name for name in reader.names(root) if name.startswith(_NAMES)]
    holders: dict[str, list[str]] = {}
    while todo:
        name = todo.pop()
        if name not in holders and os.path.isdir(f"{root}/{name}"):
            holders[name] = reader.names(f"{root}/{name}/holders")
            todo += holders[name]
    ordered: list[str] = []
    while len(ordered) < len(holders):
        free = sorted(name for name in holders if name not in ordered and all(h in ordered or h not in holders for h in holders[name]))
        ordered += free or sorted(set(holders) - set(ordered))  # a cycle cannot be, and would not end
    return [{"name": name, "refcount": reader.number(f"{root}/{name}/refcnt"), "holders": holders[name]} for name in ordered]


def _open_devices(reader: Reader) -> dict[int, set[str]]:
    """pid → device files of NVIDIA's driver that it has open."""
    drm = _drm_nodes(reader)
    found: dict[int, set[str]] = {}
    for pid, link in open_files(reader, "driver.holders.processes"):
        target = reader.shown(link)
        if pid != os.getpid() and (target.startswith(("/dev/nvidia", "/dev/gdrdrv")) or target in drm):
            found.setdefault(pid, set()).add(target)
    return found


def _drm_nodes(reader: Reader) -> set[str]:
    """/dev/dri nodes of NVIDIA's driver: a display server may have no other file of it open."""
    root = reader.sys("class/drm")
    return {
        f"/dev/dri/{name}" for name in reader.names(root) if "-" not in name and reader.link(f"{root}/{name}/device/driver") == "nvidia"
    }


def _console(reader: Reader) -> list[str]:
    """Frame buffers of nvidia_drm that the text console is drawn on."""
    root = reader.sys("class/graphics")
    ours = [
        name
        for name in reader.names(root)
        if name.startswith("fb")
        and ("nvidia" in (reader.text(f"{root}/{name}/name") or "") or reader.link(f"{root}/{name}/device/driver") == "nvidia")
    ]
    bound = [
        name
        for name in reader.names(reader.sys("class/vtconsole"))
        if reader.text(reader.sys(f"class/vtconsole/{name}/bind")) == "1"
        and "frame buffer" in (reader.text(reader.sys(f"class/vtconsole/{name}/name")) or "")
    ]
    return ours if bound else []
