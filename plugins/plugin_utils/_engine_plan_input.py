# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From facts and files to the planner's input; what is wrong with them as findings. Pure. Private to the collection."""

from __future__ import annotations

import typing as t

from ._contracts import Finding, bad_variable, named_finding
from ._engine_plan_types import GIB, Gpu
from ._memory_config import shape_of
from ._memory_model import ModelShape, ShapeError
from ._memory_weights import checkpoint_bytes

_FILES_APART = 0.1
"""Share by which files and config may differ before one of them is taken for wrong."""


def model_of(info: t.Mapping[str, t.Any], unknown: str) -> tuple[ModelShape | None, list[Finding]]:
    """info: answer of model_info. unknown: warn reads an unknown architecture as a plain dense one."""
    size = (info.get("weights") or {}).get("loaded_bytes")
    where = f"{info['path']}/config.json" if info.get("path") else "config"
    findings = []
    try:
        shape = shape_of(info["config"], weights_bytes=size)
    except ShapeError as error:
        if not error.unknown or unknown == "block":
            return None, [_config_finding("plan_model_unknown" if error.unknown else "plan_model", "block", error, where)]
        try:
            shape = shape_of(info["config"], weights_bytes=size, guess=True)
        except ShapeError as second:
            return None, [_config_finding("plan_model", "block", second, where)]
        findings.append(_config_finding("plan_model_unknown", "warn", error, where))
    if size:
        expected = checkpoint_bytes(shape)
        if abs(size / expected - 1) > _FILES_APART:
            findings.append(
                named_finding(
                    "engine",
                    "plan_files",
                    "warn",
                    f"The weight files hold {size / GIB:.2f} GiB, {where} describes {expected / GIB:.2f}; the plan follows the files.",
                    where,
                    found=f"{size} bytes",
                    needed=f"about {expected} bytes",
                    fix="Check that config.json and weights are of the same model and revision.",
                )
            )
    return shape, findings


def _config_finding(name: str, severity: t.Any, error: ShapeError, where: str) -> Finding:
    fix = (
        "Use a model of a known architecture, or set unknown: warn to plan it as a plain dense model."
        if error.unknown
        else f"Correct {where}."
    )
    return named_finding(
        "engine",
        name,
        severity,
        f"{error}.",
        where,
        found=error.key or "config.json",
        needed="a configuration that the planner can read",
        fix=fix,
        subject=error.key or None,
    )


def choose_gpus(facts: t.Mapping[str, t.Any], wanted: t.Sequence[str], count_used: bool) -> tuple[list[Gpu], list[Finding]]:
    """GPUs by index or UUID; all of the host where none is named. A GPU without memory figures cannot be planned for."""
    there = {str(gpu["index"]): gpu for gpu in facts.get("gpus") or ()}
    by_uuid = {gpu["uuid"]: gpu for gpu in there.values() if gpu.get("uuid")}
    names = list(dict.fromkeys(map(str, wanted))) or list(there)
    shown = ", ".join(f"{index} ({gpu.get('uuid')})" for index, gpu in there.items()) or "none"
    out, wrong = [], []
    for name in names:
        gpu = there.get(name) or by_uuid.get(name)
        if gpu is None:
            wrong.append(
                bad_variable(
                    "engine", "gpus", repr(name), f"an index or UUID of this host's GPUs: {shown}", next(iter(there), None), "gpu_info"
                )
            )
        elif not (gpu.get("memory_bytes") or {}).get("total"):
            state = facts.get("reason") or gpu.get("state")
            wrong.append(bad_variable("engine", "gpus", repr(name), f"a GPU whose memory NVML tells ({state})", None, "gpu_info"))
        else:
            out.append(_gpu(gpu, count_used))
    if not names:
        reason = facts.get("reason") or "the host has no GPU"
        wrong.append(bad_variable("engine", "gpus", "empty", f"one GPU or more; {reason}", None, "gpu_info"))
    return out, wrong


def _gpu(gpu: t.Mapping[str, t.Any], count_used: bool) -> Gpu:
    memory, links = gpu["memory_bytes"], gpu.get("nvlink") or {}
    return Gpu(
        uuid=str(gpu.get("uuid") or gpu["index"]),
        name=str(gpu.get("product") or "GPU"),
        total=int(memory["total"]),
        reserved=memory.get("reserved"),
        used=int(memory.get("used") or 0) if count_used else 0,
        compute_capability=gpu.get("compute_capability"),
        nvlink=bool(links.get("active")),
    )
