# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image that an engine runs in, from a registry or an archive, at one digest. Private to the collection.

What was brought is recorded in /var/lib/gpufleet/engine_images.json, so that a tag which moves at the registry moves nothing here, and only
our own images are ever pruned.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import time
import typing as t

from ._errors import WorkError
from ._files import write_text
from ._paths import RUN_DIR, VAR_DIR
from ._runtime_installer import without_secrets
from ._runtime_layout import user_of
from ._runtime_venv import check_space
from ._state import read_state, write_state
from ._subprocess import Result, run

RECORD = VAR_DIR + "/engine_images.json"
KIND = "engine_images"
Job = t.Mapping[str, t.Any]
_ASK = 60.0
"""Seconds for a question to the container engine."""
_REASONS = (
    ("disk_full", r"no space left on device"),
    ("denied", r"unauthorized|denied|authentication required|403|401"),
    ("not_found", r"manifest unknown|not found|no such image|name unknown"),
    ("unreachable", r"connection refused|no such host|i/o timeout|server misbehaving|dial tcp|pinging container registry|TLS handshake"),
    ("no_engine", r"Cannot connect to the Docker daemon|permission denied while trying to connect"),
)


def plan(job: Job) -> dict[str, t.Any]:
    """`changes` is empty where the image is there, without asking a registry; `use` is what a unit is given."""
    entry = _record()["images"].get(_key(job))
    there = entry is not None and not job["refresh"] and _inspect(job, entry["id"]) is not None
    if entry is not None and there:
        return {"changes": [], "use": entry["use"], "id": entry["id"]}
    known = None if job["refresh"] else _inspect(job, job["image"])
    if known is not None:
        return {"changes": ["record"], "use": _use(job, known), "id": _id(known)}
    if job["archive"] and not os.path.isfile(job["archive"]):
        raise WorkError("not_found", f"archive is {job['archive']}, which is no file on this host")
    check_space(_store(job), job["size"], job["reserve"])
    return {"changes": ["load" if job["archive"] else "pull", "record"], "use": "", "id": ""}


def work(job: Job, secrets: t.Mapping[str, str], progress: t.Callable[[dict[str, t.Any]], None]) -> dict[str, t.Any]:
    decided = plan(job)
    if "pull" in decided["changes"] or "load" in decided["changes"]:
        progress({"phase": "loading the archive" if job["archive"] else "pulling the image"})
        _bring(job, secrets.get("registry_password", ""))
    found = _inspect(job, job["image"])
    if found is None:
        raise WorkError(
            "not_found", f"{job['archive'] or 'the registry'} gave no {job['image']}; the archive has {_names(job) or 'no name'}"
        )
    _compare(job, found)
    record = _record()
    record["images"].pop(_key(job), None)
    entry = {"engine": job["engine"], "version": job["version"], "id": _id(found), "use": _use(job, found), "brought": time.time()}
    record["images"][_key(job)] = entry
    gone = _prune(job, record)
    _write(record)
    return {"use": entry["use"], "id": entry["id"], "pruned": gone}


def absent(job: Job, check: bool) -> dict[str, t.Any]:
    """Our record of a reference, and its image unless it has a user or is not ours."""
    record = _record()
    entry = record["images"].get(_key(job))
    if entry is None:
        return {"changed": False, "use": "", "id": ""}
    user = user_of(job["image"], entry["use"], entry["id"])
    if user:
        raise WorkError("in_use", f"{user} names it; remove that instance first, or give it another image")
    if not check:
        _remove(job["runtime"], entry)
        del record["images"][_key(job)]
        _write(record)
    return {"changed": True, "use": "", "id": ""}


def _bring(job: Job, password: str) -> None:
    private = os.path.join(RUN_DIR, "runtime", f"image-{job['name']}")
    shutil.rmtree(private, ignore_errors=True)
    try:
        env = _credentials(job, private, password)
        words = ["load", "--input", job["archive"]] if job["archive"] else ["pull", "--quiet", job["image"]]
        result = _engine(job, words, job["build_timeout"], env)
    finally:
        shutil.rmtree(private, ignore_errors=True)
    if not result.success:
        raise _explained(result, job, password)


def _credentials(job: Job, private: str, password: str) -> dict[str, str]:
    """Both engines read a file of this shape; it lies where only root reads, as long as the pull goes on."""
    if job["auth_file"] and not os.path.isfile(job["auth_file"]):
        raise WorkError("denied", f"auth_file is {job['auth_file']}, which is no file on this host")
    text = "{}"
    if job["auth_file"]:
        with open(job["auth_file"], encoding="utf-8") as source:
            text = source.read()
    elif password:
        word = base64.b64encode(f"{job['registry_username']}:{password}".encode()).decode()
        text = json.dumps({"auths": {_registry(job["image"]): {"auth": word}}})
    write_text(f"{private}/config.json", text, mode=0o600, dir_mode=0o700)
    return {"DOCKER_CONFIG": private, "REGISTRY_AUTH_FILE": f"{private}/config.json"}


def _compare(job: Job, found: t.Mapping[str, t.Any]) -> None:
    if job["image_id"] and job["image_id"].rpartition(":")[2] != _id(found).rpartition(":")[2]:
        raise WorkError("checksum", f"{job['image']} has the id {_id(found)}, expected is image_id {job['image_id']}")


def _prune(job: Job, record: dict[str, t.Any]) -> list[str]:
    """Of this engine's images in this runtime: all but the one in place, the `keep` newest others and those in use."""
    mine = _key(job)
    others = [
        key
        for key, entry in reversed(list(record["images"].items()))
        if key != mine and key.startswith(job["runtime"] + " ") and entry["engine"] == job["engine"]
    ]
    gone = []
    for key in others[job["keep"] :]:
        entry = record["images"][key]
        if not user_of(key.partition(" ")[2], entry["use"], entry["id"]):
            _remove(job["runtime"], entry)
            del record["images"][key]
            gone.append(key.partition(" ")[2])
    return gone


def _remove(runtime: str, entry: t.Mapping[str, t.Any]) -> None:
    """Without force: an image that a container of anyone's is made from stays."""
    run([runtime, "image", "rm", entry["id"].rpartition(":")[2]], timeout=_ASK)


def _inspect(job: Job, reference: str) -> t.Optional[dict[str, t.Any]]:
    result = _engine(job, ["image", "inspect", "--format", "{{json .}}", reference], _ASK)
    if not result.success:
        if re.search(_REASONS[-1][1], result.err):
            raise _explained(result, job, "")
        return None
    answer: dict[str, t.Any] = json.loads(result.out)
    return answer


def _engine(job: Job, words: t.Sequence[str], timeout: float, env: t.Optional[t.Mapping[str, str]] = None) -> Result:
    result = run([job["runtime"], *words], timeout=timeout, env=env)
    if result.state == "missing":
        raise WorkError("no_engine", f"runtime is {job['runtime']}, which is not on this host")
    return result


def _explained(result: Result, job: Job, password: str) -> WorkError:
    if result.state == "timeout":
        return WorkError("timeout", f"{job['runtime']} was ended after {job['build_timeout']:g} s")
    text = without_secrets(result.err.strip() or f"exit status {result.rc}", password)
    reason = next((word for word, pattern in _REASONS if re.search(pattern, text, re.IGNORECASE)), "failed")
    return WorkError(reason, f"{job['image']}: {' | '.join(text.splitlines()[-3:])[-600:]}")


def _use(job: Job, found: t.Mapping[str, t.Any]) -> str:
    """A name that cannot move: NAME@DIGEST of the repository that was asked for, else the id."""
    if "@" in job["image"]:
        return str(job["image"])
    repository = _repository(job["image"])
    names = [name for name in found.get("RepoDigests") or [] if name.partition("@")[0] == repository]
    return str(sorted(names)[0]) if names and not job["archive"] else _id(found)


def _repository(image: str) -> str:
    """An image's name without tag; Docker leaves its own registry out, Podman never does."""
    name = image.partition("@")[0]
    return name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name


def _registry(image: str) -> str:
    first, slash, _rest = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "https://index.docker.io/v1/"


def _id(found: t.Mapping[str, t.Any]) -> str:
    """Podman leaves the algorithm out."""
    return "sha256:" + str(found["Id"]).rpartition(":")[2]


def _names(job: Job) -> str:
    result = _engine(job, ["image", "ls", "--format", "{{.Repository}}:{{.Tag}}"], _ASK)
    return ", ".join(result.out.split()[:5]) if result.success else ""


def _store(job: Job) -> str:
    word = "{{.DockerRootDir}}" if job["runtime"] == "docker" else "{{.Store.GraphRoot}}"
    result = _engine(job, ["info", "--format", word], _ASK)
    if not result.success:
        raise _explained(result, job, "")
    return result.out.strip() or "/var/lib"


def _key(job: Job) -> str:
    return f"{job['runtime']} {job['image']}"


def _record() -> dict[str, t.Any]:
    return read_state(RECORD, KIND) or {"images": {}}


def _write(record: t.Mapping[str, t.Any]) -> None:
    write_state(RECORD, KIND, {key: value for key, value in record.items() if key != "schema"})
