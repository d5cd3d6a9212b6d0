# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run at a time."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _lock
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError

NOW = datetime.datetime(2026, 11, 30, 12, 0, tzinfo=datetime.timezone.utc)
SCHEMA = json.loads((Path(__file__).resolve().parents[3] / "schemas/state.schema.json").read_text())


def _wanted(run: str) -> dict[str, Any]:
    return {"run_id": run, "owner": {"controller": "ctl", "pid": 7, "start_time": "9", "user": "ops"}, "what": "driver"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run/run.lock")


def test_take_renew_release(path: str) -> None:
    first = _lock.acquire(path, _wanted("a"), 600, NOW)
    assert (first.changed, first.lock["expires"]) == (True, "2026-11-30T12:10:00+00:00")
    jsonschema.validate(json.loads(Path(path).read_text()), SCHEMA["$defs"]["run_lock"])
    later = NOW + datetime.timedelta(seconds=300)
    again = _lock.acquire(path, _wanted("a"), 600, later)
    assert (again.changed, again.lock["since"], again.lock["expires"]) == (False, first.lock["since"], "2026-11-30T12:15:00+00:00")
    assert _lock.release(path, "b") is False
    assert Path(path).exists()
    assert _lock.release(path, "a") is True
    assert _lock.release(path, "a") is False


def test_another_run_is_told_everything(path: str) -> None:
    _lock.acquire(path, _wanted("a"), 600, NOW)
    with pytest.raises(_lock.Locked) as error:
        _lock.acquire(path, _wanted("b"), 600, NOW)
    for part in ("driver", "ops on ctl", "process 7", "since 2026-11-30T12:00:00+00:00", "expires at 2026-11-30T12:10:00+00:00", path):
        assert part in str(error.value)
    assert json.loads(Path(path).read_text())["run_id"] == "a"


def test_expired_and_dead_owners_are_replaced(path: str) -> None:
    _lock.acquire(path, _wanted("a"), 600, NOW)
    taken = _lock.acquire(path, _wanted("b"), 600, NOW + datetime.timedelta(seconds=600))
    assert taken.previous is not None
    assert (taken.previous["run_id"], taken.why, taken.changed) == ("a", "it had expired", True)
    with pytest.raises(_lock.Locked):
        _lock.acquire(path, _wanted("c"), 600, NOW, dead="a")  # dead is another one than who holds it now
    taken = _lock.acquire(path, _wanted("c"), 600, NOW, dead="b")
    assert taken.why == "its owner is dead"


def test_the_guard_is_waited_for_with_a_bound(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _lock.acquire(path, _wanted("a"), 600, NOW)
    monkeypatch.setattr(_lock, "_GUARD_SECONDS", 0.1)
    with open(os.path.join(os.path.dirname(path), ".run.lock.guard"), "rb") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        with pytest.raises(HostError, match="decided on by another process"):
            _lock.acquire(path, _wanted("a"), 600, NOW)


def test_without_root_the_message_says_so(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(HostError, match="the lock needs root"):
        _lock.acquire(str(tmp_path / "run/run.lock"), _wanted("a"), 600, NOW)
