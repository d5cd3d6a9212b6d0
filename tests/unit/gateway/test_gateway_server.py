"""Maintenance at a running gateway: marks of ours and of others, floors, kills."""

from __future__ import annotations

import dataclasses
import pathlib
import typing as t

import pytest
from engine_server import EngineServer

from ansible_collections.gpufleet.inference.plugins.module_utils import _gateway_server
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError
from ansible_collections.gpufleet.inference.plugins.module_utils._gateway_floor import refusals
from ansible_collections.gpufleet.inference.plugins.module_utils._gateway_marks import read_marks, write_marks
from ansible_collections.gpufleet.inference.plugins.module_utils._gateway_server import Where, Wish, sessions, settle

from .conftest import Running, Start, backend
from .test_gateway_life import GROUP, Stream

Engines = t.Callable[..., EngineServer]
DRAIN = Wish("drain", "gpu-0", "rollout", "driver", "run-1")
READY = dataclasses.replace(DRAIN, state="ready")


class Fleet(t.NamedTuple):
    running: Running
    where: Where
    engines: list[EngineServer]

    def status(self, number: int) -> str:
        return self.running.stat(GROUP, f"gpu-{number}_chat", "status")


@pytest.fixture
def fleet(start: Start, engines: Engines, tmp_path: pathlib.Path) -> Fleet:
    servers = [engines() for _number in range(4)]
    domains = ("rack-1", "rack-1", "rack-2", "rack-2")
    running = start(backends=[backend(one, n, failure_domain=domains[n]) for n, one in enumerate(servers)], floor=2)
    places = running.places
    return Fleet(running, Where(str(tmp_path / "marks.json"), places.pools, places.socket, str(tmp_path / "lock")), servers)


def test_a_drain_is_marked_told_and_lifted(fleet: Fleet) -> None:
    for engine in fleet.engines:
        engine.script = {"delay": 0.05}
    streams = [Stream(fleet.running, 20) for _number in range(4)]
    fleet.running.wait(lambda: sum(engine.active for engine in fleet.engines) == 4, "the streams")
    outcome = settle(DRAIN, fleet.where)
    assert (outcome.changed, outcome.servers, outcome.foreign) == (True, ["gpu-0_chat"], {})
    assert fleet.status(0).startswith("DRAIN")
    assert read_marks(fleet.where.marks)["gpu-0_chat"]["reason"] == "driver"
    assert sessions(fleet.where.socket, outcome.servers) == 1
    assert not settle(DRAIN, fleet.where).changed
    for stream in streams:
        stream.join()
    assert all(stream.whole for stream in streams)
    assert sessions(fleet.where.socket, outcome.servers) == 0
    assert settle(READY, fleet.where).changed
    assert not fleet.status(0).startswith("DRAIN")
    assert read_marks(fleet.where.marks) == {}
    assert not settle(READY, fleet.where).changed


def test_check_mode_changes_nothing(fleet: Fleet) -> None:
    assert settle(DRAIN, fleet.where, check=True).changed
    assert not fleet.status(0).startswith("DRAIN")
    assert read_marks(fleet.where.marks) == {}


def test_a_foreign_mark_is_never_lifted(fleet: Fleet) -> None:
    theirs = {"state": "maint", "owner": "alice", "reason": "fan", "run_id": "", "since": "2026-11-30T08:00:00Z"}
    write_marks({"gpu-0_chat": theirs}, fleet.where.marks)
    for wish in (DRAIN, READY):
        outcome = settle(wish, fleet.where)
        assert (outcome.changed, outcome.servers) == (False, [])
        assert outcome.foreign == {"gpu-0_chat": "maint by alice since 2026-11-30T08:00:00Z: fan"}
        assert read_marks(fleet.where.marks) == {"gpu-0_chat": theirs}


def test_what_somebody_set_at_the_socket_stays(fleet: Fleet) -> None:
    fleet.running.ask(f"set server {GROUP}/gpu-0_chat state maint")
    assert "somebody" in settle(READY, fleet.where).foreign["gpu-0_chat"]
    assert fleet.status(0) == "MAINT"


def test_a_mark_of_a_killed_run_is_ours(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_path: str, command: str) -> str:
        if command.startswith("set server"):
            raise KeyboardInterrupt
        return real(_path, command)

    real = _gateway_server.ask
    for wish, after in ((DRAIN, "drain"), (READY, "ready")):
        monkeypatch.setattr(_gateway_server, "ask", killed)
        with pytest.raises(KeyboardInterrupt):
            settle(wish, fleet.where)
        assert read_marks(fleet.where.marks)["gpu-0_chat"]["state"] == after
        monkeypatch.setattr(_gateway_server, "ask", real)
        outcome = settle(dataclasses.replace(wish, run_id="run-2"), fleet.where)
        assert (outcome.adopted, outcome.foreign, outcome.changed) == (["gpu-0_chat"], {}, True)
        assert fleet.status(0).startswith("DRAIN") == (after == "drain")
    assert read_marks(fleet.where.marks) == {}


def test_the_floor_is_never_undercut(fleet: Fleet) -> None:
    settle(DRAIN, fleet.where)
    settle(dataclasses.replace(DRAIN, host="gpu-1"), fleet.where)
    with pytest.raises(HostError, match=r"2 of 4 servers serve, gpu-2_chat would leave 1, its floor is 2.*Nothing was changed"):
        settle(dataclasses.replace(DRAIN, host="gpu-2", domains_max=2), fleet.where)
    assert fleet.status(2).startswith("UP")
    assert set(read_marks(fleet.where.marks)) == {"gpu-0_chat", "gpu-1_chat"}


def test_one_failure_domain_at_a_time(fleet: Fleet) -> None:
    settle(DRAIN, fleet.where)
    with pytest.raises(HostError, match=r"2 failure domains would be out \(rack-1, rack-2\), at most 1 may"):
        settle(dataclasses.replace(DRAIN, host="gpu-2"), fleet.where)


def test_servers_that_are_sick_count_as_gone() -> None:
    groups = {"m": {"floor": 1, "servers": {"a": "1", "b": "2"}}}
    rows = [
        {"be_name": "m", "srv_name": name, "srv_op_state": state, "srv_admin_state": "0", "srv_uweight": "100"}
        for name, state in (("a", "2"), ("b", "0"))
    ]
    assert "would leave 0" in refusals(groups, rows, ["a"], [], 1)[0]
    assert refusals(groups, rows, ["b"], [], 1) == []


def test_a_gateway_that_does_not_run_holds_the_mark(fleet: Fleet) -> None:
    fleet.running.stop()
    outcome = settle(DRAIN, fleet.where)
    assert (outcome.running, outcome.changed) == (False, True)
    assert read_marks(fleet.where.marks)["gpu-0_chat"]["state"] == "drain"


def test_a_process_that_is_just_ending_is_asked_again(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    real, seen = _gateway_server.ask, []

    def reset_once(path: str, command: str) -> str:
        seen.append(command)
        if len(seen) == 1:
            raise HostError("HAProxy does not answer: connection reset")
        return real(path, command)

    monkeypatch.setattr(_gateway_server, "ask", reset_once)
    assert settle(DRAIN, fleet.where).running


def test_wrong_input_is_named(fleet: Fleet) -> None:
    with pytest.raises(HostError, match=r"host is 'gpu-9'; expected .*gpu-0, gpu-1"):
        settle(dataclasses.replace(DRAIN, host="gpu-9"), fleet.where)
    with pytest.raises(HostError, match="no gateway of role"):
        settle(DRAIN, dataclasses.replace(fleet.where, pools="/nonexistent"))
