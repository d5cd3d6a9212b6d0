# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Long work in a transient systemd unit, which outlives the connection and which the next run attaches to. Private to the collection.

RUN/NAME.job.json      what to do; mode 0600, the token is another file that only root reads
RUN/NAME.status.json   how far it is, or how it ended
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import typing as t

from ._files import read_text, remove, write_text
from ._model_hub import ModelError
from ._paths import RUN_DIR
from ._subprocess import run

FOLDER = RUN_DIR + "/models"
CODE = "/opt/gpufleet/lib/gpufleet_models"
CARRIED = (
    "_errors",
    "_files",
    "_model_fetch",
    "_model_hub",
    "_model_job",
    "_model_layout",
    "_model_patch",
    "_model_verify",
    "_model_work",
    "_paths",
    "_state",
    "_subprocess",
    "_wait",
)
"""Names below plugins/module_utils that the unit runs, closed under import (tests/unit/model_store)."""
_MAIN = '"""Entry of the gpufleet-model-* units."""\n\nfrom ._model_job import main\n\nraise SystemExit(main())\n'


class Unit:
    """The unit of one model."""

    def __init__(self, name: str, folder: str = FOLDER) -> None:
        self.name = f"gpufleet-model-{name}.service"
        self._job = f"{folder}/{name}.job.json"
        self._token = f"{folder}/{name}.token"
        self._status = f"{folder}/{name}.status.json"

    def running(self) -> bool:
        return run(["systemctl", "is-active", "--quiet", self.name]).rc == 0

    def start(self, job: t.Mapping[str, t.Any], token: str, sources: t.Mapping[str, bytes]) -> bool:
        """Begin, or attach to the same work that goes on; True if it was begun here."""
        text = json.dumps(dict(job), sort_keys=True)
        if self.running():
            if read_text(self._job) == text:
                return False
            raise ModelError("busy", f"{self.name} is fetching something else for this model; wait for it, or: systemctl stop {self.name}")
        _install(sources)
        write_text(self._job, text, mode=0o600, dir_mode=0o700)
        if token:
            write_text(self._token, token, mode=0o600)
        else:
            remove(self._token)
        remove(self._status)
        command = ["systemd-run", "--collect", f"--unit={self.name}", "--property=Type=exec", "--property=Nice=5", "--property=UMask=0022"]
        command += [
            f"--property=Description=gpufleet.inference: model {job['name']}",
            f"--property=WorkingDirectory={os.path.dirname(CODE)}",
        ]
        result = run([*command, sys.executable, "-m", os.path.basename(CODE), self._job, self._token, self._status], timeout=30)
        if not result.success:
            raise ModelError("failed", f"systemd-run could not start {self.name}: {result.err.strip() or result.state}")
        return True

    def status(self) -> dict[str, t.Any]:
        """`state` is running | done | failed, with progress, result, or reason and text."""
        active = self.running()  # before the file: a unit that ends in between has written it
        text = read_text(self._status)
        status = json.loads(text) if text else {"state": "running", "progress": {}}
        if status["state"] == "running" and not active:
            return {"state": "failed", "reason": "killed", "text": f"{self.name} ended without a result; see journalctl -u {self.name}"}
        return t.cast("dict[str, t.Any]", status)

    def forget(self) -> None:
        for path in (self._job, self._token, self._status):
            remove(path)


def carried(read: t.Callable[[str], bytes]) -> dict[str, bytes]:
    """File name → content; `read` gives the source of one of CARRIED."""
    return {"__init__.py": b"", "__main__.py": _MAIN.encode(), **{f"{name}.py": read(name) for name in CARRIED}}


def _install(sources: t.Mapping[str, bytes]) -> None:
    """The code in a folder of its own, exchanged as a whole: a unit of another model may run from the old one."""
    mark = hashlib.sha256(b"".join(name.encode() + sources[name] for name in sorted(sources))).hexdigest()
    if read_text(f"{CODE}/.sha256") == mark:
        return
    fresh = CODE + ".new"
    shutil.rmtree(fresh, ignore_errors=True)
    for name, content in sources.items():
        write_text(f"{fresh}/{name}", content.decode())
    write_text(f"{fresh}/.sha256", mark)
    old = CODE + ".old"
    shutil.rmtree(old, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        os.rename(CODE, old)
    os.rename(fresh, CODE)
    shutil.rmtree(old, ignore_errors=True)


def main(argv: t.Optional[t.Sequence[str]] = None) -> int:
    """In the unit: JOB TOKEN STATUS."""
    from ._model_work import work  # the module itself needs none of it

    job_file, token_file, status_file = (argv or sys.argv[1:])[:3]

    def say(status: t.Mapping[str, t.Any]) -> None:
        write_text(status_file, json.dumps(status) + "\n")

    try:
        job = json.loads(read_text(job_file) or "{}")
        token = (read_text(token_file) or "").strip()
        say({"state": "running", "progress": {}})
        result = work(job, token, lambda progress: say({"state": "running", "progress": progress}))
    except ModelError as exc:
        say({"state": "failed", "reason": exc.reason, "text": str(exc)})
        return 1
    except Exception as exc:  # the only witness of what went wrong is this file
        say({"state": "failed", "reason": "failed", "text": f"{type(exc).__name__}: {exc}"})
        raise
    finally:
        remove(token_file)
    say({"state": "done", "result": result})
    return 0
