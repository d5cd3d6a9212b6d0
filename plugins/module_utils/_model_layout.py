# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a model lies in the store, what is recorded of it, and the switch to another snapshot. Private to the collection.

STORE/NAME/current            symbolic link to the snapshot in use; engines are given the folder that it leads to
STORE/NAME/snapshots/ID/      files of one revision, never changed once they are there
STORE/NAME/snapshots/ID+D/    the same files (hard links) with patches of digest D
STORE/NAME/partial/ID/        what has been fetched so far
STORE/NAME/model.json         what is there, of which size and digest
"""

from __future__ import annotations

import contextlib
import os
import shutil
import typing as t

from ._model_hub import ModelError
from ._state import read_state, write_state

KIND = "model_record"


class Layout:
    """Paths of one model."""

    def __init__(self, store: str, name: str) -> None:
        self.root = os.path.join(store, name)
        self.current = os.path.join(self.root, "current")
        self.record = os.path.join(self.root, "model.json")
        self.snapshots = os.path.join(self.root, "snapshots")

    def snapshot(self, identity: str) -> str:
        return os.path.join(self.snapshots, identity)

    def partial(self, identity: str) -> str:
        return os.path.join(self.root, "partial", identity)

    def in_use(self) -> str:
        """Folder that `current` leads to; empty where there is none."""
        try:
            return os.path.normpath(os.path.join(self.root, os.readlink(self.current)))
        except OSError:
            return ""

    def switch(self, folder: str) -> bool:
        """Let `current` lead to `folder`, at once or not at all."""
        if self.in_use() == folder and os.path.isdir(self.current):
            return False
        if os.path.exists(self.current) and not os.path.islink(self.current):
            raise ModelError("taken", f"{self.current} is there and is no symbolic link; move it away")
        target = os.path.relpath(folder, self.root) if folder.startswith(self.root + "/") else folder
        temporary = self.current + ".new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        os.symlink(target, temporary)
        os.replace(temporary, self.current)
        return True


def read_record(layout: Layout) -> dict[str, t.Any]:
    return read_state(layout.record, KIND) or {"snapshots": {}}


def write_record(layout: Layout, record: t.Mapping[str, t.Any]) -> None:
    write_state(layout.record, KIND, {key: value for key, value in record.items() if key != "schema"})


def whole(layout: Layout, record: t.Mapping[str, t.Any], identity: str) -> bool:
    """Whether a snapshot is there with the sizes and times that were recorded: cheap, so that a re-run costs no reading."""
    entry = record["snapshots"].get(identity)
    if not entry:
        return False
    folder = layout.snapshot(identity)
    for path, known in entry["files"].items():
        try:
            status = os.stat(os.path.join(folder, path))
        except OSError:
            return False
        if status.st_size != known["size"] or status.st_mtime_ns != known["mtime_ns"]:
            return False
    return True


def prune(layout: Layout, record: dict[str, t.Any], keep: int) -> list[str]:
    """Remove all but the revision in use and the `keep` that came last, each with its patched folders.

    `snapshots` of the record is in order of arrival. Of the revision in use only what is in use stays.
    """
    used = os.path.basename(layout.in_use())
    base = used.partition("+")[0]
    others = list(dict.fromkeys(name.partition("+")[0] for name in reversed(record["snapshots"])))
    stays = {base, *[name for name in others if name != base][:keep]}
    gone = [name for name in record["snapshots"] if name.partition("+")[0] not in stays or (name.startswith(base + "+") and name != used)]
    for name in gone:
        shutil.rmtree(layout.snapshot(name), ignore_errors=True)
        del record["snapshots"][name]
    return gone
