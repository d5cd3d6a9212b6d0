# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/usr/local/cuda by the alternatives system, as NVIDIA's packages do it, and back to what it was. Private to the collection."""

from __future__ import annotations

import os
import re
import typing as t

from ._cuda_facts import read_link
from ._cuda_record import read_record, update_record
from ._errors import HostError
from ._reader import Reader
from ._subprocess import run

LINK = "/usr/local/cuda"


def link_now() -> dict[str, t.Any]:
    return read_link(Reader())


def remember_link() -> None:
    """Note the link as it was, before packages or an installer replace it without asking."""
    if not read_record().get("link"):
        now = link_now()
        update_record({"link": {"mode": now["mode"], "target": now["target"]}})


def set_default(folder: str, offered: t.Sequence[str], check: bool = False) -> bool:
    """Make the link lead to `folder`, by hand, so that a toolkit that comes later does not take it over."""
    now = link_now()
    missing = [path for path in offered if path not in now["alternatives"]]
    if now["mode"] == "manual" and now["target"] == folder and not missing:
        return False
    if now["mode"] == "folder":
        raise HostError(f"{LINK} is a folder, not a link; move it away first")
    if check:
        return True
    if not os.path.isdir(folder):
        raise HostError(f"{folder} is not there, so it cannot become the default toolkit")
    remember_link()
    if now["mode"] == "plain":
        os.unlink(LINK)
    for path in missing:
        _alternatives("--install", LINK, "cuda", path, str(priority(path)))
    _alternatives("--set", "cuda", folder)
    update_record({"alternatives": sorted({*(read_record().get("alternatives") or ()), *missing}) or None})
    return True


def forget_others(wanted: t.Collection[str]) -> bool:
    """Take away alternatives of ours whose toolkit is not wanted any more."""
    ours = read_record().get("alternatives") or []
    gone = [path for path in ours if path not in wanted]
    for path in set(gone) & set(link_now()["alternatives"]):
        _alternatives("--remove", "cuda", path)
    return bool(gone) and update_record({"alternatives": [path for path in ours if path not in gone] or None})


def restore_link(check: bool = False) -> bool:
    """The link as it was before our first change, as far as what it led to is still there."""
    before = read_record().get("link")
    if before is None or check:
        return before is not None
    for path in set(read_record().get("alternatives") or ()) & set(link_now()["alternatives"]):
        _alternatives("--remove", "cuda", path)
    now = link_now()
    if before["mode"] == "manual" and before["target"] in now["alternatives"]:
        _alternatives("--set", "cuda", before["target"])
    elif now["alternatives"]:
        _alternatives("--auto", "cuda")
    elif before["mode"] == "plain" and before["target"] and os.path.isdir(before["target"]) and not os.path.lexists(LINK):
        os.symlink(before["target"], LINK)
    return True


def priority(folder: str) -> int:
    """NVIDIA's own: 128 for 12.8."""
    numbers = re.findall(r"\d+", os.path.basename(folder))
    return int("".join(numbers[:2]) or 1)


def nvcc_release(folder: str) -> str:
    """12.8 of `Cuda compilation tools, release 12.8, V12.8.93`; HostError where the compiler does not run."""
    result = run([f"{folder}/bin/nvcc", "--version"], timeout=30)
    found = re.search(r"release (\d+\.\d+)", result.out)
    if not result.success or found is None:
        why = result.err.strip() or f"rc {result.rc}" if result.state == "ok" else result.state
        raise HostError(f"{folder}/bin/nvcc does not say its version: {why}")
    return found.group(1)


def _alternatives(*arguments: str) -> None:
    for command in ("update-alternatives", "alternatives"):
        result = run([command, *arguments], timeout=30)
        if result.state != "missing":
            break
    if not result.success:
        raise HostError(f"{command} {' '.join(arguments)}: {result.err.strip() or result.out.strip() or result.state}")
