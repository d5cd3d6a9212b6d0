# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a wish for a model to a snapshot in the store: what is missing, and the work that brings it. Private to the collection.

The planning half only reads (and asks the hub for a list); the working half runs in a unit of its own, see _job.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import shutil
import typing as t

from . import _model_layout, _model_patch
from ._model_fetch import Progress, check_space, fetch, space_needed
from ._model_hub import File, Hub, Manifest, ModelError
from ._model_verify import Digests, check_folder

EXCLUDE = ("original/*", "*.pth", "*.gguf", "*.onnx")
"""Left out unless said otherwise: second copies of the weights that no engine here loads."""
_COMMIT_DIGITS = 40
_OURS = (".incomplete",)
Job = t.Mapping[str, t.Any]


class State(t.NamedTuple):
    """What a model lacks. `identity` is empty as long as only the hub knows it."""

    identity: str
    fetch: bool
    patch: bool
    switch: bool

    @property
    def work(self) -> bool:
        return self.fetch or self.patch or self.switch


def pinned(revision: str) -> bool:
    return len(revision) == _COMMIT_DIGITS and all(digit in "0123456789abcdef" for digit in revision)


def state_of(job: Job) -> State:
    """Without the network: a commit is what it is, and another name stays at the commit that it once led to."""
    layout = _model_layout.Layout(job["store"], job["name"])
    record = _model_layout.read_record(layout)
    if job["path"]:
        identity = "local-" + fingerprint(job["path"], job)
    else:
        commit = job["revision"] if pinned(job["revision"]) else (record.get("refs") or {}).get(_ref(job), "")
        if not commit or (job["refresh"] and not pinned(job["revision"])):
            return State("", True, bool(job["patches"]), True)
        identity = _named(commit, job)
    final = _final(identity, job)
    whole = _model_layout.whole(layout, record, final)
    lacks = not whole and not _model_layout.whole(layout, record, identity)
    unpatched = bool(job["patches"]) and not whole
    return State(identity, lacks, unpatched, layout.in_use() != layout.snapshot(final) or not os.path.isdir(layout.current))


def missing(job: Job, token: str) -> dict[str, int]:
    """For a plan: bytes and files to come; an error if the hub has no such thing or the disk is too small."""
    files, folder, _commit = _source(job, token)
    needed = space_needed(files, folder)
    check_space(folder, needed, job["reserve"])
    return {"bytes": needed, "files": len(files)}


def work(job: Job, secrets: t.Mapping[str, str], publish: t.Callable[[dict[str, t.Any]], None]) -> dict[str, t.Any]:
    """Fetch or copy, verify, record, patch, switch, prune. Whatever fails leaves `current` as it was; of `secrets` it takes `token`."""
    layout = _model_layout.Layout(job["store"], job["name"])
    record = _model_layout.read_record(layout)
    state = state_of(job)
    identity = state.identity
    if state.fetch:
        identity = _bring(job, secrets.get("token", "").strip(), layout, record, publish)
    final = _final(identity, job)
    if job["patches"] and not _model_layout.whole(layout, record, final):
        shutil.rmtree(layout.snapshot(final), ignore_errors=True)
        _model_patch.build(layout.snapshot(identity), layout.snapshot(final), job["patches"])
        _note(layout, record, final, {}, job)
    previous = layout.in_use()
    layout.switch(layout.snapshot(final))
    _model_layout.prune(layout, record, job["keep"])
    _model_layout.write_record(layout, record)
    return {"path": layout.snapshot(final), "identity": final, "previous": previous}


def remove(layout: _model_layout.Layout) -> bool:
    """The model with all its snapshots; the link goes first, so that nobody is led into half a folder."""
    if not os.path.isdir(layout.root):
        return False
    if not os.path.exists(layout.record) and os.listdir(layout.root) and not os.path.isdir(os.path.join(layout.root, "partial")):
        raise ModelError("taken", f"{layout.root} was not made by this module (it has no model.json); remove it by hand if it is to go")
    if os.path.islink(layout.current):
        os.unlink(layout.current)
    shutil.rmtree(layout.root)
    return True


def fingerprint(path: str, job: Job) -> str:
    """Names, sizes and times of a folder: another content is another snapshot."""
    lines = [f"{file.path} {file.size} {os.stat(os.path.join(path, file.path)).st_mtime_ns}" for file in _listed(path, job)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _bring(
    job: Job, token: str, layout: _model_layout.Layout, record: dict[str, t.Any], publish: t.Callable[[dict[str, t.Any]], None]
) -> str:
    files, folder, commit = _source(job, token)
    identity = os.path.basename(folder)
    target = layout.snapshot(identity)
    check_space(folder, space_needed(files, folder), job["reserve"])
    os.makedirs(folder, mode=0o755, exist_ok=True)
    os.makedirs(layout.snapshots, mode=0o755, exist_ok=True)
    progress = Progress(sum(file.size for file in files), len(files), publish)
    if job["path"]:
        digests = {
            file.path: _copy(os.path.join(job["path"], file.path), os.path.join(folder, file.path), file.size, progress) for file in files
        }
    else:
        digests = fetch(Hub(job["endpoint"], token, job["stall_timeout"]), job["repo"], commit, files, folder, job["workers"], progress)
    _compare(digests, job["sha256"])
    check_folder(folder)
    shutil.rmtree(target, ignore_errors=True)  # half a snapshot, or one that was changed since
    os.rename(folder, target)
    _note(layout, record, identity, digests, job)
    if commit and not pinned(job["revision"]):
        record["refs"] = {**(record.get("refs") or {}), _ref(job): commit}
    _model_layout.write_record(layout, record)
    return identity


def _source(job: Job, token: str) -> tuple[list[File], str, str]:
    """Files, the folder that they are gathered in, and the commit ('' for a folder)."""
    layout = _model_layout.Layout(job["store"], job["name"])
    if job["path"]:
        files = _listed(job["path"], job)
        if not files:
            raise ModelError("empty", f"{job['path']} has no files to take")
        check_folder(job["path"])
        return files, layout.partial("local-" + fingerprint(job["path"], job)), ""
    manifest: Manifest = Hub(job["endpoint"], token, job["stall_timeout"]).manifest(job["repo"], job["revision"])
    if pinned(job["revision"]) and manifest.revision != job["revision"]:
        raise ModelError("bad_answer", f"{job['endpoint']} answers for commit {manifest.revision}, asked was {job['revision']}")
    files = [file for file in manifest.files if _taken(file.path, job)]
    if not files:
        raise ModelError("empty", f"include and exclude leave none of the {len(manifest.files)} files of {job['repo']}")
    return files, layout.partial(_named(manifest.revision, job)), manifest.revision


def _listed(path: str, job: Job) -> list[File]:
    if not os.path.isdir(path):
        raise ModelError("not_found", f"path is {path}, which is no folder on this host")
    found = []
    for folder, _names, files in os.walk(path):
        for name in files:
            relative = os.path.normpath(os.path.relpath(os.path.join(folder, name), path))
            if _taken(relative, job):
                found.append(File(relative, os.path.getsize(os.path.join(folder, name)), "", ""))
    return sorted(found)


def _taken(path: str, job: Job) -> bool:
    included = not job["include"] or any(fnmatch.fnmatch(path, pattern) for pattern in job["include"])
    return included and not path.endswith(_OURS) and not any(fnmatch.fnmatch(path, pattern) for pattern in job["exclude"])


def _copy(source: str, target: str, size: int, progress: Progress) -> dict[str, t.Any]:
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    digests = Digests(size)
    try:
        with open(source, "rb") as read, open(target, "wb") as write:
            for chunk in iter(lambda: read.read(4 << 20), b""):
                write.write(chunk)
                digests.update(chunk)
                progress.add(len(chunk))
            write.flush()
            os.fsync(write.fileno())
    except OSError as exc:
        raise ModelError("disk_full" if exc.errno == 28 else "unreachable", f"{source} cannot be copied: {exc.strerror}") from exc
    progress.add(0, 1)
    return {"size": os.path.getsize(target), "sha256": digests.sha256}


def _compare(digests: t.Mapping[str, t.Mapping[str, t.Any]], wanted: t.Mapping[str, str]) -> None:
    for path, digest in wanted.items():
        if path not in digests:
            raise ModelError("checksum", f"sha256 names {path}, which is not among the files")
        if digests[path]["sha256"] != digest.lower():
            raise ModelError("checksum", f"{path} has SHA-256 {digests[path]['sha256']}, expected {digest.lower()}")


def _note(layout: _model_layout.Layout, record: dict[str, t.Any], identity: str, digests: t.Mapping[str, t.Any], job: Job) -> None:
    folder = layout.snapshot(identity)
    files = {}
    for here, _names, names in os.walk(folder):
        for name in names:
            path = os.path.normpath(os.path.relpath(os.path.join(here, name), folder))
            status = os.stat(os.path.join(here, name))
            files[path] = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": (digests.get(path) or {}).get("sha256", "")}
    source = job["path"] or f"{job['endpoint']}/{job['repo']}@{job['revision']}"
    record["snapshots"].pop(identity, None)
    record["snapshots"][identity] = {"source": source, "files": files}


def _ref(job: Job) -> str:
    return f"{job['repo']}@{job['revision']}"


def _named(commit: str, job: Job) -> str:
    """A part of a revision is not the revision."""
    if not job["include"] and sorted(job["exclude"]) == sorted(EXCLUDE):
        return commit
    return f"{commit}-{_model_patch.digest({'include': sorted(job['include']), 'exclude': sorted(job['exclude'])})[:6]}"


def _final(identity: str, job: Job) -> str:
    return f"{identity}+{_model_patch.digest(job['patches'])}" if job["patches"] else identity
