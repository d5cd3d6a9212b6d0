# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""apt and dpkg as bounded commands that ask nothing and restart nothing. Private to the collection.

Another package manager gets its own file with the same methods (versions, simulate, download, install, hold …).
"""

from __future__ import annotations

import os
import re
import time
import typing as t

from ._apt_files import NO_SOURCES, exclude, from_archives, names_of, parse_uris, room_for
from ._apt_locks import holder
from ._package_answers import PackageError, Simulation
from ._subprocess import Result, run

ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "DEBIAN_PRIORITY": "critical",
    "APT_LISTCHANGES_FRONTEND": "none",
    "NEEDRESTART_SUSPEND": "1",
    "UCF_FORCE_CONFFOLD": "1",
}
OPTIONS = ("-y", "-q", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold")
LOCK_TIMEOUT = 120
"""Seconds that another apt or dpkg may hold a lock; apt-get itself waits for dpkg's, not for that of the lists."""
UPDATE_WAIT = 5
UPDATE_BOUND = 300
# A server that answers slowly or not at all: apt's own bound is a multiple of this (one per address and attempt).
PATIENCE = ("-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::https::Timeout=20")

_INST = re.compile(r"^Inst (\S+) (?:\[(\S+)\] )?\((\S+)", re.MULTILINE)
_REMV = re.compile(r"^(?:Remv|Purg) (\S+)", re.MULTILINE)
_DEPENDS = re.compile(r"\s*([a-z0-9][a-z0-9+.-]*)(?::\w+)?(?:\s*\((?:>=|=)\s*([^)]+)\))?")
_CAUSES = (
    ("locked", re.compile(r"Could not get lock|Unable to lock|is held by process|frontend lock")),
    # Before what follows: a disk that was full while dpkg unpacked is a transaction that has begun.
    ("dpkg_failed", re.compile(r"Sub-process \S*dpkg returned an error|dpkg: error|dpkg was interrupted")),
    ("disk_full", re.compile(r"No space left on device|don't have enough free space")),
    (
        "repository_signature",
        re.compile(
            r"NO_PUBKEY|BADSIG|EXPKEYSIG|is not signed|signatures? (?:couldn't be verified|were invalid)|sqv returned an error|NOSPLIT"
        ),
    ),
    ("repository_inconsistent", re.compile(r"Hash Sum mismatch|unexpected size|Mirror sync in progress")),
    ("repository_unreachable", re.compile(r"\b404\b|Failed to fetch|Could not (?:connect|resolve)|does not have a Release file")),
    ("unresolvable", re.compile(r"unmet dependencies|held broken packages|Unable to locate package|was not found|No packages found")),
)


class Apt:
    """One host's apt; `timeout` bounds a transaction, `lock_timeout` the wait for another package manager."""

    def __init__(self, timeout: float, lock_timeout: int = LOCK_TIMEOUT) -> None:
        self.timeout = timeout
        self.lock_timeout = lock_timeout
        self._lock = ("-o", f"DPkg::Lock::Timeout={lock_timeout}")

    def versions(self, names: t.Sequence[str]) -> dict[str, list[tuple[str, str]]]:
        """name → [(version, where from)], newest first; names that nothing offers are missing."""
        out: dict[str, list[tuple[str, str]]] = {}
        if not names:
            return out
        for line in run(["apt-cache", "madison", *names], timeout=60, env=ENVIRONMENT).out.splitlines():
            fields = [field.strip() for field in line.split("|")]
            if len(fields) == 3:
                out.setdefault(fields[0], []).append((fields[1], fields[2]))
        return out

    def depends(self, specs: t.Mapping[str, str]) -> dict[str, list[list[str]]]:
        """name → its dependencies in that version, each a list of alternatives (names)."""
        return {name: [[one for one, _bound in group] for group in groups] for name, groups in self._dependencies(specs).items()}

    def lower_bounds(self, specs: t.Mapping[str, str]) -> dict[str, dict[str, str]]:
        """name → {dependency: lowest version that it accepts, '' for any}; of alternatives the first."""
        return {name: {group[0][0]: group[0][1] for group in groups} for name, groups in self._dependencies(specs).items()}

    def _dependencies(self, specs: t.Mapping[str, str]) -> dict[str, list[list[tuple[str, str]]]]:
        out: dict[str, list[list[tuple[str, str]]]] = {}
        if not specs:
            return out
        result = run(["apt-cache", "show", *(f"{name}={version}" for name, version in sorted(specs.items()))], timeout=60, env=ENVIRONMENT)
        for stanza in result.out.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line and line[0] != " ")
            groups = [group for key in ("Pre-Depends", "Depends") for group in fields.get(key, "").split(",") if group.strip()]
            if fields.get("Package"):
                out[fields["Package"]] = [[_dependency(one) for one in group.split("|")] for group in groups]
        return out

    def installed(self) -> dict[str, tuple[str, str]]:
        """name → (version, status) of everything dpkg knows and has at least unpacked."""
        result = run(["dpkg-query", "-W", "-f", "${Package}\\t${Version}\\t${db:Status-Status}\\n"], timeout=60)
        rows = (line.split("\t") for line in result.out.splitlines())
        return {row[0]: (row[1], row[2]) for row in rows if len(row) == 3 and row[1] and row[2] not in ("config-files", "not-installed")}

    def holds(self) -> set[str]:
        return set(run(["apt-mark", "showhold"], timeout=60, env=ENVIRONMENT).out.split())

    def check_holds(self, check: bool = False) -> tuple[str, ...]:
        """Nothing can be missing: holds are dpkg's own."""
        return ()

    def set_holds(self, add: t.Iterable[str] = (), remove: t.Iterable[str] = ()) -> None:
        for verb, names in (("hold", sorted(add)), ("unhold", sorted(remove))):
            if names:
                self._checked(run(["apt-mark", verb, *names], timeout=60, env=ENVIRONMENT), f"apt-mark {verb} {' '.join(names)}")

    def simulate(self, specs: t.Sequence[str], downgrade: bool = False) -> Simulation:
        return self._simulation(run(["apt-get", "-s", *self._install(specs, downgrade)], timeout=120, env=ENVIRONMENT))

    def _simulation(self, result: Result) -> Simulation:
        error = "" if result.success else f"{_unmet(result.out)}{_tail(result)}"
        return Simulation({m[0]: m[2] for m in _INST.findall(result.out)}, _REMV.findall(result.out), error)

    def update(self, parts: t.Optional[str] = None) -> None:
        """Fetch the package lists of the sources in folder `parts` alone, or of all."""
        only = (
            ["-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={parts}", "-o", "APT::Get::List-Cleanup=0"]
            if parts
            else []
        )
        command = ["apt-get", "-q", *self._lock, *only, *PATIENCE, "update", *(["--error-on=any"] if parts else [])]
        waited = 0
        while True:
            try:
                self._fetched(run(command, timeout=UPDATE_BOUND, env=ENVIRONMENT), "apt-get update")
            except PackageError as exc:
                if exc.reason != "locked" or waited + UPDATE_WAIT > self.lock_timeout:
                    raise
                time.sleep(UPDATE_WAIT)
                waited += UPDATE_WAIT
            else:
                return

    def download(self, specs: t.Sequence[str], downgrade: bool) -> None:
        command = ["apt-get", *self._lock, *self._install(specs, downgrade), "--download-only", *PATIENCE]
        self._fetched(run(command, timeout=self.timeout, env=ENVIRONMENT), "download of the packages")

    def install(self, specs: t.Sequence[str], downgrade: bool) -> None:
        """One transaction over packages that were downloaded before."""
        command = ["apt-get", *self._lock, *self._install(specs, downgrade)]
        self._checked(run(command, timeout=self.timeout, env=ENVIRONMENT), "the package transaction")

    def download_size(self, specs: t.Sequence[str], downgrade: bool) -> t.Optional[int]:
        """Bytes that a transaction would fetch; None where apt cannot tell."""
        result = run(["apt-get", *self._install(specs, downgrade), "--print-uris", "--download-only"], timeout=120, env=ENVIRONMENT)
        return sum(one.size for one in parse_uris(result.out)) if result.success else None

    def fetch_files(self, specs: t.Mapping[str, str], folder: str) -> dict[str, str]:
        """name → path of the exact package files, put into `folder`; nothing is installed."""
        command = ["apt-get", "-q", *PATIENCE, "download", *(f"{name}={version}" for name, version in sorted(specs.items()))]
        listed = run([*command, "--print-uris"], timeout=120, env=ENVIRONMENT)
        self._checked(listed, "search for the package files")
        files = names_of(listed, specs)
        room_for(sum(one.size for one in files), folder)
        os.makedirs(folder, mode=0o755, exist_ok=True)
        if from_archives(files, folder):
            self._fetched(run(["env", "-C", folder, *command], timeout=self.timeout, env=ENVIRONMENT), "download of the package files")
        return {one.name: f"{folder}/{one.file}" for one in files}

    def install_files(self, paths: t.Sequence[str], downgrade: bool, remove: t.Sequence[str] = (), simulate: bool = False) -> Simulation:
        """One transaction from local files alone: no repository is asked. `remove` leaves in the same transaction."""
        # Half of an interrupted transaction may be there: -f lets apt begin from broken dependencies, and a package whose files are half
        # written has the right version already.
        specs = ["-f", "--reinstall", *paths, *(f"{name}-" for name in remove)]
        command = ["apt-get", *(["-s"] if simulate else self._lock), *NO_SOURCES, *self._install(specs, downgrade)]
        result = run(command, timeout=self.timeout, env=ENVIRONMENT)
        if not simulate:
            self._checked(result, "the package transaction")
        return self._simulation(result)

    def exclude(self, names: t.Iterable[str]) -> bool:
        """Keep automatic upgrades away from these packages, and from no others on our account; whether that changed a file."""
        return exclude(names)

    def remove(self, names: t.Sequence[str], simulate: bool = False) -> Simulation:
        command = ["apt-get", *self._lock, *(["-s"] if simulate else []), *OPTIONS, "--allow-change-held-packages", "purge", *names]
        result = run(command, timeout=self.timeout, env=ENVIRONMENT)
        self._checked(result, f"removal of {' '.join(names)}")
        return Simulation({}, _REMV.findall(result.out), "")

    def unneeded(self) -> list[str]:
        """Packages that came as dependencies and that nothing needs any more."""
        return _REMV.findall(run(["apt-get", "-s", *OPTIONS, "autoremove"], timeout=120, env=ENVIRONMENT).out)

    def configure(self) -> str:
        """Finish an interrupted transaction; empty, or what still fails."""
        result = run(["dpkg", "--force-confdef", "--force-confold", "--configure", "-a"], timeout=self.timeout, env=ENVIRONMENT)
        return "" if result.success else _tail(result)

    def _install(self, specs: t.Sequence[str], downgrade: bool) -> list[str]:
        # Holds are checked by the caller: ours may move, and dpkg keeps the hold over the change. What leaves is purged: the configuration
        # file of a pinning package, left behind, would go on choosing its branch.
        allow = ["--allow-change-held-packages", "--purge", *(["--allow-downgrades"] if downgrade else [])]
        return [*OPTIONS, *allow, "install", *specs]

    def _fetched(self, result: Result, what: str) -> None:
        if result.state == "timeout":
            # Nothing was changed, unlike after a transaction that ran out of time.
            raise PackageError("repository_unreachable", f"{what} was given up: the repository is too slow. {_tail(result)}")
        self._checked(result, what)

    def _checked(self, result: Result, what: str) -> None:
        if result.success:
            return
        if result.state != "ok":
            raise PackageError(result.state, f"{what} did not end: {result.state}. {_tail(result)}")
        if result.rc < 0:
            raise PackageError("killed", f"{what} was killed by signal {-result.rc}; the next run finishes it")
        text = result.err + "\n" + result.out
        reason = next((name for name, pattern in _CAUSES if pattern.search(text)), "failed")
        who = holder() if reason == "locked" else ""
        raise PackageError(reason, f"{what} failed: {_tail(result)}{f' It is {who}.' if who else ''}")


def _unmet(text: str) -> str:
    """apt's list of unmet dependencies, on one line."""
    _head, found, rest = text.partition("The following packages have unmet dependencies:")
    lines = [" ".join(line.split()) for line in rest.splitlines() if line.startswith(" ")]
    return "; ".join(lines[:8]) + ". " if found and lines else ""


def _dependency(text: str) -> tuple[str, str]:
    """name (>= 1.2) → name and lowest version."""
    found = _DEPENDS.match(text)
    return (found[1], found[2] or "") if found else (text.strip(), "")


def _tail(result: Result) -> str:
    """The lines that say why: apt's E: and W:, else the last ones."""
    lines = [line for line in (result.err + "\n" + result.out).splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("E:", "W:", "Err:", "dpkg: error"))]
    return " / ".join((telling or lines)[-6:])
