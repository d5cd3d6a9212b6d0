# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The definition of an instance: everything that a host needs to run it, as one document with a hash. Pure.

Private to the collection. A definition made here holds no secret: of a secret file it has the hash only, since plans are shown and
stored. `with_secrets` puts the texts in, at the last moment. schemas/engine_definition.schema.json has the form.
"""

from __future__ import annotations

import hashlib
import json
import typing as t

from ._engine_argv import SECRET_FILE, argv, flags, secret_file
from ._engine_files import files
from ._engine_job import SETTINGS, Host, Job, unit_name
from ._engine_unit import units

KEY_FILE = "api_key"
"""The bare key, for the check that the engine answers; the engine itself gets it in its own configuration file."""
_CHECKS = {"completion": ["completion"], "chat": ["chat"], "embedding": ["embedding"], "image": ["image"]}
_PROMPT = "The capital of France is"

Definition = dict[str, t.Any]


def definition(job: Job, host: Host) -> Definition:
    """The document for one member; `sha256` covers all of it."""
    instance = job.instance
    texts = units(job, host)
    timers = [name for name in texts if name.endswith(".timer")]
    started = [name for name in texts if name.endswith(".service") and not name.endswith("-watchdog.service")]
    margin = max(20, int(job.life.part("drain").get("margin", 20)))
    out: Definition = {
        "schema": 1,
        "name": instance["name"],
        "engine": instance["engine"],
        "version": instance["version"],
        "model": instance["model"],
        "served_name": _first(instance["served_name"]),
        "gpus": [device.uuid for device in job.devices],
        "host": instance["host"],
        "port": instance["port"],
        "user": instance["user"] if instance["runtime"] == "venv" else "root",
        "runtime": instance["runtime"],
        "program": argv(instance, job.life, job.matrix, job.planned, job.rank)[0] if instance["runtime"] == "venv" else instance["image"],
        "units": texts,
        "enable": [*started, *timers],
        "start": [*started, *timers],
        "files": {path: _file(text, secret) for path, (text, secret) in _files(job).items()},
        "drain_seconds": instance["drain_seconds"],
        "stop_seconds": instance["drain_seconds"] + margin,
        "ready_seconds": instance["ready_seconds"],
        "ready": _ready(job) if job.rank == 0 else None,
    }
    return {**out, "sha256": digest(out)}


def digest(document: t.Mapping[str, t.Any]) -> str:
    """Over all but itself and the texts of secret files, whose own hash stands for them."""
    plain = {name: value for name, value in document.items() if name != "sha256"}
    plain["files"] = {
        path: {key: value for key, value in file.items() if key != "text" or not file.get("secret")}
        for path, file in document["files"].items()
    }
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def with_secrets(document: t.Mapping[str, t.Any], instance: t.Mapping[str, t.Any]) -> Definition:
    """The definition with the texts of its secret files, from what the site wrote; ValueError if it was made with others."""
    texts = {
        SECRET_FILE: f"api-key: {json.dumps(instance.get('api_key'))}\n",
        KEY_FILE: str(instance.get("api_key") or ""),
        "hf_token": str(instance.get("hf_token") or ""),
    }
    out = {}
    for path, file in document["files"].items():
        out[path] = dict(file)
        if file.get("secret"):
            text = texts.get(path.rpartition("/")[2], "")
            if _sha(text) != file["sha256"]:
                raise ValueError(f"the secret for {path} of instance {document['name']} is not the one that the plan was made with")
            out[path]["text"] = text
    return {**document, "files": out}


def _files(job: Job) -> dict[str, tuple[str, bool]]:
    """What lies beside the units, and the bare key for the check."""
    key = job.instance.get("api_key")
    bare = {f"{SETTINGS}/{job.instance['name']}/{KEY_FILE}": (str(key), True)} if secret_file(job.instance, job.life) and key else {}
    return {**files(job), **bare}


def _file(text: str, secret: bool) -> dict[str, t.Any]:
    shown = {} if secret else {"text": text}
    return {**shown, "sha256": _sha(text), "mode": "0600" if secret else "0644", "secret": secret}


def _ready(job: Job) -> dict[str, t.Any]:
    """What must be so before the instance counts as up: a real answer, not an open port."""
    instance, probe = job.instance, job.instance["probe"]
    at = "127.0.0.1" if instance["host"] in ("0.0.0.0", "::") else instance["host"]  # noqa: S104 - compared with, not bound to
    bare = f"{SETTINGS}/{instance['name']}/{KEY_FILE}"
    named = {"served-model-name", "served_model_name"} & set(flags(instance, job.life, job.matrix, job.planned, job.rank))
    return {
        "url": f"http://{f'[{at}]' if ':' in at else at}:{instance['port']}",
        "health": job.life.paths().get("health", ""),
        # A release that cannot be told a name makes one up.
        "model": _first(instance["served_name"]) if named else "",
        "checks": _CHECKS[probe.get("kind", "completion")],
        "prompt": probe.get("prompt", _PROMPT),
        "expect": probe.get("expect", ""),
        "max_tokens": probe.get("max_tokens", 8),
        "api_key_file": bare if bare in _files(job) else None,
        "unit": unit_name(instance),
    }


def _first(value: t.Any) -> str:
    return str(value[0] if isinstance(value, list) else value)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
