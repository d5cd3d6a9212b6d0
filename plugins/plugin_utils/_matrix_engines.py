# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rows say of engines: releases, images, advisories. Pure.

Private to the collection.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ._matrix_types import Row
from ._versions import is_version, key

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

RULE = {"vllm": "rule.vllm.image_tags", "sglang": "rule.sglang.image_tags", "tensorrt_llm": "rule.trtllm.images"}
TITLE = {"vllm": "vLLM", "sglang": "SGLang", "tensorrt_llm": "TensorRT-LLM"}
# What must agree between the two neighbours of a release that has no row of its own, so that it can be judged by them.
_DECIDING = ("image_cuda", "wheel_cuda", "compute_capability_min", "python", "driver_min")


@dataclass(frozen=True)
class Release:
    """The row that judges a version, and how well it does."""

    row: Row
    exact: bool
    certain: bool
    """True for a row of its own, or one between two rows that agree."""


def release(matrix: Matrix, engine: str, version: str) -> Release | None:
    """The release row of a version, or the newest older one."""
    question = ("release", engine, version)
    if question not in matrix.memo:
        matrix.memo[question] = _release(matrix.engines.get(engine, []), version)
    return t.cast("Release | None", matrix.memo[question])


def _release(rows: list[Row], version: str) -> Release | None:
    wanted = key(version)
    older = [row for row in rows if key(row["version"]) <= wanted]
    if not older or not is_version(version):
        return None
    row = older[-1]
    if key(row["version"]) == wanted:
        return Release(row, exact=True, certain=True)
    newer = rows[len(older)] if len(older) < len(rows) else None
    agree = newer is not None and all(row.get(name) == newer.get(name) for name in _DECIDING)
    return Release(row, exact=False, certain=agree)


@dataclass(frozen=True)
class Image:
    """What an image reference says."""

    engine: str | None
    version: str | None
    cuda: str | None
    """CUDA minor that a tag suffix such as -cu129 names."""
    moving: bool


def image(matrix: Matrix, reference: str) -> Image:
    """Engine and version of an image reference by the publishers' naming; registries in front (mirrors) do not count."""
    question = ("image", reference)
    if question not in matrix.memo:
        matrix.memo[question] = _image(matrix, reference)
    return t.cast("Image", matrix.memo[question])


def _image(matrix: Matrix, reference: str) -> Image:
    name, _at, digest = reference.partition("@")
    path, _colon, tag = name.rpartition(":") if ":" in name.rsplit("/", 1)[-1] else (name, "", "")
    for engine, rule in RULE.items():
        for repository in matrix.value(rule, "repositories", []):
            host, _slash, rest = repository.partition("/")
            bare = rest if "." in host else repository
            if path == bare or path.endswith("/" + bare):
                suffix = re.search(matrix.value(rule, "cuda_suffix", r"(?!)"), tag)
                cuda = f"{suffix['digits'][:2]}.{suffix['digits'][2:]}" if suffix else None
                version = re.match(r"v?(\d+(?:\.\d+)+(?:(?:\.post|rc|a|b)\d+)?)", tag)
                return Image(engine, version[1] if version else None, cuda, moving=not digest and version is None)
    return Image(None, None, None, moving=not digest and tag in ("", "latest"))


def advisories(matrix: Matrix, engine: str, version: str) -> list[Row]:
    """Advisories that apply to a version."""
    question = ("engine_advisories", engine, version)
    if question not in matrix.memo:
        rows = [row for row in matrix.section("engine_advisories") if row["engine"] == engine]
        matrix.memo[question] = [row for row in rows if _affected(row, version)]
    return t.cast("list[Row]", matrix.memo[question])


def _affected(row: Row, version: str) -> bool:
    have = key(version)
    if row.get("introduced") and have < key(row["introduced"]):
        return False
    if row.get("fixed"):
        return have < key(row["fixed"])
    if row.get("affected_through"):
        return have <= key(row["affected_through"])
    return True


def newest_for(matrix: Matrix, engine: str, fits: t.Callable[[Row], bool]) -> str | None:
    """Newest release of an engine that meets a condition; final releases before candidates."""
    rows = [row for row in matrix.engines.get(engine, []) if fits(row)]
    return max(rows, key=lambda row: (key(row["version"])[1] >= 0, key(row["version"])), default={"version": None})["version"]
