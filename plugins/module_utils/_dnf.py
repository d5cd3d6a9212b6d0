# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dnf and rpm with the methods of class Apt. Private to the collection.

Questions and transactions go to dnf's Python interface in a process of the system's own Python (_dnf_resolver.py): its answers are data,
and one transaction can install, remove and move down. While one runs, SYSTEMD_OFFLINE keeps scriptlets from services: presets are
applied to files, nothing is started, restarted or reloaded.
"""

from __future__ import annotations

import json
import os
import re
import typing as t

from . import _dnf_locks as locks
from . import _dnf_resolver
from ._dnf_session import Session
from ._files import read_text
from ._package_answers import PackageError, Simulation
from ._subprocess import Result, run

PYTHONS = ("/usr/libexec/platform-python", "/usr/bin/python3", "/usr/bin/python3.9")
QUESTION_TIMEOUT = 180.0
ENVIRONMENT = {"SYSTEMD_OFFLINE": "1", "NEEDRESTART_SUSPEND": "1", "HOME": "/root"}
_FORMAT = "%{NAME}\\t%{EPOCHNUM}\\t%{VERSION}-%{RELEASE}\\t%{ARCH}\\t%{INSTALLTIME}\\n"
_SEVERAL = re.compile(r"kernel(-|$)|gpg-pubkey$|kmod-nvidia-\d")
"""Packages that stand beside an older version of themselves on purpose."""


class Dnf:
    """One host's dnf; `timeout` bounds a transaction. `stream` is a module stream to enable in each transaction, NAME:STREAM."""

    title = "dnf"

    def __init__(self, timeout: float, stream: str = "") -> None:
        self.timeout = timeout
        self.stream = stream
        self._session: t.Optional[Session] = None

    def versions(self, names: t.Sequence[str]) -> dict[str, list[tuple[str, str]]]:
        """name → [(version, where from)], newest first; names that nothing offers are missing."""
        if not names:
            return {}
        found = self._ask("versions", names=list(names))
        return {name: [tuple(offer) for offer in offers] for name, offers in found.items()}

    def depends(self, specs: t.Mapping[str, str]) -> dict[str, list[list[str]]]:
        """name → its dependencies in that version, each a list of the packages that provide it."""
        return {name: [[one for one, _bound in group] for group in groups] for name, groups in self._requires(specs).items()}

    def lower_bounds(self, specs: t.Mapping[str, str]) -> dict[str, dict[str, str]]:
        """name → {dependency: lowest version that it accepts, '' for any}."""
        return {name: {group[0][0]: group[0][1] for group in groups} for name, groups in self._requires(specs).items()}

    def _requires(self, specs: t.Mapping[str, str]) -> dict[str, list[list[tuple[str, str]]]]:
        return t.cast("dict[str, list[list[tuple[str, str]]]]", self._ask("requires", specs=dict(specs))) if specs else {}

    def installed(self) -> dict[str, tuple[str, str]]:
        """name → (version, status); `duplicate` is what a killed update left in two versions."""
        result = run(["rpm", "-qa", "--qf", _FORMAT], timeout=60, env=ENVIRONMENT)
        if not result.success:
            raise PackageError("dpkg_failed", f"rpm does not read its database: {result.err.strip() or result.state}")
        found: dict[str, tuple[str, str]] = {}
        seen: set[tuple[str, str]] = set()
        rows = [row for row in (line.split("\t") for line in result.out.splitlines()) if len(row) == 5]
        for name, epoch, version, arch, _when in sorted(rows, key=lambda row: int(row[4]) if row[4].isdigit() else 0):
            twice = (name, arch) in seen and not _SEVERAL.match(name)
            seen.add((name, arch))
            found[name] = (version if epoch == "0" else f"{epoch}:{version}", "duplicate" if twice else "installed")
        return found

    def holds(self) -> set[str]:
        """Locked names. A lock names a version: one that its package has left behind holds nothing, and `set_holds` writes it anew."""
        path = locks.list_file()
        if path is None:
            return set()
        there, lines = self.installed(), locks.locked(read_text(path) or "")
        return {name for name, line in lines.items() if name not in there or line.startswith(locks.entry(name, there[name][0])[:-1])}

    def check_holds(self, check: bool = False) -> tuple[str, ...]:
        """Before anything moves: what is to be held can be held. Packages that have to come along for it."""
        if locks.list_file() is not None:
            return ()
        # A plugin that is switched off is somebody's decision; one that is not there comes with the set.
        if read_text(locks.CONF) is None and self._offers(locks.PLUGIN, check):
            return (locks.PLUGIN,)
        text = f"dnf has no versionlock plugin here ({locks.CONF} is missing and no repository offers it, or it says enabled = 0)"
        raise PackageError("no_versionlock", f"{text}, so nothing can be held. Offer {locks.PLUGIN}, or do not ask for holds")

    def _offers(self, name: str, check: bool) -> bool:
        """Of the system's own repositories: the driver's may not be configured yet, and its module stream not known."""
        try:
            if self._ask("versions", names=[name], stream=""):
                return True
        except PackageError:  # no metadata yet
            if check:
                return True  # cannot be told without fetching it; the run will
        if check:
            return False
        self._ask("update", reposdir="", stream="", timeout=300.0)
        return bool(self._ask("versions", names=[name], stream=""))

    def set_holds(self, add: t.Iterable[str] = (), remove: t.Iterable[str] = ()) -> None:
        add, remove = set(add), set(remove)
        path = locks.list_file()
        if path is None:
            missing = list(self.check_holds()) if add else []
            if missing:
                self.download(missing, False)
                self.install(missing, False)
            path = locks.list_file()
            if path is None:
                return
        there = self.installed() if add else {}
        locks.write(path, locks.changed(read_text(path) or "", remove, {name: there[name][0] for name in add if name in there}))

    def simulate(self, specs: t.Sequence[str], downgrade: bool = False) -> Simulation:
        try:
            return Simulation(**self._ask("solve", downgrade=downgrade, **_split(specs)))
        except PackageError as exc:
            if exc.reason != "unresolvable":
                raise
            return Simulation({}, [], str(exc))

    def update(self, parts: t.Optional[str] = None) -> None:
        """Fetch the metadata of the repositories in folder `parts` alone, or of all."""
        self._ask("update", reposdir=parts or "", timeout=300.0)

    def download(self, specs: t.Sequence[str], downgrade: bool) -> None:
        self._ask("solve", downgrade=downgrade, download=True, fresh=True, timeout=self.timeout, **_split(specs))

    def install(self, specs: t.Sequence[str], downgrade: bool) -> None:
        """One transaction over packages that were downloaded before."""
        self._ask("solve", downgrade=downgrade, run=True, fresh=True, timeout=self.timeout, **_split(specs))

    def remove(self, names: t.Sequence[str], simulate: bool = False) -> Simulation:
        more = {} if simulate else {"run": True}
        return Simulation(**self._ask("remove", names=list(names), timeout=self.timeout, **more))

    def unneeded(self) -> list[str]:
        """Packages that came as dependencies and that nothing needs any more."""
        return list(self._ask("unneeded")["names"])

    def configure(self) -> str:
        """Nothing: what a killed update left twice is put right by the transaction that goes on from there."""
        return ""

    def fetch_files(self, specs: t.Mapping[str, str], folder: str) -> dict[str, str]:
        """Download these exact packages into a folder; name → path of its file."""
        os.makedirs(folder, exist_ok=True)
        return dict(self._ask("fetch", specs=dict(specs), folder=folder, timeout=self.timeout)) if specs else {}

    def install_files(self, paths: t.Sequence[str], downgrade: bool, remove: t.Sequence[str] = (), simulate: bool = False) -> Simulation:
        """One transaction from these files alone; no repository is asked. `remove` leaves in the same transaction."""
        more = {} if simulate else {"run": True}
        try:
            request = {"paths": list(paths), "names": list(remove), "downgrade": downgrade, "erase": True, **more}
            return Simulation(**self._ask("local", timeout=self.timeout, **request))
        except PackageError as exc:
            if not simulate or exc.reason != "unresolvable":
                raise
            return Simulation({}, [], str(exc))

    def download_size(self, specs: t.Sequence[str], downgrade: bool) -> t.Optional[int]:
        """Not known before dnf fetches."""
        return None

    def exclude(self, names: t.Iterable[str]) -> bool:
        """Nothing to do: dnf-automatic respects version locks, as every dnf does."""
        return False

    def _ask(self, what: str, timeout: float = QUESTION_TIMEOUT, **more: t.Any) -> t.Any:
        request = {"do": what, "stream": self.stream, **more}
        asks = what in ("versions", "requires") or (what == "solve" and not (more.get("run") or more.get("download")))
        for python in (python for python in PYTHONS if os.path.exists(python)):
            result = self._question(python, request, timeout) if asks else self._work(python, request, timeout)
            if result.state != "ok":
                raise PackageError(result.state, f"dnf ({what}) did not end: {result.state}")
            if result.rc < 0:
                raise PackageError("killed", f"dnf ({what}) was killed by signal {-result.rc}; the next run finishes it")
            line = next((one for one in reversed(result.out.splitlines()) if one.startswith(_dnf_resolver.MARK)), None)
            if line is not None:
                return _judge(json.loads(line[len(_dnf_resolver.MARK) :]), what)
            if result.rc != _dnf_resolver.NO_DNF:
                raise PackageError("failed", f"dnf ({what}) gave no answer: {' / '.join(result.err.splitlines()[-4:])}")
        raise PackageError("no_dnf", "no Python of this host has dnf's interface (package python3-dnf; dnf 5 is not supported)")

    def _question(self, python: str, request: t.Mapping[str, t.Any], timeout: float) -> Result:
        """By a process that keeps what it has read, until something changes."""
        if self._session is None:
            self._session = Session([python, "-c", _source(), "serve"], ENVIRONMENT)
        result = self._session.ask(json.dumps(request), _dnf_resolver.MARK, timeout)
        if not result.out:
            self._session = None
        return result

    def _work(self, python: str, request: t.Mapping[str, t.Any], timeout: float) -> Result:
        if self._session is not None:
            self._session.close()
            self._session = None
        return run([python, "-c", _source(), json.dumps(request)], timeout=timeout, env=ENVIRONMENT)


def _source() -> str:
    loader = t.cast(t.Any, _dnf_resolver.__loader__)
    return str(loader.get_source(_dnf_resolver.__name__))


def _judge(answer: t.Mapping[str, t.Any], what: str) -> t.Any:
    if "ok" in answer:
        return answer["ok"]
    raise PackageError(str(answer["reason"]), f"dnf ({what}): {' / '.join(str(answer['text']).split(chr(10))[:8])}")


def _split(specs: t.Sequence[str]) -> dict[str, t.Any]:
    """name=version, name, name- (remove), as the resolvers write them; `--purge` is a word of apt's."""
    words = [spec for spec in specs if not spec.startswith("--")]
    erase = [spec[:-1] for spec in words if spec.endswith("-") and "=" not in spec]
    install = dict(spec.partition("=")[::2] for spec in words if not (spec.endswith("-") and "=" not in spec))
    return {"install": install, "erase": erase}
