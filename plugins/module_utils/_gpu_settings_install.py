# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of device settings on a host, all or none: staged first, put in place later. Private to the collection.

Staging writes everything to temporary files beside their targets. A full or read-only file system shows there,
before any GPU was touched and with every old file intact; putting in place is a rename each.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import typing as t

from ._carried import source_of
from ._errors import HostError
from ._files import publish, stage, write_text
from ._gpu_settings_core import core_files, digest, installed_sha256


class Staged:
    """Pending files; use as `with Staged() as staged`, which discards what was not committed."""

    def __init__(self, check: bool = False) -> None:
        self.changed: list[str] = []
        self.diffs: list[dict[str, str]] = []
        self._check = check
        self._files: list[tuple[str, str]] = []
        self._runtime: t.Optional[tuple[str, str]] = None

    def __enter__(self) -> Staged:
        return self

    def __exit__(self, *_exc: object) -> None:
        for temporary, _path in self._files:
            if os.path.exists(temporary):
                os.unlink(temporary)
        if self._runtime:
            shutil.rmtree(self._runtime[0], ignore_errors=True)

    def text(self, path: str, text: str) -> None:
        """`path` shall hold `text` (mode 0644)."""
        written = write_text(path, text, check=True)
        if not written.changed:
            return
        self.changed.append(path)
        self.diffs.append(written.diff)
        if not self._check:
            self._files.append((stage(path, text), path))

    def runtime(self, folder: str, files: t.Mapping[str, bytes]) -> None:
        """`folder` shall hold exactly `files`; compared by hash, replaced as a whole."""
        before, after = installed_sha256(folder), digest(files)
        if before == after:
            return
        self.changed.append(folder)
        self.diffs.append({"before_header": folder, "after_header": folder, "before": f"{before or 'absent'}\n", "after": f"{after}\n"})
        if self._check:
            return
        try:
            os.makedirs(os.path.dirname(folder), mode=0o755, exist_ok=True)
            temporary = tempfile.mkdtemp(prefix=".gpufleet_host.", dir=os.path.dirname(folder))
            self._runtime = (temporary, folder)
            os.chmod(temporary, 0o755)  # noqa: S103 - code that anyone may read
            for name, content in files.items():
                _write(os.path.join(temporary, name), content)
        except OSError as exc:
            raise HostError(f"cannot write {folder}: {exc.strerror}; what was there is as it was") from exc

    def commit(self) -> None:
        """Put everything in place: the code first, then units, the configuration as it was staged last."""
        if self._runtime:
            temporary, folder = self._runtime
            _swap(temporary, folder)
            self._runtime = None
        for temporary, path in self._files:
            publish(temporary, path)


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as target:
        target.write(content)
        target.flush()
        os.fchmod(target.fileno(), 0o644)
        os.fsync(target.fileno())


def _swap(temporary: str, folder: str) -> None:
    old = temporary + ".old"
    try:
        if os.path.isdir(folder):
            os.rename(folder, old)
        os.rename(temporary, folder)
    except OSError as exc:
        if os.path.isdir(old) and not os.path.isdir(folder):
            os.rename(old, folder)
        raise HostError(f"cannot write {folder}: {exc.strerror}; what was there is as it was") from exc
    shutil.rmtree(old, ignore_errors=True)


def carried_sources() -> dict[str, bytes]:
    """The host core as files."""
    return core_files(source_of)
