# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A TensorRT-LLM checkpoint: whether it can be built, for how many GPUs, and which one it is. Private to the collection.

It is what convert_checkpoint.py of a release (or ModelOpt) wrote: config.json with `mapping`, and rank0.safetensors, rank1.safetensors …
"""

from __future__ import annotations

import hashlib
import os
import typing as t

from ._errors import WorkError
from ._model_verify import check_safetensors, read_json

_PIECES, _PIECE = 16, 64 << 10
"""Of each weights file so many pieces of so many bytes are read: retrained weights have the same sizes and another content."""


class Checkpoint(t.NamedTuple):
    """What a build needs to know; `identity` is a digest of configuration, sizes and samples of the weights."""

    architecture: str
    dtype: str
    tensor_parallel: int
    pipeline_parallel: int
    weights_bytes: int
    identity: str

    @property
    def ranks(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel


def read_checkpoint(path: str) -> Checkpoint:
    """WorkError: reason not_found | wrong_checkpoint | incomplete | truncated | damaged."""
    config_path = os.path.join(path, "config.json")
    if not os.path.isfile(config_path):
        raise WorkError("not_found", f"checkpoint is {path}, which has no config.json on this host; expected a TensorRT-LLM checkpoint")
    config = read_json(config_path)
    mapping = config.get("mapping")
    if not isinstance(mapping, dict) and ("architectures" in config or "model_type" in config):
        raise WorkError(
            "wrong_checkpoint",
            f"checkpoint is {path}, a Hugging Face model; trtllm-build takes what convert_checkpoint.py makes of it. Nearest that works: "
            "serve this folder as it is (trtllm-serve with its PyTorch backend, which needs no engine)",
        )
    if not isinstance(mapping, dict) or not config.get("architecture"):
        raise WorkError("wrong_checkpoint", f"{config_path} has no architecture and mapping; expected a TensorRT-LLM checkpoint")
    tensor, pipeline = _size(mapping, "tp_size", config_path), _size(mapping, "pp_size", config_path)
    world = mapping.get("world_size", tensor * pipeline)
    if world != tensor * pipeline:
        text = f"{config_path} is for {world} GPUs with tp_size {tensor} and pp_size {pipeline}"
        raise WorkError("wrong_checkpoint", f"{text}; expected one that was converted with tp_size and pp_size alone")
    files = [os.path.join(path, f"rank{rank}.safetensors") for rank in range(tensor * pipeline)]
    missing = [os.path.basename(name) for name in files if not os.path.isfile(name)]
    if missing:
        raise WorkError("incomplete", f"{path} is for {len(files)} GPUs and lacks {', '.join(missing[:3])}; copy or convert it again")
    for name in files:
        check_safetensors(name)
    size = sum(os.path.getsize(name) for name in files)
    dtype = str(config.get("dtype") or "")
    return Checkpoint(str(config["architecture"]), dtype, tensor, pipeline, size, _identity(config_path, files))


def _size(mapping: t.Mapping[str, t.Any], name: str, path: str) -> int:
    value = mapping.get(name, 1)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1024:
        raise WorkError("wrong_checkpoint", f"mapping.{name} of {path} is {value!r}; expected a number of GPUs")
    return value


def _identity(config_path: str, files: t.Sequence[str]) -> str:
    digest = hashlib.sha256()
    with open(config_path, "rb") as source:
        digest.update(source.read())
    for name in files:
        size = os.path.getsize(name)
        digest.update(f"\n{os.path.basename(name)} {size}\n".encode())
        with open(name, "rb") as source:
            for piece in range(_PIECES):
                source.seek(max(0, size - _PIECE) * piece // (_PIECES - 1))
                digest.update(source.read(_PIECE))
    return digest.hexdigest()[:24]
