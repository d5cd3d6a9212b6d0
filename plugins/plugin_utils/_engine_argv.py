# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of an engine instance, and the file that goes with it. Pure.

Private to the collection. Interface:

    flags(instance, life, matrix, planned, rank) -> {flag: value}     # everything but the model
    argv(instance, life, matrix, planned, rank) -> [word, …]          # without secrets; {credentials} stands for where secret files lie
    secret_file(instance, life) -> text | None                        # YAML with the API key, for the engine's --config
    options_file(instance) -> text | None                             # TensorRT-LLM's YAML

`planned` is the planner's answer by engine-neutral names (max_model_len …); the site's args win over it, the instance's own keys over both.
"""

from __future__ import annotations

import json
import typing as t

from . import _engine_args, _engine_nodes
from ._engine_flag_rows import Table, table, within
from ._engine_instance import Instance
from ._engine_lifecycle import Lifecycle, owned
from ._engine_values import words

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

SECRET_FILE = "secrets.yaml"  # noqa: S105 - a file name
OPTIONS_FILE = "options.yaml"


def flags(
    instance: Instance, life: Lifecycle, matrix: Matrix, planned: t.Mapping[str, t.Any] | None = None, rank: int = 0
) -> dict[str, t.Any]:
    """All flags in the order in which they are written."""
    known = table(matrix, life.engine)
    out = {name: _first(value) if not _many(known, name) else value for name, value in owned(instance, life).items()}
    if "served_name" in life.arguments and not _has(known, life, life.arguments["served_name"]):
        del out[life.arguments["served_name"]]
    if _has(known, life, "served_model_name"):
        out["served_model_name"] = _first(instance["served_name"])
    out.update(_engine_nodes.flags(instance, life, rank))
    given = {one.name: one.value for one in _engine_args.read(instance["args"], known, life.version)}
    for name, value in (planned or {}).items():
        flag = life.arguments.get(name)
        if flag and value is not None and _has(known, life, flag) and not _in_file(instance, name):
            out.setdefault(flag, value)
            if flag in given:
                out[flag] = given[flag]
    out.update({name: value for name, value in given.items() if name not in out})
    metrics = life.part("metrics").get("flag")
    if metrics:
        out.setdefault(metrics, True)
    return out


def argv(
    instance: Instance,
    life: Lifecycle,
    matrix: Matrix,
    planned: t.Mapping[str, t.Any] | None = None,
    rank: int = 0,
    files: t.Mapping[str, str] | None = None,
) -> list[str]:
    """Words of the command. `files`: where secrets.yaml and options.yaml lie for the process, by name."""
    known = table(matrix, life.engine)
    command = [
        word.replace("{model}", instance["model"]) for word in life.part("serve")["venv" if instance["runtime"] == "venv" else "container"]
    ]
    if instance["runtime"] == "venv":
        command[0] = f"{instance['venv']}/bin/{command[0]}"
    for name, value in flags(instance, life, matrix, planned, rank).items():
        flag = known.find(name) if known else None
        # A dotted name (--compilation-config.mode) and a flag that the rows do not know go as they were given.
        command += (
            words(flag, life.version, value) if flag and flag.name == name else [f"--{name}", *([] if value is True else [str(value)])]
        )
    for name, path in (files or {}).items():
        if name == SECRET_FILE or (name == OPTIONS_FILE and life.engine == "tensorrt_llm"):
            command += [f"--{life.part('config')['flag']}", path]
    return command


def secret_file(instance: Instance, life: Lifecycle) -> str | None:
    """The API key as the engine's own configuration file, which shows in no process list and no unit."""
    key = instance.get("api_key")
    return f"api-key: {json.dumps(key)}\n" if key and life.key_file else None


def options_file(instance: Instance) -> str | None:
    """JSON is YAML: one writer, sorted, so that the same options are the same bytes."""
    return json.dumps(instance["config"], indent=2, sort_keys=True) + "\n" if instance["config"] else None


def _has(known: Table | None, life: Lifecycle, name: str) -> bool:
    flag = known.find(name) if known else None
    return flag is not None and within(life.version, flag.releases)


def _many(known: Table | None, name: str) -> bool:
    flag = known.find(name) if known else None
    return flag is not None and flag.many


def _in_file(instance: Instance, name: str) -> bool:
    """TensorRT-LLM: a value stands in exactly one of the two places, since which of them wins changed with 1.3."""
    names = {"memory_fraction": "kv_cache_config", "max_model_len": "max_seq_len", "max_num_seqs": "max_batch_size"}
    return names.get(name, name) in instance["config"] or {"max_num_batched_tokens": "max_num_tokens"}.get(name) in instance["config"]


def _first(value: t.Any) -> t.Any:
    return value[0] if isinstance(value, list) else value
