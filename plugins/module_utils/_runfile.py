# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that install themselves (.run), the driver's and CUDA's: fetched, resumed, verified. Private to the collection."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import typing as t

from ._errors import HostError

_CHUNK = 1 << 20
_STEPS = 10
"""Lines of progress for a whole file."""

Note = t.Callable[[str], None]
Open = t.Callable[..., t.Any]


class RunfileError(HostError):
    """Why a runfile was not installed; `reason` is a stable word."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def fetch(opener: Open, url: str, path: str, sha256: str, space: int = 1, note: Note = lambda text: None) -> None:
    """Make `path` the verified file. What an interrupted fetch left in `path`.part is gone on with.

    Empty `sha256`: anything is taken, and nothing is resumed, because two halves could be of two files.
    """
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    if sha256 and os.path.exists(path) and _digest(path) == sha256.lower():
        return
    part = path + ".part"
    for other in os.listdir(folder):
        if other.endswith(".part") and other != os.path.basename(part):
            discard(os.path.join(folder, other))
    if not sha256:
        discard(part)
    _fetch(opener, url, part, space, note)
    found = _digest(part)
    if sha256 and found != sha256.lower():
        discard(part)
        raise RunfileError("checksum", f"the runfile of {url} has SHA-256 {found}, expected {sha256.lower()}; it was not run")
    os.replace(part, path)


def discard(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def last_words(output: str, log: str, lines: int = 5) -> str:
    """What an installer said in the end, and the errors of its log."""
    said = [_line(line) for line in output.splitlines() if line.strip()][-lines:]
    with contextlib.suppress(OSError), open(log, encoding="utf-8", errors="replace") as source:
        logged = [_line(line) for line in source if line.strip() and not line.startswith("    ")]  # those are its command line
        errors = [line for line in logged if "ERROR" in line.upper()][-3:]
        said += [line for line in errors or logged[-3:] if line not in said]
    return " / ".join(said)


def _line(text: str) -> str:
    return text.strip().removeprefix("-> ")


def _fetch(opener: Open, url: str, part: str, space: int, note: Note) -> None:
    have = os.path.getsize(part) if os.path.exists(part) else 0
    try:
        with contextlib.closing(_answer(opener, url, have)) as answer:
            resumed = have and getattr(answer, "code", None) == 206
            start = have if resumed else 0
            length = (getattr(answer, "headers", None) or {}).get("Content-Length")
            size = start + int(length) if length else 0
            _room(part, size, start, space)
            note(f"fetching {url}: {size >> 20} MiB" + (f", {start >> 20} of them are here" if start else ""))
            with open(part, "ab" if resumed else "wb") as target:
                _copy(answer, target, start, size, note)
    except (RunfileError, KeyboardInterrupt):
        raise
    except Exception as exc:  # urllib, ssl, http.client and socket each have their own
        raise RunfileError("unreachable", f"the runfile cannot be fetched from {url}: {exc}") from exc
    if size and os.path.getsize(part) < size:
        raise RunfileError("unreachable", f"{url} ended after {os.path.getsize(part)} of {size} bytes; the next run goes on from there")


def _answer(opener: Open, url: str, have: int) -> t.Any:
    if have:
        try:
            return opener(url, timeout=60, headers={"Range": f"bytes={have}-"})
        except Exception as exc:
            if getattr(exc, "code", None) != 416:  # there is nothing after that byte: whole already, or another file
                raise
    return opener(url, timeout=60)


def _room(part: str, size: int, start: int, space: int) -> None:
    free = shutil.disk_usage(os.path.dirname(part)).free
    if size and free < size * space - start:
        raise RunfileError("disk_full", f"{free >> 20} MiB are free, the runfile of {size >> 20} MiB needs {space} times its size")


def _copy(answer: t.Any, target: t.BinaryIO, done: int, size: int, note: Note) -> None:
    said = done * _STEPS // size if size else 0
    for chunk in iter(lambda: answer.read(_CHUNK), b""):
        target.write(chunk)
        done += len(chunk)
        step = done * _STEPS // size if size else 0
        if step > said:
            said = step
            note(f"fetched {done >> 20} of {size >> 20} MiB")


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as source:
        for chunk in iter(lambda: source.read(_CHUNK), b""):
            digest.update(chunk)
    return digest.hexdigest()
