# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One engine instance: checked, with its defaults filled in. Fleet-level checks are in _engine_host. Pure.

Private to the collection. Interface: read(spec, matrix, context) -> (instance, findings). The instance is a dict with the keys of
schemas/engine_instance.schema.json, every default filled in; None where it cannot be used. Its arguments are checked as well.
"""

from __future__ import annotations

import functools
import json
import typing as t
from pathlib import Path

from . import _matrix_engines as engines
from ._contracts import Context, Finding, named_finding
from ._engine_flags import check_args
from ._engine_lifecycle import Lifecycle, lifecycle, owned
from ._matrix_schema import problems

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

Instance = dict[str, t.Any]
SOURCE = "schemas/engine_instance.schema.json"
SECRETS = ("api_key", "hf_token")
_SCHEMA = Path(__file__).resolve().parents[2] / "schemas" / "engine_instance.schema.json"


@functools.lru_cache(maxsize=1)
def schema() -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", json.loads(_SCHEMA.read_text(encoding="utf-8")))


def read(spec: t.Any, matrix: Matrix, context: Context) -> tuple[Instance | None, list[Finding]]:
    """The instance with defaults, and all that is wrong with it; None where its keys cannot be used at all."""
    if not isinstance(spec, t.Mapping):
        return None, [bad("an instance", repr(spec), "is no mapping with name, engine, model and version")]
    shown = {key: "********" if key in SECRETS and isinstance(value, str) and value else value for key, value in spec.items()}
    name = str(spec.get("name") or "an instance without a name")
    wrong = [
        _misfit(f"{name}.{where}" if where else name, _shown(shown, where), what) for where, what in problems(shown, schema(), schema())
    ]
    if wrong:
        return None, wrong
    life = lifecycle(matrix, spec["engine"], spec["version"])
    instance = _with_defaults(spec, life, matrix)
    findings = list(_conflicts(instance, life))
    given = (instance["engine"], instance["version"], instance["args"], instance["env"], matrix)
    findings += check_args(*given, name=name, owned=owned(instance, life), unknown=context.unknown)
    return instance, findings


def bad(subject: str, found: str, what: str, nearest: str | None = None) -> Finding:
    """A setting of an instance that cannot be used; `what` goes on after the value: is …, goes with …"""
    return _finding(f"{subject} ({found}) {what}.", subject, found, what, nearest)


def _misfit(subject: str, found: str, what: str) -> Finding:
    """What the schema says; it names the value itself."""
    return _finding(f"{subject}: {what.rstrip('.')}.", subject, found, what, what.partition("did you mean ")[2].partition("?")[0] or None)


def _finding(message: str, subject: str, found: str, needed: str, nearest: str | None) -> Finding:
    fix = f"Change {subject}." + (f" Nearest: {nearest}." if nearest else "")
    rest = {"found": found, "needed": needed, "fix": fix}
    return named_finding("engine", "bad_input", "block", message, SOURCE, subject=subject, nearest=nearest, **rest)


def _shown(spec: t.Any, where: str) -> str:
    value = spec
    for part in where.replace("[", ".").replace("]", "").split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, ValueError, TypeError):
            return "nothing" if where else repr(spec)
    return repr(value)


def _with_defaults(spec: t.Mapping[str, t.Any], life: Lifecycle, matrix: Matrix) -> Instance:
    folder = str(spec["model"]).startswith("/")
    release = engines.release(matrix, spec["engine"], spec["version"])
    row = release.row if release and release.exact else {}
    runtime = spec.get("runtime", "venv")
    defaults: Instance = {
        "runtime": runtime,
        "venv": f"/opt/gpufleet/engines/{spec['engine']}/{spec['version']}" if runtime == "venv" else None,
        "image": row.get("image") if runtime != "venv" else None,
        "gpus": "all",
        "host": "127.0.0.1",
        "port": life.port,
        "served_name": spec["model"],
        "parallel": {},
        "args": {},
        "config": {},
        "env": {},
        "workload": "general",
        "offline": folder,
        "drain_seconds": 60,
        "ready_seconds": life.ready_seconds,
        "probe": {"kind": "embedding" if spec.get("workload") == "embedding" else "completion"},
        "nodes": None,
        "user": "gpufleet-engine",
        "resources": {},
    }
    instance = {**defaults, **{key: value for key, value in spec.items() if value is not None}}
    instance["env"] = {str(key): str(value) for key, value in instance["env"].items()}
    return instance


def _conflicts(instance: Instance, life: Lifecycle) -> t.Iterator[Finding]:
    """Keys that do not go together."""
    name, engine = instance["name"], engines.TITLE[instance["engine"]]
    container = instance["runtime"] != "venv"
    if container and not instance.get("image"):
        yield bad(f"{name}.image", "nothing", f"is needed: the matrix names no image of {engine} {instance['version']}")
    if not container and instance.get("image"):
        yield bad(f"{name}.image", repr(instance["image"]), "goes only with runtime docker or podman", "runtime: podman")
    if instance["config"] and instance["engine"] != "tensorrt_llm":
        yield bad(f"{name}.config", "a mapping", f"is for TensorRT-LLM only; {engine} takes everything in args", "args")
    if instance.get("api_key") and not life.key_file:
        why = "has no API keys" if engine == "TensorRT-LLM" else f"{instance['version']} would show it in the process list"
        yield bad(
            f"{name}.api_key",
            "a key",
            f"cannot be used: {engine} {why}; keep keys at the gateway",
            "SGLang 0.5.3 or newer" if "has" not in why else None,
        )
    nodes = instance["nodes"]
    if nodes:
        launcher = nodes.get("launcher") or (life.launchers or ("",))[0]
        if launcher not in life.launchers:
            known = " or ".join(life.launchers)
            yield bad(
                f"{name}.nodes.launcher",
                repr(launcher),
                f"is not known to {engine} {instance['version']}; it has {known}",
                life.launchers[0],
            )
        for key in ("host", "address"):
            values = [member[key] for member in nodes["members"]]
            if len(set(values)) < len(values):
                yield bad(f"{name}.nodes.members", ", ".join(values), f"name one {key} twice")
        if instance["host"].startswith("127.") and launcher == "mpi":
            yield bad(f"{name}.host", instance["host"], "is not reached from other nodes", nodes["members"][0]["address"])
