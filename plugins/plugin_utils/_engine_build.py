# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a release builds TensorRT engines at all, and its builder's options. Pure.

Private to the collection. Interface:

    check_build(matrix, version, args, name, unknown) -> findings
    words(matrix, version, args) -> options, each as its words, sorted
    check_gpu(matrix, version, capability, name) -> findings
"""

from __future__ import annotations

import typing as t

from . import _engine_args, _engine_values
from . import _matrix_engines as engines
from ._contracts import Finding
from ._engine_flag_rows import table
from ._engine_flags import BUILD, Policy, check_args
from ._matrix_findings import finding
from ._versions import key

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

ENGINE = "tensorrt_llm"
OWNED = {"checkpoint_dir": "checkpoint", "output_dir": "the store"}
"""Options that the module sets itself."""


def check_build(matrix: Matrix, version: str, args: t.Any, name: str, unknown: Policy) -> list[Finding]:
    """All that is wrong; nothing of args is judged where the release has no builder."""
    release = engines.release(matrix, ENGINE, version)
    newest = engines.newest_for(matrix, ENGINE, lambda row: bool(row.get("engine_build")))
    if release is None:
        return [_no_release(version, name, newest, unknown)]
    if release.row.get("engine_build") is not True:
        gone = release.row.get("engine_build") is False
        removed = matrix.rows["trtllm.boundary.engine_build"]
        if gone:
            message = f"TensorRT-LLM {version} has no trtllm-build: it runs checkpoints as they are, TensorRT engines are gone."
        else:
            message = (
                f"Whether TensorRT-LLM {version} has trtllm-build is not known: {removed['last_in']} has, {removed['removed_in']} has not."
            )
        serve = "serve the Hugging Face checkpoint with trtllm-serve, which needs no engine"
        one = finding(
            "engine.build_gone",
            "block" if gone else unknown,
            row=removed,
            subject=name,
            found=f"TensorRT-LLM {version}",
            needed=f"a release with trtllm-build, up to {removed['last_in']}",
            nearest=newest,
            message=message,
            fix=f"Remove {name} and {serve}; or set version to {newest}.",
        )
        return [one]
    owned = {option: f"by the module ({setter})" for option, setter in OWNED.items()}
    return check_args(BUILD, version, _read(matrix, version, args), None, matrix, name=name, owned=owned, unknown=unknown)


def check_gpu(matrix: Matrix, version: str, capability: str, name: str) -> list[Finding]:
    """Said before an hour's build, not after."""
    release = engines.release(matrix, ENGINE, version)
    least = release.row.get("compute_capability_min") if release else None
    if release is None or not least or key(capability) >= key(least):
        return []
    message = f"TensorRT-LLM {version} does not support GPUs of compute capability {capability}; it begins with {least}."
    one = finding(
        "engine.compute_capability",
        "block",
        row=release.row,
        subject=name,
        found=capability,
        needed=f"{least} or newer",
        message=message,
        fix="Name other GPUs in gpus, or another version.",
    )
    return [one]


def words(matrix: Matrix, version: str, args: t.Any) -> list[list[str]]:
    """As trtllm-build is given them, the module's own options left to it."""
    known = table(matrix, BUILD)
    out = []
    for name, value in _read(matrix, version, args).items():
        flag = known.find(name) if known else None
        own = flag is not None and flag.name == name
        option = _engine_values.words(flag, version, value) if flag and own else [f"--{name}", *([] if value is True else [str(value)])]
        if option:
            out.append(option)
    return sorted(out)


def _read(matrix: Matrix, version: str, args: t.Any) -> dict[str, t.Any]:
    """Options by name. true and false become enable and disable where trtllm-build wants these words."""
    out: dict[str, t.Any] = {}
    for one in _engine_args.read(args, table(matrix, BUILD), version):
        truth = _engine_values.truth(one.value) if one.flag and "enable" in one.flag.values(version) else None
        out[one.name] = one.value if truth is None else "enable" if truth else "disable"
    return out


def _no_release(version: str, name: str, newest: str | None, unknown: Policy) -> Finding:
    return finding(
        "engine.version_unknown",
        unknown,
        subject=name,
        found=f"TensorRT-LLM {version}",
        needed="a release that the matrix knows",
        nearest=newest,
        message=f"The matrix has no row for TensorRT-LLM {version}.",
        fix=f"Set version to {newest}, or add a row by matrix_overlay.",
        source="matrix/engines/tensorrt_llm.yml",
    )
