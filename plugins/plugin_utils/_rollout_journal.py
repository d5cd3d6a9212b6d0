# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Journal of a rollout: an append-only list of lines, and what follows from it. Pure; private to the collection.

One JSON object a line: {schema, run, host, phase, at, note}. A rollout that was killed is what its journal says, and nothing else.
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass

SCHEMA = 1
PHASES: dict[str, tuple[str, ...]] = {
    "planned": ("gated",),
    "gated": ("draining", "failed"),
    "draining": ("drained", "returning", "failed"),
    "drained": ("converging", "returning", "failed"),
    "converging": ("verifying", "rebooting", "rolling_back", "failed"),
    "rebooting": ("verifying", "rolling_back", "failed"),
    "verifying": ("starting", "rolling_back", "failed"),
    "starting": ("judging", "rolling_back", "failed"),
    "judging": ("returning", "rolling_back", "failed"),
    "returning": ("done", "failed"),
    "rolling_back": ("rolled_back", "failed"),
    "rolled_back": ("failed",),
    "done": (),
    "failed": (),
}
"""Phase → phases that may follow. Whatever is in `failed` stays drained; a host that was rolled back has failed in the end too."""
ENDS = ("done", "failed")
UNTOUCHED = ("planned", "gated")
CHANGED = ("converging", "rebooting", "verifying", "starting", "judging", "rolling_back", "rolled_back")
"""Phases in which the host may be neither as before nor as asked."""
Recovery = t.Literal["start", "undrain", "resume", "roll_back", "fail", "nothing"]


class JournalError(ValueError):
    """A journal that cannot be believed; the text names the line."""


@dataclass(frozen=True)
class Entry:
    run: str
    host: str
    phase: str
    at: str
    note: str = ""

    def line(self) -> str:
        return json.dumps({"schema": SCHEMA, **vars(self)}, sort_keys=True) + "\n"


def read(text: str) -> list[Entry]:
    """Entries in order. A last line without its end was being written when the run was killed, and did not happen."""
    entries: list[Entry] = []
    last: dict[tuple[str, str], str] = {}
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            data = json.loads(line)
            if data.pop("schema") != SCHEMA:
                raise JournalError(f"line {number} has another schema than {SCHEMA}; use the version that wrote it")
            entry = Entry(**{key: str(value) for key, value in data.items()})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, JournalError):
                raise
            raise JournalError(f"line {number} of the journal cannot be read: {error}") from error
        key = (entry.run, entry.host)
        problem = refused(last.get(key), entry.phase)
        if problem:
            raise JournalError(f"line {number} of the journal, {entry.host}: {problem}")
        last[key] = entry.phase
        entries.append(entry)
    return entries


def refused(before: str | None, phase: str) -> str:
    """Why a host must not go to `phase` now; empty if it may."""
    if phase not in PHASES:
        return f"{phase!r} is no phase; known are {', '.join(PHASES)}"
    allowed = ("planned",) if before is None else (*PHASES[before], before)
    return "" if phase in allowed else f"{before or 'nothing'} is followed by {' or '.join(allowed)}, not by {phase}"


def phases(entries: t.Iterable[Entry], run: str) -> dict[str, str]:
    """Host → its last phase in a run."""
    return {entry.host: entry.phase for entry in entries if entry.run == run}


def recovery(phase: str, reachable: bool, version: str) -> Recovery:
    """What a new play does with a host that a killed one left in `phase`. `version`: before | asked | other, what the host has now."""
    if phase in ENDS:
        return "nothing"
    if phase in UNTOUCHED:
        # Nothing was touched: an unreachable one counts when its turn comes.
        return "start"
    if not reachable or phase == "rolled_back":
        return "fail"
    if phase in ("draining", "drained"):
        return "resume"
    if phase == "returning":
        return "undrain"
    if phase == "rolling_back":
        return "roll_back"
    # Converge is idempotent, so going on is safe from wherever it was; a version that nobody asked for is not.
    return "resume" if version in ("before", "asked") else "roll_back"


@dataclass(frozen=True)
class Budget:
    """How many hosts may fail. `canaries`: names of the first wave; of those none may."""

    canaries: tuple[str, ...]
    failures: int

    def stop(self, now: t.Mapping[str, str], unreachable: t.Collection[str] = ()) -> str:
        """Why the rollout ends here; empty if it goes on. Unreachable hosts count as failed."""
        failed = sorted({host for host, phase in now.items() if phase in ("failed", "rolled_back")} | set(unreachable))
        bad = [host for host in failed if host in self.canaries]
        if bad:
            return f"canary {', '.join(bad)} failed"
        if len(failed) > self.failures:
            return f"{len(failed)} hosts failed ({', '.join(failed)}), the budget is {self.failures}"
        return ""
