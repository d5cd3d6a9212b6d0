# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a lock to a venv that an engine runs in. Private to the collection.

`plan` only reads. `work` runs in a unit of its own (see _job): whatever fails or is killed leaves the builds that are there as they were.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import time
import typing as t

from . import _runtime_installer as installer
from ._errors import WorkError
from ._files import write_text
from ._paths import RUN_DIR
from ._runtime_layout import Layout, prune, remove, stamp, user_of, write_stamp
from ._runtime_python import Python, find
from ._subprocess import run

Job = t.Mapping[str, t.Any]
_EVERY = 2.0
"""Seconds between two words about how far it is."""
_VERIFY = 600.0
"""Seconds that an engine may take to say its version: it imports torch, on a cold disk."""
_ASK = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"


def identity(job: Job, python: Python) -> str:
    """What makes two builds of a version different: the lock and Python's minor, which wheels are made for."""
    words = {"lock": job["lock_sha256"], "python": python.version.rpartition(".")[0], "distribution": job["distribution"]}
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()


def plan(job: Job) -> dict[str, t.Any]:
    """`changes` is empty where the venv is whole and in place; `path` is the build's own folder."""
    python = find(job["python"], job["python_requires"])
    layout = Layout(job["root"], job["engine"], job["version"], identity(job, python))
    changes = []
    if stamp(layout.build) is None:
        check_space(job["root"], job["size"], job["reserve"])
        changes.append("build")
    if layout.in_use() != layout.build:
        changes.append("link")
    return {"changes": changes, "path": layout.build, "link": layout.link, "python": python._asdict(), "needs_uv": _needs_uv(job, changes)}


def work(job: Job, secrets: t.Mapping[str, str], progress: t.Callable[[dict[str, t.Any]], None]) -> dict[str, t.Any]:
    python = find(job["python"], job["python_requires"])
    layout = Layout(job["root"], job["engine"], job["version"], identity(job, python))
    if stamp(layout.build) is None:
        check_space(job["root"], job["size"], job["reserve"])
        remove(layout.build)  # what a killed build left
        private = os.path.join(RUN_DIR, "runtime", os.path.basename(layout.build))
        shutil.rmtree(private, ignore_errors=True)
        try:
            _build(job, layout, python, private, secrets.get("index_password", ""), progress)
        except BaseException:
            remove(layout.build)
            raise
        finally:
            shutil.rmtree(private, ignore_errors=True)
        shutil.rmtree(layout.cache, ignore_errors=True)
    previous = layout.in_use()
    layout.switch()
    return {"path": layout.build, "link": layout.link, "previous": previous, "pruned": prune(layout, job["keep"])}


def absent(job: Job, check: bool) -> dict[str, t.Any]:
    """All builds of a version, if no instance is defined with one of them."""
    layout = Layout(job["root"], job["engine"], job["version"], "")
    builds = [os.path.join(layout.builds, name) for name in _listed(layout.builds) if name.rpartition("-")[0] == job["version"]]
    user = user_of(layout.link, *builds)
    if user:
        raise WorkError("in_use", f"{user} names it; remove that instance first, or give it another version")
    there = bool(builds) or os.path.islink(layout.link)
    if there and not check:
        if os.path.islink(layout.link):
            os.unlink(layout.link)
        for build in builds:
            remove(build)
        shutil.rmtree(layout.cache, ignore_errors=True)
    return {"changed": there, "path": "", "link": layout.link}


def check_space(root: str, size: int, reserve: int) -> None:
    """Before the first byte: a build that fills the disk takes the host's services with it."""
    there = root
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    free = shutil.disk_usage(there).free
    if free < size + reserve:
        needed = f"{_gib(size)} are to come (size) and {_gib(reserve)} shall stay free (reserve)"
        raise WorkError("disk_full", f"{there} has {_gib(free)} free; {needed}: {_gib(size + reserve - free)} short")


def _build(job: Job, layout: Layout, python: Python, private: str, password: str, progress: t.Callable[[dict[str, t.Any]], None]) -> None:
    uv = "" if job["installer"] == "pip" else installer.uv_program()
    if job["installer"] == "uv" and not uv:
        raise WorkError("no_installer", "installer is uv, which is not on this host; give its wheel by uv_wheel")
    _make(layout.build, python, bool(uv))
    lock = os.path.join(private, "requirements.txt")
    write_text(lock, job["lock"], mode=0o600, dir_mode=0o700)
    sources = installer.Sources(job["index_url"], job["extra_index_urls"], job["find_links"], job["index_username"], job["cert"])
    env = installer.environment(bool(uv), sources, layout.cache, private, password)
    with _Watch(layout.build, job["lock"].count("\n"), progress):
        installer.install(installer.command(uv, layout.build, lock, bool(job["index_url"])), env, job["build_timeout"], sources, password)
    progress({"phase": "asking the engine for its version"})
    version = verify(job, layout.build)
    content = {key: job[key] for key in ("engine", "version", "distribution", "lock_sha256")}
    content.update(
        python=python._asdict(), installer="uv" if uv else "pip", packages=job["lock"].count("\n"), says=version, built=time.time()
    )
    write_stamp(layout.build, content)


def verify(job: Job, build: str) -> str:
    """The engine's own word: its distribution is there at this version, and its program starts."""
    asked = run([os.path.join(build, "bin", "python"), "-I", "-c", _ASK, job["distribution"]], timeout=60)
    if asked.out.strip() != job["version"]:
        found = asked.out.strip() or f"nothing ({_last(asked.err)})"
        raise WorkError("broken", f"{job['distribution']} in the new venv is {found}, expected {job['version']}")
    if not job["verify"]:
        return job["version"]
    program, *rest = job["verify"]
    # The host's GPUs are none of its business: another engine may have all of their memory.
    result = run([os.path.join(build, "bin", program), *rest], timeout=_VERIFY, env={"CUDA_VISIBLE_DEVICES": "", "HOME": build + "/.home"})
    shutil.rmtree(build + "/.home", ignore_errors=True)
    if not result.success:
        said = _last(result.err) or _last(result.out) or f"exit status {result.rc}"
        raise WorkError(
            "broken", f"{' '.join(job['verify'])} does not work in the new venv: {result.state if result.state != 'ok' else said}"
        )
    return _last(result.out)[:200]


def _make(build: str, python: Python, uv: bool) -> None:
    """`without-pip` works also where a distribution keeps ensurepip in a package of its own."""
    os.makedirs(os.path.dirname(build), mode=0o755, exist_ok=True)
    result = run([python.path, "-m", "venv", *(["--without-pip"] if uv else []), build], timeout=300)
    if not result.success:
        hint = "" if uv else "; without uv the host needs ensurepip (Debian: python3-venv), or give uv's wheel by uv_wheel"
        raise WorkError("no_installer", f"{python.path} -m venv fails: {_last(result.err) or _last(result.out)}{hint}")


class _Watch:
    """Says how many packages are in the venv, while an installer that says nothing is at work."""

    def __init__(self, build: str, total: int, progress: t.Callable[[dict[str, t.Any]], None]) -> None:
        self._build, self._total, self._progress = build, total, progress
        self._over = threading.Event()
        self._started, self._free = time.time(), shutil.disk_usage(build).free
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *args: object) -> None:
        self._over.set()
        self._thread.join(_EVERY)

    def _loop(self) -> None:
        while not self._over.wait(_EVERY):
            self._progress(
                {
                    "phase": "installing" if self._done() else "fetching",
                    "packages_done": self._done(),
                    "packages_total": self._total,
                    "bytes_written": max(0, self._free - shutil.disk_usage(self._build).free),
                    "started": self._started,
                }
            )

    def _done(self) -> int:
        lib = os.path.join(self._build, "lib")
        folders = [os.path.join(lib, name, "site-packages") for name in _listed(lib)]
        return sum(name.endswith(".dist-info") for folder in folders for name in _listed(folder))


def _needs_uv(job: Job, changes: t.Sequence[str]) -> bool:
    return "build" in changes and job["installer"] != "pip" and not installer.uv_program()


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1].strip()[:300]


def _gib(amount: int) -> str:
    return f"{amount / 2**30:.1f} GiB"
