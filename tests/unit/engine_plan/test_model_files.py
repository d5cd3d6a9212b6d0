# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders of models: complete ones are summed up, broken ones are named."""

from __future__ import annotations

import json
import struct
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError
from ansible_collections.gpufleet.inference.plugins.module_utils._model_files import read_model

CONFIG = {"model_type": "llama", "num_hidden_layers": 2, "tie_word_embeddings": True}


def safetensors(path: Path, tensors: dict[str, int], cut: int = 0) -> None:
    """A file of bf16 tensors with this many elements each; `cut` bytes are missing at its end."""
    header: dict[str, t.Any] = {"__metadata__": {"format": "pt"}}
    place = 0
    for name, count in tensors.items():
        header[name] = {"dtype": "BF16", "shape": [count], "data_offsets": [place, place + 2 * count]}
        place += 2 * count
    text = json.dumps(header).encode()
    data = struct.pack("<Q", len(text)) + text + bytes(place)
    path.write_bytes(data[: len(data) - cut])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    safetensors(tmp_path / "model-1.safetensors", {"model.embed_tokens.weight": 100, "model.layers.0.a": 10, "model.layers.1.a": 10})
    safetensors(tmp_path / "model-2.safetensors", {"lm_head.weight": 100, "model.layers.2.mtp_head": 30, "mtp.fc": 7})
    weight_map = {"model.layers.0.a": "model-1.safetensors", "lm_head.weight": "model-2.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return tmp_path


def test_sums_leave_out_what_engines_do_not_load(folder: Path) -> None:
    weights = read_model(str(folder))["weights"]
    assert (weights["files"], weights["tensors"], weights["elements"], weights["bytes"]) == (2, 6, 257, 514)
    assert weights["loaded_bytes"] == 2 * 120
    assert weights["by_dtype"] == {"BF16": 514}


def test_a_folder_without_weights_is_a_config(folder: Path) -> None:
    for file in folder.glob("model*"):
        file.unlink()
    assert read_model(str(folder))["weights"] is None


def test_quantization_in_its_older_file(folder: Path) -> None:
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}))
    assert read_model(str(folder))["config"]["quantization_config"]["quant_algo"] == "NVFP4"


def _truncated(folder: Path) -> None:
    safetensors(folder / "model-1.safetensors", {"a": 100}, cut=3)


def _half_header(folder: Path) -> None:
    (folder / "model-1.safetensors").write_bytes((folder / "model-1.safetensors").read_bytes()[:20])


def _empty(folder: Path) -> None:
    (folder / "model-1.safetensors").write_bytes(b"")


def _error_page(folder: Path) -> None:
    (folder / "model-1.safetensors").write_bytes(b"<html>not found</html>" * 9)


def _longer(folder: Path) -> None:
    with (folder / "model-1.safetensors").open("ab") as file:
        file.write(b"x")


def _lost(folder: Path) -> None:
    (folder / "model-2.safetensors").unlink()


def _bad_json(folder: Path) -> None:
    (folder / "config.json").write_text('{"a": 1,}')


def _list(folder: Path) -> None:
    (folder / "config.json").write_text("[1]")


def _no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def _bad_index(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text('{"weight_map": []}')


def _bad_tensor(folder: Path) -> None:
    text = json.dumps({"a": {"dtype": "BF16", "shape": [1], "data_offsets": [4]}}).encode()
    (folder / "model-1.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (_truncated, "model-1.safetensors is truncated"),
        (_half_header, "truncated or no safetensors file: 20 bytes"),
        (_empty, "truncated or no safetensors file: 0 bytes"),
        (_error_page, "truncated or no safetensors file"),
        (_longer, "longer than its header says"),
        (_lost, "lacks 1 of 2 files of its index: model-2.safetensors"),
        (_bad_json, "config.json is not valid JSON"),
        (_list, "config.json holds list, expected a mapping"),
        (_no_config, "config.json does not exist"),
        (_bad_index, "has no weight_map"),
        (_bad_tensor, "does not describe tensor a"),
    ],
)
def test_broken_folders_are_named(folder: Path, harm: t.Callable[[Path], None], words: str) -> None:
    harm(folder)
    with pytest.raises(HostError, match=words.replace(".", r"\.")):
        read_model(str(folder))


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="does not exist"):
        read_model(str(tmp_path / "nowhere"))
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="is no folder"):
        read_model(str(tmp_path / "file"))
