# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch the files of a revision, side by side, resumable, each kept only if its digest is right. Private to the collection."""

from __future__ import annotations

import concurrent.futures
import http.client
import os
import shutil
import threading
import time
import typing as t

from ._model_hub import File, Hub, ModelError
from ._model_verify import Digests

_CHUNK = 1 << 20
_WAITS = (1.0, 3.0, 10.0, 30.0)
"""Seconds before each further attempt of a file that broke off."""
_AGAIN = ("unreachable", "no_range", "truncated")


class Progress:
    """Counts of all threads together; `publish` is called with them at most every `every` seconds."""

    def __init__(self, total: int, files: int, publish: t.Callable[[dict[str, t.Any]], None], every: float = 1.0) -> None:
        self._lock = threading.Lock()
        self._publish, self._every, self._last = publish, every, 0.0
        self._counts = {"bytes_total": total, "bytes_done": 0, "files_total": files, "files_done": 0, "started": time.time()}

    def add(self, amount: int = 0, files: int = 0) -> None:
        with self._lock:
            self._counts["bytes_done"] += amount
            self._counts["files_done"] += files
            now = time.monotonic()
            if now - self._last < self._every and not files:
                return
            self._last = now
            self._publish(dict(self._counts))


def space_needed(files: t.Iterable[File], folder: str) -> int:
    """Bytes still to come into `folder`, with what is half there."""
    return sum(max(0, file.size - _size(os.path.join(folder, file.path)) - _size(_incomplete(folder, file))) for file in files)


def check_space(folder: str, needed: int, reserve: int) -> None:
    """Before the first byte: a download that fills the disk takes the host's services with it."""
    there = folder
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    free = shutil.disk_usage(there).free
    if free < needed + reserve:
        raise ModelError(
            "disk_full",
            f"{there} has {_gib(free)} free; {_gib(needed)} are to come and {_gib(reserve)} shall stay free: "
            f"{_gib(needed + reserve - free)} short",
        )


def fetch(
    hub: Hub, repo: str, revision: str, files: t.Sequence[File], folder: str, workers: int, progress: Progress
) -> dict[str, dict[str, t.Any]]:
    """All of `files` in `folder`; path → size and sha256. The first failure stops the others."""
    stop = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(max_workers=workers) as pool:
        jobs = {pool.submit(_one, hub, repo, revision, file, folder, progress, stop): file for file in files}
        try:
            done = {jobs[job].path: job.result() for job in concurrent.futures.as_completed(jobs)}
        except BaseException:
            stop.set()
            pool.shutdown(wait=False)
            for job in jobs:
                job.cancel()
            raise
    return done


def _one(hub: Hub, repo: str, revision: str, file: File, folder: str, progress: Progress, stop: threading.Event) -> dict[str, t.Any]:
    path, part = os.path.join(folder, file.path), _incomplete(folder, file)
    if os.path.exists(path):  # verified before it got this name
        progress.add(file.size, 1)
        digests = Digests(file.size)
        digests.feed(path)
        return {"size": file.size, "sha256": digests.sha256}
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    for wait in (*_WAITS, None):
        try:
            _append(hub, repo, revision, file, part, progress, stop)
            break
        except ModelError as exc:
            if exc.reason not in _AGAIN or wait is None or stop.wait(wait):
                raise
            if exc.reason == "no_range":
                os.unlink(part)
    digests = Digests(file.size)
    digests.feed(part)
    wrong = (file.sha256 and digests.sha256 != file.sha256) or (not file.sha256 and file.blob and digests.blob != file.blob)
    if wrong:
        os.unlink(part)
        raise ModelError(
            "checksum", f"{file.path} has SHA-256 {digests.sha256}, expected {file.sha256 or 'git blob ' + file.blob}; it was thrown away"
        )
    os.replace(part, path)
    progress.add(0, 1)
    return {"size": file.size, "sha256": digests.sha256}


def _append(hub: Hub, repo: str, revision: str, file: File, part: str, progress: Progress, stop: threading.Event) -> None:
    """Go on where `part` ends."""
    have = _size(part)
    if have > file.size:
        os.unlink(part)
        have = 0
    progress.add(have)
    if have == file.size and file.size:
        return
    try:
        with hub.open(repo, revision, file, have) as source, open(part, "ab") as target:
            while have < file.size:
                chunk = source.read(min(_CHUNK, file.size - have))
                if not chunk:
                    break
                target.write(chunk)
                have += len(chunk)
                progress.add(len(chunk))
                if stop.is_set():
                    raise ModelError("stopped", f"{file.path}: another file failed")
            target.flush()
            os.fsync(target.fileno())
    except ModelError:
        progress.add(-have)
        raise
    except (OSError, http.client.HTTPException) as exc:
        progress.add(-have)
        if getattr(exc, "errno", 0) == 28:
            raise ModelError("disk_full", f"no space left while {file.path} was fetched; what is there is kept for the next try") from exc
        raise ModelError("unreachable", f"{file.path} broke off: {exc}") from exc
    if have < file.size:
        progress.add(-have)
        raise ModelError("truncated", f"{file.path} ended after {have} of {file.size} bytes")


def _incomplete(folder: str, file: File) -> str:
    return os.path.join(folder, file.path + ".incomplete")


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _gib(amount: int) -> str:
    return f"{amount / (1 << 30):.1f} GiB"
