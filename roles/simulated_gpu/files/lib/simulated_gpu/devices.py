# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Device nodes. Without CAP_MKNOD /dev/null is bound in their place: still a character device, with the wrong number."""

from __future__ import annotations

import os
import stat
import subprocess
from fnmatch import fnmatch
from pathlib import Path

from . import mounts, paths
from .profile import Machine

Node = tuple[str, int, int, int]
OF_MODULE = {"nvidia_uvm": ("nvidia-uvm*",), "nvidia_modeset": ("nvidia-modeset",)}
"""Device files that are not the first module's."""


def nodes(machine: Machine) -> list[Node]:
    """(path, major, minor, mode) as a 580 driver has them."""
    from . import hardware

    fixed = [
        ("/dev/nvidiactl", 195, 255, 0o666),
        ("/dev/nvidia-modeset", 195, 254, 0o666),
        ("/dev/nvidia-uvm", 238, 0, 0o666),
        ("/dev/nvidia-uvm-tools", 238, 1, 0o666),
        ("/dev/nvidia-caps/nvidia-cap1", 241, 1, 0o400),
        ("/dev/nvidia-caps/nvidia-cap2", 241, 2, 0o444),
    ]
    gpus = [
        (f"/dev/nvidia{minor}", 195, minor, 0o666) for minor in (int(machine.get(slot, "minor")) for slot in hardware.present_gpus(machine))
    ]
    switches = [d for d in machine.pci_devices() if d["class"].startswith("0x0680")]
    extra = [(f"/dev/nvidia-nvswitch{n}", 239, n, 0o666) for n in range(len(switches))] + (
        [("/dev/nvidia-nvswitchctl", 239, 255, 0o666)] if switches else []
    )
    return fixed + gpus + extra


def _make(path: Path, major: int, minor: int, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        return
    if paths.relocated():
        path.touch()
        return
    try:
        os.mknod(path, stat.S_IFCHR | mode, os.makedev(major, minor))
        os.chmod(path, mode)
        return
    except PermissionError:
        path.touch()
    done = subprocess.run(
        ["mount", "--bind", "/dev/null", str(path)], stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False
    )
    if done.returncode != 0:
        mounts.note(f"{path}: a plain file, neither mknod nor a bind mount is allowed")
    else:
        mounts.note("/dev/nvidia*: bound from /dev/null, mknod is not allowed here")


def create(machine: Machine) -> None:
    for path, major, minor, mode in nodes(machine):
        _make(paths.at(path), major, minor, mode)


def remove(machine: Machine, names: tuple[str, ...] = ("nvidia*",)) -> None:
    for path in sorted(found for name in names for found in paths.at("/dev").glob(name)):
        for node in sorted(path.iterdir()) if path.is_dir() else [path]:
            if not paths.relocated() and os.path.ismount(node):
                subprocess.run(["umount", "-l", str(node)], stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
            node.unlink(missing_ok=True)
        if path.is_dir():
            path.rmdir()


def hold(names: tuple[str, ...] = ("nvidiactl", "nvidia-uvm", "nvidia[0-9]*")) -> None:
    """What a client of the real driver has open, seen in /proc/PID/fd and kept by what this process becomes.

    O_PATH: there is no driver behind the nodes that could answer an open.
    """
    for name in names:
        for path in paths.at("/dev").glob(name):
            os.set_inheritable(os.open(path, os.O_PATH), True)


def users(module: str) -> list[int]:
    """Processes that have a device file of this module open."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            target = Path(os.readlink(link))
        except OSError:
            continue
        if target.parent == paths.at("/dev") and _owner(target.name) == module:
            found.add(int(link.parts[2]))
    return sorted(found)


def _owner(name: str) -> str:
    if not name.startswith("nvidia"):
        return ""
    return next((module for module, patterns in OF_MODULE.items() if any(fnmatch(name, p) for p in patterns)), "nvidia")
