# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patches of a model as data: a second folder beside the pristine one. Private to the collection.

Weights are hard links, patched files are new ones: what was fetched is never edited, and another patch is another folder.
JSON files are patched by JSON Merge Patch (RFC 7396); others are replaced as a whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import typing as t

from ._model_hub import ModelError
from ._model_verify import read_json


def merge_patch(target: t.Any, patch: t.Any) -> t.Any:
    """RFC 7396: objects are merged key by key, null removes a key, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def digest(patches: t.Mapping[str, t.Any]) -> str:
    """Short name of these patches."""
    return hashlib.sha256(json.dumps(patches, sort_keys=True).encode()).hexdigest()[:12]


def build(source: str, target: str, patches: t.Mapping[str, t.Any]) -> None:
    """`target` becomes `source` with `patches`, or is not there at all."""
    partial = target + ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        for folder, _names, files in os.walk(source):
            relative = os.path.relpath(folder, source)
            os.makedirs(os.path.join(partial, relative), mode=0o755, exist_ok=True)
            for name in files:
                path = os.path.normpath(os.path.join(relative, name))
                if path not in patches:
                    os.link(os.path.join(source, path), os.path.join(partial, path))
        for path, patch in patches.items():
            _write(partial, path, patched(source, path, patch))
        os.rename(partial, target)
    except OSError as exc:
        raise ModelError("disk_full" if exc.errno == 28 else "failed", f"{target} cannot be made: {exc.strerror}") from exc
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def patched(source: str, path: str, patch: t.Any) -> str:
    """Text of `path` with its patch."""
    if isinstance(patch, str):
        return patch
    if not path.endswith(".json"):
        raise ModelError("bad_patch", f"the patch of {path} is a dictionary; that works for .json files, give the whole text for others")
    here = os.path.join(source, path)
    before = read_json(here) if os.path.exists(here) else {}
    return json.dumps(merge_patch(before, patch), indent=2, ensure_ascii=False) + "\n"


def _write(folder: str, path: str, text: str) -> None:
    full = os.path.join(folder, path)
    os.makedirs(os.path.dirname(full), mode=0o755, exist_ok=True)
    with open(full, "w", encoding="utf-8") as target:
        target.write(text)
        target.flush()
        os.fsync(target.fileno())
