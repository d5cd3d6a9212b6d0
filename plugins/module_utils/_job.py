# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Long work of ours in a named transient unit, which outlives the connection and which the next run attaches to. Private to the collection.

A sort of work is a Kind and a module_util with

    def work(job: dict, secrets: dict, progress: Callable[[dict], None]) -> dict      # the result; WorkError says why not

A module has the steps `plan`, `start` and `poll` (its option `step`), which its action takes in turn (plugin_utils/_job_action):

    job = Job(KIND, name)
    job.start({…}, secrets={…})   # True: begun here; False: the same work goes on already; other work of this name: WorkError `busy`
    job.status()                  # {state: running, progress} | {state: done, result} | {state: failed, reason, text, details}
    job.forget()

/run/gpufleet/jobs/UNIT.job.json       what to do; mode 0600
/run/gpufleet/jobs/UNIT.secrets.json   mode 0600, removed when the work ends
/run/gpufleet/jobs/UNIT.status.json    how far it is, or how it ended
"""

from __future__ import annotations

import json
import os
import sys
import typing as t

from . import _job_main
from ._carried import closure, install
from ._errors import HostError, WorkError
from ._files import read_text, remove, write_text
from ._paths import RUN_DIR
from ._transient import alive, launch

FOLDER = RUN_DIR + "/jobs"


class Kind(t.NamedTuple):
    """A sort of work."""

    prefix: str
    """The unit is PREFIX-NAME.service."""
    package: str
    """Folder below /opt/gpufleet/lib that its code lies in, one of its own."""
    work: str
    """Name of the module_util that has `work`."""
    also: tuple[str, ...] = ()
    """Further module_utils that lie in the package, with what they import."""
    nice: int = 5
    umask: str = "0022"
    delegate: bool = False
    """Whether the work may divide the unit's control group, as `podman run --cgroups split` does."""

    def files(self, read: t.Optional[t.Callable[[str], bytes]] = None) -> dict[str, bytes]:
        """File name → content of the package."""
        names = (_job_main.__name__.rpartition(".")[2], self.work, *self.also)  # imported, so that it is in the module's archive
        main = (
            f'"""Entry of the {self.prefix}-* units."""\n\n'
            f"from ._job_main import main\nfrom .{self.work} import work\n\nraise SystemExit(main(work))\n"
        )
        return {"__init__.py": b"", "__main__.py": main.encode(), **(closure(names, read) if read else closure(names))}


class Job:
    """One piece of work, by name."""

    def __init__(self, kind: Kind, name: str, folder: str = FOLDER) -> None:
        self.kind, self.unit = kind, f"{kind.prefix}-{name}.service"
        base = f"{folder}/{kind.prefix}-{name}"
        self._job, self._secrets, self._status = f"{base}.job.json", f"{base}.secrets.json", f"{base}.status.json"

    def running(self) -> bool:
        return alive(self.unit)

    def start(self, job: t.Mapping[str, t.Any], secrets: t.Optional[t.Mapping[str, str]] = None, title: str = "") -> bool:
        """Begin, or attach to the same work that goes on; True if it was begun here."""
        text = json.dumps(dict(job), sort_keys=True)
        if self.running():
            if read_text(self._job) == text:
                return False
            raise WorkError("busy", f"{self.unit} is at work on something else of this name; wait for it, or: systemctl stop {self.unit}")
        code = install(self.kind.package, self.kind.files())
        write_text(self._job, text, mode=0o600, dir_mode=0o700)
        write_text(self._secrets, json.dumps(dict(secrets or {})), mode=0o600)
        remove(self._status)
        properties = {"Type": "exec", "Nice": str(self.kind.nice), "UMask": self.kind.umask, "WorkingDirectory": os.path.dirname(code)}
        if self.kind.delegate:
            properties["Delegate"] = "yes"
        command = [sys.executable, "-s", "-B", "-m", self.kind.package, self._job, self._secrets, self._status]
        try:
            launch(self.unit, command, f"gpufleet.inference: {title or self.unit}", properties)
        except HostError:
            remove(self._secrets)
            raise
        return True

    def same(self, job: t.Mapping[str, t.Any]) -> bool:
        """Whether this very work goes on."""
        return self.running() and read_text(self._job) == json.dumps(dict(job), sort_keys=True)

    def status(self) -> dict[str, t.Any]:
        """`state` is running | done | failed, with progress, result, or reason, text and details."""
        active = self.running()  # before the file: a unit that ends in between has written it
        text = read_text(self._status)
        status = json.loads(text) if text else {"state": "running", "progress": {}}
        if status["state"] == "running" and not active:
            words = f"{self.unit} ended without a result; see journalctl -u {self.unit}"
            return {"state": "failed", "reason": "killed", "text": words, "details": {}}
        return t.cast("dict[str, t.Any]", status)

    def forget(self) -> None:
        for path in (self._job, self._secrets, self._status):
            remove(path)
