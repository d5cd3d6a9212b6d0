# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading the matrix: files, overlays, schema check, cache. The only part of the gate with I/O.

Private to the collection. The collection's own rows are checked by its tests, an overlay's rows at each load. An action plugin that
calls warm() when it is imported makes ansible-playbook parse the rows once: its forked workers inherit them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import typing as t
from pathlib import Path

import yaml

from ._matrix_model import Matrix
from ._matrix_schema import near, problems
from ._matrix_types import Row
from ._policy import MissingLibrary, Policy

ROOT = Path(__file__).resolve().parents[2]
MATRIX_VERSION = "2026.11.30"
_LOADER: t.Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_cache: dict[t.Any, t.Any] = {}


class MatrixError(ValueError):
    """A matrix or overlay file that cannot be used; the text names file, row and key."""


def load_matrix(overlays: t.Sequence[str] = ()) -> Matrix:
    """The collection's rows with the site's overlay files applied in order; cached per process. Raises MatrixError."""
    if isinstance(overlays, (str, bytes)) or not all(isinstance(path, (str, os.PathLike)) for path in overlays):
        raise MatrixError(f"gpu_stack_matrix_overlay must be a list of file paths, not {overlays!r}")
    stamps = tuple((str(path), _stamp(path)) for path in overlays)
    if stamps not in _cache:
        _cache[stamps] = _build(overlays)
    return t.cast("Matrix", _cache[stamps])


def warm() -> None:
    """Parse the collection's rows now. What is wrong with them is told by the load that needs them."""
    with contextlib.suppress(MatrixError, OSError):
        load_matrix()


def _stamp(path: str) -> tuple[int, int]:
    try:
        stat = os.stat(path)
    except OSError as error:
        raise MatrixError(f"{path}: the matrix overlay cannot be read: {error.strerror}") from None
    return stat.st_mtime_ns, stat.st_size


def _build(overlays: t.Sequence[str]) -> Matrix:
    sections, digest = _own()
    sections = {name: dict(rows) for name, rows in sections.items()}
    digest = digest.copy()
    for path in overlays:
        text = _read(path)
        digest.update(text)
        _apply(sections, _parse(path, text), path)
    plain = {name: list(rows.values()) for name, rows in sections.items() if name != "policies"}
    try:
        policies = [Policy(row) for row in sections.get("policies", {}).values()]
    except MissingLibrary as error:
        raise MatrixError(str(error)) from None
    return Matrix(plain, policies, version=MATRIX_VERSION, sha256=digest.hexdigest(), overlays=[str(path) for path in overlays])


def _own() -> tuple[dict[str, dict[str, Row]], t.Any]:
    """Rows of the collection by section and id, with a hash of their files."""
    if "own" not in _cache:
        sections: dict[str, dict[str, Row]] = {}
        digest = hashlib.sha256()
        for path in sorted((ROOT / "matrix").rglob("*.yml")):
            text = path.read_bytes()
            digest.update(text)
            for name, rows in _parse(path, text).items():
                sections.setdefault(name, {}).update({row["id"]: row for row in rows})
        _cache["own"] = sections, digest
    return t.cast("tuple[dict[str, dict[str, Row]], t.Any]", _cache["own"])


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise MatrixError(f"{path}: the matrix overlay cannot be read: {error.strerror}") from None


def _parse(path: str | Path, text: bytes) -> dict[str, t.Any]:
    try:
        document = yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader, in C where libyaml is there
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise MatrixError(f"{path}: not valid YAML{where}: {getattr(error, 'problem', None) or error}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise MatrixError(f"{path}: expected lists of rows under section names (gpus:, deny:, …), found {type(document).__name__}")
    return document


def _apply(sections: dict[str, dict[str, Row]], document: dict[str, t.Any], path: str) -> None:
    """One overlay over the rows; all its problems in one error."""
    wrong = list(_check(document, path))
    home = {row_id: name for name, rows in sections.items() for row_id in rows}
    for name, rows in document.items():
        for row in rows if name != "remove" and isinstance(rows, list) else ():
            row_id = row.get("id") if isinstance(row, dict) else None
            if isinstance(row_id, str) and home.get(row_id, name) != name:
                wrong.append(f"{path}: {name}, row {row_id}: id is already a row of {home[row_id]}")
    removed = document.get("remove") or []
    for row_id in removed if isinstance(removed, list) else ():
        if row_id not in home:
            wrong.append(f"{path}: remove: no row has the id {row_id!r}{near(row_id, home)}")
    if wrong:
        raise MatrixError("\n".join(wrong))
    for row_id in removed:
        del sections[home[row_id]][row_id]
    for name, rows in document.items():
        if name != "remove":
            sections.setdefault(name, {}).update({row["id"]: row for row in rows or ()})


def _check(document: dict[str, t.Any], path: str) -> t.Iterator[str]:
    schema = _schema()
    known = schema["properties"]
    for name, rows in document.items():
        if name not in known:
            yield f"{path}: {name} is no section of the matrix{near(name, known)} Sections: {', '.join(sorted(known))}."
        elif not isinstance(rows, list):
            yield f"{path}: {name}: expected a list of rows, found {type(rows).__name__}"
        else:
            for index, row in enumerate(rows):
                title = row.get("id") if isinstance(row, dict) else None
                label = f"{name}, row {title or f'number {index + 1} (no id)'}"
                for where, what in problems(row, known[name]["items"], schema):
                    yield f"{path}: {label}: {where + ' ' if where else ''}{what}"
                if name == "policies" and isinstance(row, dict):
                    for where, what in Policy.problems(row):
                        yield f"{path}: {label}: {where} {what}"


def _schema() -> dict[str, t.Any]:
    if "schema" not in _cache:
        _cache["schema"] = json.loads((ROOT / "schemas" / "matrix.schema.json").read_text(encoding="utf-8"))
    return t.cast("dict[str, t.Any]", _cache["schema"])
