# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a TensorRT engine was built with and for: it fits this host only as long as none of it changes. Private to the collection.

stamp.json lies beside the engine: {schema, tensorrt_llm, tensorrt, cuda, driver, gpu, compute_capability, tensor_parallel,
pipeline_parallel, arguments, checkpoint} decide; `files` (name → size and time) and `built_with` (an image) do not.
"""

from __future__ import annotations

import hashlib
import json
import os
import typing as t

from ._state import read_state

KIND = "trtllm_stamp"
FILE = "stamp.json"
NAMES = {
    "tensorrt_llm": "TensorRT-LLM",
    "tensorrt": "TensorRT",
    "cuda": "CUDA",
    "driver": "driver",
    "gpu": "GPU",
    "compute_capability": "compute capability",
    "tensor_parallel": "tensor parallel size",
    "pipeline_parallel": "pipeline parallel size",
    "arguments": "arguments",
    "checkpoint": "checkpoint",
}
"""What decides, and how people call it."""
NOT_IN_ENGINE = ("workers", "log_level", "monitor_memory", "visualize_network", "input_timing_cache", "output_timing_cache")
"""Options of trtllm-build that do not change what it makes."""
Stamp = dict[str, t.Any]


def arguments(words: t.Sequence[t.Sequence[str]]) -> list[str]:
    """The options that make an engine what it is, one text each, sorted: their order does not matter."""
    return sorted(" ".join(option) for option in words if option[0].lstrip("-") not in NOT_IN_ENGINE)


def identity(stamp: t.Mapping[str, t.Any]) -> str:
    """Name of the folder of an engine."""
    text = json.dumps({name: stamp[name] for name in NAMES}, sort_keys=True)
    return f"{stamp['tensorrt_llm']}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def differences(was: t.Optional[t.Mapping[str, t.Any]], now: t.Mapping[str, t.Any]) -> list[str]:
    """Sentences about what no longer fits, empty if all does."""
    if was is None:
        return ["there is no engine yet"]
    out = []
    for name, title in NAMES.items():
        before, after = was.get(name), now[name]
        if before == after:
            continue
        if name == "arguments":
            gone, new = sorted(set(before or ()) - set(after)), sorted(set(after) - set(before or ()))
            out.append("arguments: " + ", ".join([f"without {word}" for word in gone] + [f"with {word}" for word in new]))
        else:
            out.append(f"{title}: {before}, now {after}")
    return out


def read_stamp(folder: str) -> t.Optional[Stamp]:
    """The stamp of an engine's folder; None where there is none."""
    return read_state(os.path.join(folder, FILE), KIND) if folder else None


def listing(folder: str) -> dict[str, dict[str, int]]:
    """The files of a folder as they are, but for the stamp itself."""
    out = {}
    for name in sorted(os.listdir(folder)):
        status = os.stat(os.path.join(folder, name))
        if name != FILE:
            out[name] = {"size": status.st_size, "mtime_ns": status.st_mtime_ns}
    return out


def whole(folder: str, stamp: t.Optional[t.Mapping[str, t.Any]]) -> bool:
    """Whether the files are those that were built, by size and time, so that a look costs no reading."""
    return bool(stamp) and os.path.isdir(folder) and listing(folder) == (stamp or {}).get("files")
