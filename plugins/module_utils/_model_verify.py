# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the files of a model are whole, without loading it. Private to the collection.

A safetensors file says in its header how long it must be, an index which files belong together: a download that was cut off, or a
copy from a full disk, shows there and not in the engine after ten minutes of loading.
"""

from __future__ import annotations

import hashlib
import json
import os
import typing as t

from ._model_hub import ModelError

_CHUNK = 4 << 20
_HEADER_MAX = 100_000_000
"""Bytes; the limit of the safetensors format itself."""
INDEX_SUFFIX = ".safetensors.index.json"


def check_folder(folder: str) -> None:
    """Every safetensors file whole, every file that an index names there, config.json readable."""
    names = sorted(os.listdir(folder))
    for name in names:
        if name.endswith(".safetensors"):
            check_safetensors(os.path.join(folder, name))
        elif name.endswith(INDEX_SUFFIX):
            _check_index(folder, name)
    if "config.json" in names:
        read_json(os.path.join(folder, "config.json"))


def check_safetensors(path: str) -> None:
    """The header's own arithmetic against the file's size."""
    size = os.path.getsize(path)
    with open(path, "rb") as source:
        length = int.from_bytes(source.read(8), "little")
        if size < 8 or length > min(_HEADER_MAX, size - 8):
            raise ModelError(
                "truncated", f"{path} has {size} bytes, its header alone claims {length}: it is cut off, or no safetensors file"
            )
        try:
            header = json.loads(source.read(length))
            end = max((entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as exc:
            raise ModelError("damaged", f"{path} has an unreadable safetensors header: {exc}") from exc
    wanted = 8 + length + end
    if size != wanted:
        word = "truncated" if size < wanted else "damaged"
        raise ModelError(word, f"{path} has {size} bytes, its header says {wanted}")


def _check_index(folder: str, name: str) -> None:
    index = read_json(os.path.join(folder, name))
    shards = index.get("weight_map")
    if not isinstance(shards, dict):
        raise ModelError("damaged", f"{folder}/{name} has no weight_map")
    missing = sorted({str(shard) for shard in shards.values() if not os.path.exists(os.path.join(folder, str(shard)))})
    if missing:
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise ModelError("incomplete", f"{folder}/{name} names files that are not there: {shown}")


def read_json(path: str) -> dict[str, t.Any]:
    try:
        with open(path, encoding="utf-8") as source:
            data = json.load(source)
    except ValueError as exc:
        raise ModelError("damaged", f"{path} is not valid JSON: {exc}") from exc
    if not isinstance(data, dict):
        raise ModelError("damaged", f"{path} holds {type(data).__name__}, expected a JSON object")
    return data


class Digests:
    """SHA-256 and git's blob id of one file, fed piece by piece."""

    def __init__(self, size: int) -> None:
        self._sha256 = hashlib.sha256()
        self._blob = hashlib.sha1(b"blob %d\0" % size)  # noqa: S324 - git's name for a file, not a defence

    def update(self, chunk: bytes) -> None:
        self._sha256.update(chunk)
        self._blob.update(chunk)

    def feed(self, path: str) -> None:
        with open(path, "rb") as source:
            for chunk in iter(lambda: source.read(_CHUNK), b""):
                self.update(chunk)

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    @property
    def blob(self) -> str:
        return self._blob.hexdigest()
