# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One change of an engine instance, and back where it fails. Private to the collection.

stop → GPUs and port free → files and units → start → a real answer → recorded. Until the end `current` is the definition before; a change
that was cut off leaves `switch.json`, and the next one begins from there. Any failure puts the definition before back and asks it too.
"""

from __future__ import annotations

import os
import time
import typing as t

from ._endpoint import Endpoint
from ._endpoint_wait import Wish, last_lines, wait
from ._engine_free import free
from ._engine_records import UNIT_DIR, Definition, Records, now, paths, with_secrets
from ._engine_units import show
from ._errors import HostError, WorkError
from ._files import read_text, remove, write_text
from ._subprocess import run

ACTIONS = ("present", "started", "restarted", "absent")
Progress = t.Callable[[dict[str, t.Any]], None]
_MARGIN = 30
"""Seconds beyond a unit's own bound until systemctl itself is taken to hang."""


def work(job: dict[str, t.Any], secrets: dict[str, str], progress: Progress) -> dict[str, t.Any]:
    """`job`: {action, name, definition}; the definition without secrets, which are `secrets` by path."""
    definition = with_secrets(job["definition"], secrets) if job.get("definition") else None
    return Change(job["name"], job["action"], definition, progress).carry_out()


class Change:
    """From the recorded definition to another one, or to none."""

    def __init__(self, name: str, action: str, wanted: t.Optional[Definition], progress: Progress) -> None:
        self.name, self.action, self.wanted, self.progress = name, action, wanted, progress
        self.records = Records(name)
        self.record = self.records.current()
        self.old: t.Optional[Definition] = (self.record or {}).get("definition")
        self.cut_off = (self.records.switch() or {}).get("candidate") or {}
        self.stage = "stop"
        self.ended: list[int] = []

    def carry_out(self) -> dict[str, t.Any]:
        if self.action == "absent":
            return self._absent()
        if self.wanted is None:
            raise WorkError("bad_input", "definition is missing; expected the one that the plan made")
        try:
            self._put_in_force(self.wanted, keep_running=self.action == "started")
        except HostError as exc:
            raise self._failed(exc) from exc
        proven = {"definition": self.wanted, "state": "ok", "proven": True, "published": self.published, "since": now(), "failure": None}
        if self.record and self.old and self.old["sha256"] != self.wanted["sha256"]:
            self.records.put_previous(self.record)
        self.records.put_current(proven)
        self.records.end_switch()
        return {"changed": True, "answer": self.answer, "ended": self.ended}

    def _put_in_force(self, definition: Definition, keep_running: bool = False, back: bool = False) -> None:
        """Stop what there is, put this there, start it and wait for its answer."""
        others = [one for one in (self.old, self.cut_off, self.wanted) if one]
        if not keep_running:
            self._phase("stop")
            for unit in reversed(list(dict.fromkeys(unit for one in others for unit in one.get("units") or ()))):
                bound = max(int(one.get("stop_seconds") or 60) for one in others)
                _systemctl("stop", unit, timeout=bound + _MARGIN)
            if not back:
                # On the way back whoever is there was no obstacle to it before.
                self._phase("free")
                own = {unit for one in others for unit in one.get("units") or ()}
                port = definition["port"] if definition["ready"] else 0
                self.ended += free(self.name, definition["user"], own, definition["gpus"], port)
        self._phase("publish")
        gone = {path for one in others for path in _paths(one)} - set(paths(definition))
        _leave(gone)
        for path, (text, mode) in paths(definition).items():
            write_text(path, text, mode=mode, dir_mode=0o700 if mode == 0o600 else 0o755)
        self.published = round(time.time(), 3)
        _systemctl("daemon-reload")
        for unit in definition["enable"]:
            _systemctl("enable", unit)
        self._phase("start")
        for unit in definition["start"]:
            run(["systemctl", "reset-failed", unit], timeout=30)
            _systemctl("start", unit, timeout=150)
        self._phase("ready")
        self.answer = _ask(definition)

    def _failed(self, exc: HostError) -> WorkError:
        """What went wrong, with the journal's last words, after the definition before is in force again."""
        stage, wanted = self.stage, t.cast(Definition, self.wanted)
        lines = last_lines(wanted["start"][0]) if wanted["start"] and stage in ("start", "ready") else []
        text = f"at {stage}: {exc}" + ("; its last lines:\n" + "\n".join(lines) if lines else "")
        failure = {"stage": stage, "text": str(exc), "at": now(), "definition_sha256": wanted["sha256"]}
        previous, again = self.old, ""
        if previous is None or not (self.record or {}).get("proven"):
            self._take_away()
            return WorkError(
                "failed", f"{text}\nThere was no previous one that ever answered; it is stopped and removed", self._told(stage, False)
            )
        try:
            if stage == "stop":
                raise HostError("what runs could not be stopped")
            self._put_in_force(previous, back=True)
        except HostError as second:
            again = str(second)
        state = {**t.cast("dict[str, t.Any]", self.record), "failure": failure, "state": "failed" if again else "ok"}
        if not again:
            state.update(published=self.published, since=now())
        self.records.put_current(state)
        self.records.end_switch()
        word = f"does not answer either: {again}" if again else "is in force again and answers"
        return WorkError("failed", f"{text}\nThe previous definition {word}", self._told(stage, not again))

    def _told(self, stage: str, answers: bool) -> dict[str, t.Any]:
        return {"stage": stage, "previous_answers": answers}

    def _absent(self) -> dict[str, t.Any]:
        self._take_away()
        return {"changed": True}

    def _take_away(self) -> None:
        self._phase("remove")
        there = [one for one in (self.old, self.cut_off, self.wanted) if one]
        for unit in reversed(list(dict.fromkeys(unit for one in there for unit in one.get("units") or ()))):
            _systemctl("stop", unit, timeout=max(int(one.get("stop_seconds") or 60) for one in there) + _MARGIN, missing=True)
        _leave({path for one in there for path in _paths(one)})
        _systemctl("daemon-reload")
        self.records.remove()

    def _phase(self, phase: str) -> None:
        self.stage = phase
        self.progress({"text": phase})
        units = {
            "units": dict.fromkeys((self.wanted or {}).get("units") or (), ""),
            "files": dict.fromkeys((self.wanted or {}).get("files") or ()),
        }
        self.records.put_switch(
            {
                "action": self.action,
                "phase": phase,
                "target": (self.wanted or {}).get("sha256", ""),
                "began": now(),
                "boot_id": (read_text("/proc/sys/kernel/random/boot_id") or "").strip(),
                "candidate": units if self.wanted else None,
            }
        )


def _paths(definition: t.Mapping[str, t.Any]) -> list[str]:
    """Also of a candidate, which has names only."""
    return [*(definition.get("files") or ()), *(f"{UNIT_DIR}/{unit}" for unit in definition.get("units") or ())]


def _leave(gone: t.Iterable[str]) -> None:
    for path in gone:
        if path.startswith(UNIT_DIR):
            run(["systemctl", "disable", "--now", os.path.basename(path)], timeout=60)
        remove(path)
        folder = os.path.dirname(path)
        if not path.startswith(UNIT_DIR) and os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)


def _ask(definition: Definition) -> dict[str, t.Any]:
    ready = definition["ready"]
    if not ready:
        return {}
    key = (read_text(ready["api_key_file"]) or "").strip() if ready.get("api_key_file") else ""
    wish = Wish(ready["health"], ready["model"], ready["checks"], ready["prompt"], ready["max_tokens"], ready["expect"])
    return wait(Endpoint(ready["url"], key), wish, definition["ready_seconds"], ready["unit"])


def _systemctl(verb: str, unit: str = "", timeout: float = 60, missing: bool = False) -> None:
    """HostError with systemd's words; a unit that is not there counts as stopped."""
    if verb == "stop" and unit not in show([unit])[0]:
        return
    answer = run(["systemctl", verb, *([unit] if unit else [])], timeout=timeout)
    if not answer.success and not missing:
        raise HostError(f"systemctl {verb} {unit}: {answer.err.strip() or answer.state}")
