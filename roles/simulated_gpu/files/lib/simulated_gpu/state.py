# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""State in files of key=value lines, by the same rules as the library's state.c: whole-file replacement by rename, one lock for writers."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from . import paths


def parse(text: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for line in text.splitlines():
        key, sep, value = line.partition("=")
        if sep and not key.startswith("#"):
            out[key] = value
    return out


def read(path: Path) -> dict[str, str]:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}


def replace(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "w", encoding="utf-8") as handle:
        os.fchmod(handle.fileno(), mode)
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(temporary, path)


def write(path: Path, values: Mapping[str, object]) -> None:
    replace(path, "".join(f"{key}={value}\n" for key, value in values.items()))


@contextmanager
def locked() -> Iterator[None]:
    path = paths.run("lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def update(path: Path, changes: Mapping[str, object | None]) -> bool:
    """Set keys, remove those whose value is None; True if the file changed. A file without keys goes away."""
    with locked():
        old = read(path)
        new = dict(old)
        for key, value in changes.items():
            if value is None:
                new.pop(key, None)
            else:
                new[key] = str(value)
        if new == old:
            return False
        if new:
            write(path, new)
        else:
            path.unlink()
        return True


def gpu_file(uuid: str, name: str, persistent: bool = False) -> Path:
    return (paths.lib if persistent else paths.run)(f"gpu/{uuid}/{name}")
