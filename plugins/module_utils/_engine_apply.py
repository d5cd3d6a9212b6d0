# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write an engine's configuration so that the engine surely comes up with it, or has its old files back. Private to the collection.

Order: the engine judges a staged copy; backups; files; the engine's own account of the real files; reload or restart; the
engine answers. From the first written file on, any failure puts the old files back and starts the engine with them.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import tempfile
import time
import typing as t

from ._container_info import ENGINES_RECORD
from ._engines_host import docker_info, docker_socket, show_units
from ._errors import HostError
from ._files import read_text, sha256, write_text
from ._paths import DOCKER_CDI_SWITCHED, RUN_DIR, VAR_DIR
from ._subprocess import run

BACKUPS = VAR_DIR + "/backups"
KEEP = 5


class Job(t.NamedTuple):
    """What the controller decided."""

    engine: str
    unit: str
    files: list[dict[str, t.Any]]
    """[{path, text, seen}]; text None removes the file, seen is the digest of the text that the controller decided about."""
    stage: dict[str, str]
    validate: list[str]
    dump: list[str]
    action: str
    """none | reload | restart"""
    user: str
    timeout: float
    cdi_switch: str = ""
    """on | off: what happens to CDI in these files, which absent must know to be ours"""


class Outcome(t.NamedTuple):
    """What was done."""

    written: list[str]
    backups: list[str]
    action: str


def apply(job: Job) -> Outcome:
    """Do the job; HostError when it could not be done and all is as it was."""
    if job.validate:
        _judge_staged(job)
    saved = {file["path"]: _saved(os.path.realpath(file["path"])) for file in job.files}
    _unchanged(job)
    backups = [path for path in (_back_up(file["path"]) for file in job.files) if path]
    try:
        if job.cdi_switch == "on":  # before the file: a run that is killed in between must not forget it
            _remember_switch(job, True)
        for file in job.files:
            _write(file["path"], file["text"], job.user)
        _judge_dump(job)
        _act(job)
    except (HostError, OSError) as exc:
        _put_back(job, saved)
        raise HostError(f"{exc}. The old configuration of {job.engine} is back in place") from exc
    if job.cdi_switch == "off":
        _remember_switch(job, False)
    if job.action == "restart" and not job.user:
        _record(job)
    return Outcome([file["path"] for file in job.files], backups, job.action)


def _judge_staged(job: Job) -> None:
    os.makedirs(RUN_DIR, mode=0o755, exist_ok=True)
    stage = tempfile.mkdtemp(prefix="stage-", dir=RUN_DIR)  # 0700: may hold credentials
    try:
        for name, text in job.stage.items():
            write_text(os.path.join(stage, name), text.replace("{stage}", stage), mode=0o600)
        result = run([word.replace("{stage}", stage) for word in job.validate], timeout=job.timeout)
        if result.state == "missing" or not result.success:
            said = (result.err.strip() or result.out.strip() or result.state)[-800:].replace(stage, "")
            raise HostError(f"{job.engine} refuses the new configuration, nothing was written: {said}")
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _unchanged(job: Job) -> None:
    """Between reading and writing lies a round trip: what somebody wrote meanwhile must not be lost."""
    for file in job.files:
        if (sha256(file["path"]) or "") != file["seen"]:
            raise HostError(f"{file['path']} was changed by somebody else while this run was deciding; nothing was written, run again")


def _judge_dump(job: Job) -> None:
    if job.dump:
        result = run(job.dump, timeout=job.timeout)
        if not result.success:
            raise HostError(f"{' '.join(job.dump)} fails with the new files: {(result.err.strip() or result.state)[-800:]}")


def _systemctl(job: Job, *words: str, timeout: float = 30.0) -> t.Any:
    user = ["--user", f"--machine={job.user}@.host"] if job.user else []
    return run(["systemctl", *user, *words], timeout=timeout)


def _act(job: Job) -> None:
    if job.action == "none":
        return
    result = _systemctl(job, job.action, job.unit, timeout=job.timeout)
    if not result.success:
        raise HostError(f"systemctl {job.action} {job.unit} failed: {(result.err.strip() or result.state)[-300:]}{_last_words(job)}")
    deadline = time.monotonic() + job.timeout
    while not _answers(job):
        if time.monotonic() > deadline:
            raise HostError(f"{job.unit} did not come up within {job.timeout:.0f} s after a {job.action}{_last_words(job)}")
        time.sleep(0.2)


def _answers(job: Job) -> bool:
    if _systemctl(job, "is-active", "--quiet", job.unit).rc != 0:
        return False
    return job.engine != "docker" or docker_info(path=docker_socket(job.user)) is not None


def _last_words(job: Job) -> str:
    whose = [f"_UID={pwd.getpwnam(job.user).pw_uid}"] if job.user else ["-u", job.unit]
    result = run(["journalctl", *whose, "-n", "6", "-o", "cat", "--no-pager"], timeout=10)
    return f"; its last lines: {result.out.strip()[-800:]}" if result.out.strip() else ""


def _saved(path: str) -> t.Optional[str]:
    """As it is, line ends included."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as source:
            return source.read()
    except FileNotFoundError:
        return None


def _back_up(path: str) -> t.Optional[str]:
    """A copy out of reach of the engine: one beside the file could be imported by it."""
    real = os.path.realpath(path)
    text = _saved(real)
    if text is None:
        return None
    name = path.strip("/").replace("/", "_")
    target = f"{BACKUPS}/{name}.{time.strftime('%Y%m%dT%H%M%S')}"
    write_text(target, text, mode=0o600, dir_mode=0o700)
    old = sorted(entry for entry in os.listdir(BACKUPS) if entry.startswith(name + "."))[:-KEEP]
    for entry in old:
        os.unlink(f"{BACKUPS}/{entry}")
    return target


def _write(path: str, text: t.Optional[str], user: str) -> None:
    real = os.path.realpath(path)  # a link stays a link
    if text is None:
        if os.path.lexists(real):
            os.unlink(real)
        return
    try:
        found = os.stat(real)
        mode, owner = found.st_mode & 0o7777, (found.st_uid, found.st_gid)
    except FileNotFoundError:
        entry = pwd.getpwnam(user) if user else None
        mode, owner = 0o644, (entry.pw_uid, entry.pw_gid) if entry else (0, 0)
        _own_folders(os.path.dirname(real), owner)
    write_text(real, text, mode=mode)
    os.chown(real, *owner)


def _own_folders(folder: str, owner: tuple[int, int]) -> None:
    if not os.path.isdir(folder):
        _own_folders(os.path.dirname(folder), owner)
        os.mkdir(folder, 0o755)
        os.chown(folder, *owner)


def _put_back(job: Job, saved: t.Mapping[str, t.Optional[str]]) -> None:
    for path, text in saved.items():
        _write(path, text, job.user)
    if job.cdi_switch == "on":
        _remember_switch(job, False)
    if job.action == "none":
        return
    _systemctl(job, "reset-failed", job.unit)
    _systemctl(job, "restart" if not _answers(job) else job.action, job.unit, timeout=job.timeout)


def _remember_switch(job: Job, ours: bool) -> None:
    try:
        known = set(json.loads(read_text(DOCKER_CDI_SWITCHED) or "{}").get("files") or ())
    except (ValueError, AttributeError):
        known = set()
    paths = {file["path"] for file in job.files}
    files = sorted(known | paths if ours else known - paths)
    if files:
        write_text(DOCKER_CDI_SWITCHED, json.dumps({"files": files}) + "\n")
    elif os.path.exists(DOCKER_CDI_SWITCHED):
        os.unlink(DOCKER_CDI_SWITCHED)


def _record(job: Job) -> None:
    """With which files this start of the engine was made: what a later run compares with."""
    unit = show_units([job.unit]).get(job.unit, {})
    try:
        known = json.loads(read_text(ENGINES_RECORD) or "{}")
    except ValueError:
        known = {}
    known[job.engine] = {"invocation": unit.get("InvocationID", ""), "at": time.time()}
    write_text(ENGINES_RECORD, json.dumps(known, sort_keys=True) + "\n")
