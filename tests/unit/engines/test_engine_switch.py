# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of an instance on its host: what is in force, recorded and left on the disk, whichever step fails or is cut off."""

from __future__ import annotations

import hashlib
import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _engine_records, _engine_switch
from ansible_collections.gpufleet.inference.plugins.module_utils._engine_records import Records, digest
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError, WorkError

UNIT = "gpufleet-engine-chat.service"


class Done(t.NamedTuple):
    success: bool
    out: str = ""
    err: str = ""
    state: str = "ok"


class Host:
    """Systemd as a set of running units; `sick`: texts of units that never answer; `calls`: verbs in order."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.units = folder, folder / "units"
        self.units.mkdir()
        self.running: dict[str, str] = {}
        self.enabled: set[str] = set()
        self.sick: set[str] = set()
        self.calls: list[str] = []
        self.taken = ""
        for module in (_engine_records, _engine_switch):
            monkeypatch.setattr(module, "UNIT_DIR", str(self.units))
        monkeypatch.setattr(_engine_switch, "Records", lambda name: Records(name, str(folder / "records")))
        monkeypatch.setattr(_engine_switch, "run", self._run)
        monkeypatch.setattr(_engine_switch, "show", lambda names: ({name: {} for name in names if name in self.running}, ""))
        monkeypatch.setattr(_engine_switch, "free", self._free)
        monkeypatch.setattr(_engine_switch, "wait", self._wait)
        monkeypatch.setattr(_engine_switch, "last_lines", lambda unit: ["ValueError: no memory"])

    def _run(self, words: list[str], timeout: float = 0) -> Done:
        self.calls.append(" ".join(words[1:]))
        verb, unit = words[1], words[-1]
        if verb == "start":
            self.running[unit] = (self.units / unit).read_text()
        elif verb == "stop" or (verb == "disable" and "--now" in words):
            self.running.pop(unit, None)
        if verb == "enable":
            self.enabled.add(unit)
        elif verb == "disable":
            self.enabled.discard(unit)
        return Done(True)

    def _free(self, name: str, user: str, units: t.Container[str], gpus: t.Sequence[str], port: int) -> list[int]:
        if self.taken:
            raise HostError(self.taken)
        return []

    def _wait(self, _endpoint: t.Any, wish: t.Any, _timeout: float, unit: str) -> dict[str, t.Any]:
        if self.running.get(unit) in self.sick:
            raise HostError("503")
        return {"models": [wish.model]}

    def records(self) -> Records:
        return Records("chat", str(self.folder / "records"))

    def definition(self, text: str, key: str = "k", **over: t.Any) -> dict[str, t.Any]:
        path = str(self.folder / "etc/chat/api_key")
        ready = {
            "url": "http://127.0.0.1:1",
            "health": "",
            "model": "m",
            "checks": ["completion"],
            "prompt": "",
            "expect": "",
            "max_tokens": 1,
        }
        out = {
            "schema": 1,
            "name": "chat",
            "gpus": ["GPU-0"],
            "port": 1,
            "user": "gpufleet-engine",
            "units": {UNIT: text},
            "enable": [UNIT],
            "start": [UNIT],
            "files": {path: {"text": key, "sha256": hashlib.sha256(key.encode()).hexdigest(), "mode": "0600", "secret": True}},
            "stop_seconds": 5,
            "ready_seconds": 10,
            "ready": {**ready, "api_key_file": path, "unit": UNIT},
            **over,
        }
        return {**out, "sha256": digest(out)}

    def ask(self, definition: dict[str, t.Any] | None, action: str = "present") -> dict[str, t.Any]:
        secrets = {path: file["text"] for path, file in (definition or {}).get("files", {}).items()}
        return _engine_switch.work({"name": "chat", "action": action, "definition": definition}, secrets, lambda _counts: None)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_a_first_one_is_there_runs_and_is_recorded(host: Host) -> None:
    assert host.ask(host.definition("one"))["answer"] == {"models": ["m"]}
    assert (host.running, host.enabled) == ({UNIT: "one"}, {UNIT})
    key = host.folder / "etc/chat/api_key"
    assert (key.read_text(), key.stat().st_mode & 0o777) == ("k", 0o600)
    record = host.records().current()
    assert record is not None
    assert (record["state"], record["definition"]["sha256"]) == ("ok", host.definition("one")["sha256"])
    assert host.records().switch() is None
    assert os.stat(host.records().folder).st_mode & 0o777 == 0o700


def test_an_update_that_fails_goes_back_and_says_so(host: Host) -> None:
    host.ask(host.definition("one"))
    host.sick = {"two"}
    with pytest.raises(
        WorkError, match=r"at ready: 503; its last lines:\nValueError: no memory\nThe previous definition is in force"
    ) as caught:
        host.ask(host.definition("two", "other key"))
    assert caught.value.details == {"stage": "ready", "previous_answers": True}
    assert host.running == {UNIT: "one"}
    assert (host.folder / "etc/chat/api_key").read_text() == "k"
    record = host.records().current()
    assert record is not None
    assert (record["state"], record["definition"]["units"], record["failure"]["stage"]) == ("ok", {UNIT: "one"}, "ready")


def test_one_that_does_not_come_back_either_is_recorded_as_failed(host: Host) -> None:
    host.ask(host.definition("one"))
    host.sick = {"one", "two"}
    with pytest.raises(WorkError, match="The previous definition does not answer either: 503") as caught:
        host.ask(host.definition("two"))
    assert caught.value.details["previous_answers"] is False
    record = host.records().current()
    assert record is not None
    assert record["state"] == "failed"


def test_a_first_one_that_fails_leaves_nothing(host: Host) -> None:
    host.sick = {"one"}
    with pytest.raises(WorkError, match="stopped and removed"):
        host.ask(host.definition("one"))
    assert (host.running, host.enabled, list(host.units.iterdir())) == ({}, set(), [])
    assert not (host.folder / "etc/chat").exists()
    assert host.records().current() is None


def test_gpus_that_are_not_free_stop_it_and_the_one_before_runs_on(host: Host) -> None:
    host.ask(host.definition("one"))
    host.taken = "GPU-0 by python"
    with pytest.raises(WorkError, match="at free: GPU-0 by python"):
        host.ask(host.definition("two"))
    assert (host.units / UNIT).read_text() == "one"
    assert host.running == {UNIT: "one"}, "whoever took it was no obstacle to the one before"


def test_files_and_units_of_the_one_before_go(host: Host) -> None:
    extra = "gpufleet-engine-chat-watchdog.timer"
    host.ask(host.definition("one", units={UNIT: "one", extra: "t"}, enable=[UNIT, extra], start=[UNIT, extra]))
    host.ask(host.definition("two", files={}))
    assert sorted(path.name for path in host.units.iterdir()) == [UNIT]
    assert (host.running, host.enabled) == ({UNIT: "two"}, {UNIT})
    assert not (host.folder / "etc/chat").exists()


def test_a_change_that_was_cut_off_is_brought_to_its_end(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.ask(host.definition("one"))
    extra = "gpufleet-engine-chat-ray.service"

    def killed(*_args: t.Any) -> t.Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(_engine_switch, "wait", killed)
        with pytest.raises(KeyboardInterrupt):
            host.ask(host.definition("two", units={UNIT: "two", extra: "ray"}, start=[extra, UNIT]))
    assert (host.records().switch() or {})["phase"] == "ready"
    host.ask(host.definition("one"))
    assert (host.running, sorted(path.name for path in host.units.iterdir())) == ({UNIT: "one"}, [UNIT])
    assert host.records().switch() is None


def test_started_stops_nothing_and_restarted_does(host: Host) -> None:
    host.ask(host.definition("one"))
    for action, stops in (("started", 0), ("restarted", 1)):
        host.calls.clear()
        host.ask(host.definition("one"), action)
        assert sum(call.startswith("stop") for call in host.calls) == stops


def test_absent_leaves_nothing_and_may_come_twice(host: Host) -> None:
    host.ask(host.definition("one"))
    for _time in range(2):
        host.ask(None, "absent")
        assert (host.running, list(host.units.iterdir()), host.records().current()) == ({}, [], None)


def test_a_secret_that_is_not_the_one_meant_is_refused(host: Host) -> None:
    definition = host.definition("one")
    with pytest.raises(HostError, match="secret text of"):
        _engine_switch.work({"name": "chat", "action": "present", "definition": definition}, {}, lambda _counts: None)
    assert host.calls == []
