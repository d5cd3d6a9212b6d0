# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a model's folder says: config.json, and the headers of its safetensors files. Private to the collection.

A header is a length (8 bytes, little-endian) and that much JSON; its spans must fill the file, so that a truncated download is seen
without reading a weight.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
import typing as t

from ._errors import HostError

INDEX = "model.safetensors.index.json"
_JSON_MOST = 64 << 20
_HEADER_MOST = 100 << 20
_SPECULATIVE = re.compile(r"(^|\.)(mtp|nextn)\.")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


def read_model(path: str) -> dict[str, t.Any]:
    """Keys: path, config, weights (None where the folder has no safetensors). Raises HostError."""
    if not os.path.isdir(path):
        what = "is no folder" if os.path.exists(path) else "does not exist"
        raise HostError(f"model folder {path} {what}; expected the folder of a snapshot with config.json")
    config = _json(os.path.join(path, "config.json"), needed=True)
    if not isinstance(config, dict):
        raise HostError(f"{path}/config.json holds {type(config).__name__}, expected a mapping")
    quantization = _json(os.path.join(path, "hf_quant_config.json"))  # ModelOpt's older place
    if isinstance(quantization, dict) and "quantization_config" not in config:
        config["quantization_config"] = {"quant_method": "modelopt", **(quantization.get("quantization") or {})}
    return {"path": path, "config": config, "weights": _weights(path, config)}


def _json(path: str, needed: bool = False) -> t.Any:
    try:
        if os.path.getsize(path) > _JSON_MOST:
            raise HostError(f"{path} is larger than {_JSON_MOST >> 20} MiB, which no such file is")
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        if needed:
            raise HostError(f"{path} does not exist; expected the model's configuration there") from None
        return None
    except OSError as error:
        raise HostError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise HostError(f"{path} is not valid JSON: {error}") from None


def _weights(path: str, config: dict[str, t.Any]) -> t.Optional[dict[str, t.Any]]:
    index = _json(os.path.join(path, INDEX))
    if index is not None:
        names = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(names, dict) or not names or not all(isinstance(name, str) for name in names.values()):
            raise HostError(f"{path}/{INDEX} has no weight_map from tensors to files")
        files = sorted(set(names.values()))
        missing = [name for name in files if not os.path.isfile(os.path.join(path, name))]
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise HostError(f"{path} lacks {len(missing)} of {len(files)} files of its index: {', '.join(missing[:3])}{more}")
    else:
        files = sorted(name for name in _listed(path) if name.endswith(".safetensors") and not name.startswith("adapter_"))
        if not files:
            return None
    inner = config.get("text_config")
    text: dict[str, t.Any] = inner if isinstance(inner, dict) else config
    return _sums([os.path.join(path, name) for name in files], text)


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError as error:
        raise HostError(f"{path} cannot be read: {error.strerror}") from None


def _sums(files: list[str], text: dict[str, t.Any]) -> dict[str, t.Any]:
    layers, tied = text.get("num_hidden_layers"), bool(text.get("tie_word_embeddings"))
    out: dict[str, t.Any] = {"files": len(files), "bytes": 0, "loaded_bytes": 0, "tensors": 0, "elements": 0, "by_dtype": {}}
    for file in files:
        for name, tensor in _header(file).items():
            size = tensor["data_offsets"][1] - tensor["data_offsets"][0]
            out["bytes"] += size
            out["tensors"] += 1
            out["elements"] += math.prod(tensor["shape"])
            out["by_dtype"][tensor["dtype"]] = out["by_dtype"].get(tensor["dtype"], 0) + size
            if _loaded(name, layers, tied):
                out["loaded_bytes"] += size
    return out


def _loaded(name: str, layers: t.Any, tied: bool) -> bool:
    """Whether engines load the tensor: not a head for speculation, nor a second copy of a shared table."""
    if _SPECULATIVE.search(name) or (tied and name.endswith("lm_head.weight")):
        return False
    layer = _LAYER.search(name)
    return not (layer and isinstance(layers, int) and int(layer[1]) >= layers and "vision" not in name and "visual" not in name)


def _header(file: str) -> dict[str, t.Any]:
    try:
        size = os.path.getsize(file)
        with open(file, "rb") as source:
            length = struct.unpack("<Q", source.read(8).ljust(8, b"\0"))[0]
            if size < 8 or length > min(_HEADER_MOST, size - 8):
                raise HostError(f"{file} is truncated or no safetensors file: {size} bytes, its header alone should have {length}")
            header = json.loads(source.read(length))
    except OSError as error:
        raise HostError(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise HostError(f"{file} has a header that is not valid JSON: {error}") from None
    if not isinstance(header, dict):
        raise HostError(f"{file} has a header that is no mapping")
    header.pop("__metadata__", None)
    wrong = next((name for name, tensor in header.items() if not _described(tensor)), None)
    if wrong is not None:
        raise HostError(f"{file} does not describe tensor {wrong} as safetensors does (dtype, shape, data_offsets)")
    end = max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
    if 8 + length + end != size:
        state = "truncated" if 8 + length + end > size else "longer than its header says"
        raise HostError(f"{file} is {state}: {size} bytes, {8 + length + end} by its header. Fetch it again.")
    return header


def _described(tensor: t.Any) -> bool:
    if not isinstance(tensor, dict):
        return False
    shape, offsets = tensor.get("shape"), tensor.get("data_offsets")
    if not isinstance(shape, list) or not isinstance(offsets, list):
        return False
    numbers = all(isinstance(one, int) and one >= 0 for one in [*shape, *offsets])
    return bool(numbers and len(offsets) == 2 and offsets[0] <= offsets[1] and isinstance(tensor.get("dtype"), str))
