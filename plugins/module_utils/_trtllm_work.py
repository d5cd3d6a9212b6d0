# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a stamp to an engine in its store: what is missing, and the build that brings it. Private to the collection.

STORE/NAME/current              link to the engine in use, engines are served from the folder that it leads to
STORE/NAME/snapshots/ID/        an engine with its stamp.json, never changed once it is there
STORE/NAME/partial/ID/          what is being built: engine/ and scratch/
STORE/NAME/build.log            output of the last build

The planning half only reads; `work` runs in a unit of its own (_job).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import typing as t

from ._errors import WorkError
from ._model_layout import Layout
from ._state import write_state
from ._trtllm_build import build
from ._trtllm_stamp import FILE, KIND, NAMES, Stamp, differences, identity, listing, read_stamp, whole
from ._trtllm_verify import verify

SPACE = 1.15
"""Bytes of an engine and its scratch over those of the checkpoint's weights, which it contains."""
Job = t.Mapping[str, t.Any]


class State(t.NamedTuple):
    """What an engine lacks."""

    build: bool
    switch: bool
    differs: list[str]
    """Why the engine in use does not fit, empty if it does."""


def state_of(layout: Layout, stamp: Stamp) -> State:
    """A kept engine of the same stamp is switched back to without a build."""
    used = layout.in_use()
    current = read_stamp(used)
    fits = current is not None and all(current.get(name) == stamp[name] for name in NAMES)
    if fits and whole(used, current):
        return State(False, False, [])
    target = layout.snapshot(identity(stamp))
    kept = whole(target, read_stamp(target))
    return State(not kept, True, ["files of the engine were changed or lost"] if fits else differences(current, stamp))


def check_space(layout: Layout, weights_bytes: int, reserve: int) -> None:
    """WorkError `disk_full` before anything is begun."""
    folder = layout.root
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    status = os.statvfs(folder)
    free, needed = status.f_bavail * status.f_frsize, int(weights_bytes * SPACE) + reserve
    if free < needed:
        short = (needed - free) / 2**30
        text = f"{folder} has {free / 2**30:.1f} GiB free; the engine and reserve take {needed / 2**30:.1f} GiB: {short:.1f} GiB short"
        raise WorkError("disk_full", text)


def work(job: Job, secrets: t.Mapping[str, str], publish: t.Callable[[dict[str, t.Any]], None]) -> dict[str, t.Any]:
    """Build beside, verify, switch, prune. Whatever fails leaves `current` as it was. There are no secrets in it."""
    del secrets
    layout, stamp = Layout(job["store"], job["name"]), dict(job["stamp"])
    target, previous = layout.snapshot(identity(stamp)), layout.in_use()
    state = state_of(layout, stamp)
    shutil.rmtree(os.path.join(layout.root, "partial"), ignore_errors=True)  # of a build that was killed
    if state.build:
        check_space(layout, job["weights_bytes"], job["reserve"])
        _bring(job, layout, stamp, target, publish)
    switched = layout.switch(target)
    return {"path": target, "previous": previous, "switched": switched, "built": state.build, "pruned": _prune(layout, job["keep"])}


def _bring(job: Job, layout: Layout, stamp: Stamp, target: str, publish: t.Callable[[dict[str, t.Any]], None]) -> None:
    partial = layout.partial(os.path.basename(target))
    engine, scratch = os.path.join(partial, "engine"), os.path.join(partial, "scratch")
    for folder in (engine, scratch):
        os.makedirs(folder, mode=0o755)
    log = os.path.join(layout.root, "build.log")
    try:
        build(job, engine, scratch, log, publish)
        verify(engine, stamp, job["words"])
        write_state(os.path.join(engine, FILE), KIND, {**stamp, "files": listing(engine)})
        os.makedirs(layout.snapshots, mode=0o755, exist_ok=True)
        old = target + ".old"
        shutil.rmtree(old, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            os.rename(target, old)  # one whose files were changed
        os.rename(engine, target)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as exc:
        raise WorkError("failed", f"{exc.filename or layout.root}: {exc.strerror or exc}") from exc
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _prune(layout: Layout, keep: int) -> list[str]:
    """Remove all but the engine in use and the `keep` that were built last."""
    used = os.path.basename(layout.in_use())
    others = [name for name in os.listdir(layout.snapshots) if name != used]
    others.sort(key=lambda name: os.stat(layout.snapshot(name)).st_mtime_ns, reverse=True)
    for name in others[keep:]:
        shutil.rmtree(layout.snapshot(name), ignore_errors=True)
    return others[keep:]


def remove(layout: Layout) -> None:
    """All engines of this name; the link goes first. WorkError `taken`: the folder is not ours."""
    known = {"current", "snapshots", "partial", "build.log"}
    foreign = sorted(set(os.listdir(layout.root)) - known)
    if foreign:
        raise WorkError("taken", f"{layout.root} holds {foreign[0]}, which this module did not make; remove the folder by hand")
    if os.path.islink(layout.current):
        os.unlink(layout.current)
    shutil.rmtree(layout.root)
