# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers over /proc and /sys: overlay and tmpfs mounts on a real host, plain folders below a relocated root.

Mounting needs CAP_SYS_ADMIN. Where it is refused the simulation goes on without that part and says so once, in <run>/notes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from . import paths


def note(text: str) -> None:
    path = paths.run("notes")
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if text not in old:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(old + text + "\n", encoding="utf-8")


def _mount(arguments: list[str], target: str) -> bool:
    result = subprocess.run(
        ["mount", *arguments, target], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False
    )
    if result.returncode != 0:
        note(f"{target}: no simulated content, mount refused: {' '.join(result.stderr.split())}")
    return result.returncode == 0


def _marked(target: str) -> Path:
    return paths.run("mounts" + target.replace("/", "."))


def active(target: str) -> bool:
    """Did we mount here in this boot, and is it still there?"""
    return _marked(target).exists() and (paths.relocated() or os.path.ismount(target))


def _remember(target: str, done: bool) -> bool:
    if done:
        _marked(target).parent.mkdir(parents=True, exist_ok=True)
        _marked(target).touch()
    return done


def tmpfs(target: str) -> bool:
    if active(target):
        return True
    if paths.relocated():
        paths.at(target).mkdir(parents=True, exist_ok=True)
        return _remember(target, True)
    return _remember(target, os.path.isdir(target) and _mount(["-t", "tmpfs", "-o", "mode=0555", "simulated-gpu"], target))


def overlay(target: str) -> bool:
    """A writable layer on top of what is there; the layer lives in /run and goes with a reboot."""
    if active(target):
        return True
    if paths.relocated():
        paths.at(target).mkdir(parents=True, exist_ok=True)
        return _remember(target, True)
    if not os.path.isdir(target):
        note(f"{target}: does not exist on this kernel, nothing simulated there")
        return False
    layer = paths.run("layers" + target.replace("/", "."))
    (layer / "upper").mkdir(parents=True, exist_ok=True)
    (layer / "work").mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={target},upperdir={layer}/upper,workdir={layer}/work"
    return _remember(target, _mount(["-t", "overlay", "-o", options, "simulated-gpu"], target))


def undo(target: str) -> None:
    marked = _marked(target)
    if not marked.exists():
        return
    if not paths.relocated() and os.path.ismount(target):
        subprocess.run(["umount", "-l", target], stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    layer = paths.run("layers" + target.replace("/", "."))
    shutil.rmtree(layer, ignore_errors=True)
    marked.unlink()


def remove_tree(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)
