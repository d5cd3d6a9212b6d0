# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Atomic writes of small text files, with mode and diff. Private to the collection.

Written to a temporary file in the same directory, flushed to disk, then renamed: a reader or a crash sees the
old file or the new one. When the disk is full or read-only the old file is intact and the error says so.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
import typing as t

from ._errors import HostError

_HINTS = {
    errno.ENOSPC: "no space left on the file system",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is mounted read-only",
    errno.EACCES: "permission denied, root is needed",
    errno.EPERM: "operation not permitted",
}


class Written(t.NamedTuple):
    """Result of `write_text` and `remove`; `diff` has the keys Ansible shows."""

    changed: bool
    diff: dict[str, str]


def read_text(path: str) -> t.Optional[str]:
    """The file's text, None when it does not exist."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as source:
            return source.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise HostError(f"cannot read {path}: {exc.strerror}") from exc


def sha256(path: str) -> t.Optional[str]:
    """Hex digest of the file, None when it does not exist."""
    try:
        with open(path, "rb") as source:
            return hashlib.sha256(source.read()).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_text(path: str, text: str, mode: int = 0o644, dir_mode: int = 0o755, check: bool = False) -> Written:
    """Make `path` hold `text` with `mode`, missing directories with `dir_mode`; with `check` only say what would change."""
    before = read_text(path)
    before_mode = _mode(path)
    changed = before != text or before_mode != mode
    diff = _diff(path, before, text, before_mode, mode)
    if changed and not check:
        try:
            if before == text:
                os.chmod(path, mode)
            else:
                os.makedirs(os.path.dirname(path), mode=dir_mode, exist_ok=True)
                _replace(path, text, mode)
        except OSError as exc:
            raise _explained("write", path, exc) from exc
    return Written(changed, diff)


def remove(path: str, check: bool = False) -> Written:
    """Make `path` not exist."""
    before = read_text(path)
    if before is not None and not check:
        try:
            os.unlink(path)
            _sync_dir(os.path.dirname(path))
        except FileNotFoundError:
            pass
        except OSError as exc:
            raise _explained("remove", path, exc) from exc
    return Written(before is not None, _diff(path, before, None, None, None))


def stage(path: str, text: str, mode: int = 0o644, dir_mode: int = 0o755) -> str:
    """Everything of a write but the last step: returns the temporary file, to be given to `publish` or unlinked."""
    try:
        os.makedirs(os.path.dirname(path), mode=dir_mode, exist_ok=True)
        return _stage(path, text, mode)
    except OSError as exc:
        raise _explained("write", path, exc) from exc


def publish(temporary: str, path: str) -> None:
    """Put a staged file in place."""
    try:
        os.replace(temporary, path)
        _sync_dir(os.path.dirname(path))
    except OSError as exc:
        raise _explained("write", path, exc) from exc


def _replace(path: str, text: str, mode: int) -> None:
    temporary = _stage(path, text, mode)
    try:
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    _sync_dir(os.path.dirname(path))


def _stage(path: str, text: str, mode: int) -> str:
    fd, temporary = tempfile.mkstemp(prefix="." + os.path.basename(path) + ".", dir=os.path.dirname(path))
    try:
        with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape") as target:
            target.write(text)
            target.flush()
            os.fchmod(target.fileno(), mode)
            os.fsync(target.fileno())
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary


def _sync_dir(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _mode(path: str) -> t.Optional[int]:
    try:
        return os.stat(path).st_mode & 0o7777
    except OSError:
        return None


def _diff(path: str, before: t.Optional[str], after: t.Optional[str], old: t.Optional[int], new: t.Optional[int]) -> dict[str, str]:
    diff = {"before_header": path, "after_header": path, "before": before or "", "after": after or ""}
    if old is not None and new is not None and old != new:
        diff["before_header"] += f" (mode {old:04o})"
        diff["after_header"] += f" (mode {new:04o})"
    return diff


def _explained(verb: str, path: str, exc: OSError) -> HostError:
    why = _HINTS.get(exc.errno or 0, exc.strerror or str(exc))
    return HostError(f"cannot {verb} {path}: {why}; the file is as it was")
