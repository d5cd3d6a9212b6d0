"""Drain, reload, restart and GPU health with a real HAProxy: no stream is lost, no state forgotten."""

from __future__ import annotations

import json
import pathlib
import signal
import socketserver
import threading
import time
import typing as t

from engine_server import EngineServer

from ansible_collections.gpufleet.inference.plugins.module_utils._haproxy_state import admin_state, parse, with_marks

from .conftest import KEY, Running, Start, backend

Engines = t.Callable[..., EngineServer]
GROUP = "chat.default"


class Stream(threading.Thread):
    """One streaming request; `events` grows as they come, `status` is 0 where the connection broke."""

    def __init__(self, running: Running, tokens: int) -> None:
        super().__init__()
        self.running, self.tokens = running, tokens
        self.events: list[str] = []
        self.status = 0
        self.start()

    def run(self) -> None:
        connection = self.running.connect()
        body = json.dumps({"model": "chat", "stream": True, "max_tokens": self.tokens})
        connection.request("POST", "/v1/completions", body, {"Authorization": f"Bearer {KEY}"})
        response = connection.getresponse()
        self.status = response.status
        for line in response:
            if line.startswith(b"data:"):
                self.events.append(line.decode())

    @property
    def whole(self) -> bool:
        return self.status == 200 and len(self.events) == self.tokens + 2 and "[DONE]" in self.events[-1]


class Load:
    """Clients that ask without a pause, each request on a connection of its own or on one that is kept."""

    def __init__(self, running: Running, clients: int = 4) -> None:
        self.running = running
        self.statuses: list[int] = []
        self.errors: list[str] = []
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(number % 2 == 0,)) for number in range(clients)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, kept: bool) -> None:
        body = json.dumps({"model": "chat", "max_tokens": 2})
        connection = self.running.connect()
        while not self._end.is_set():
            try:
                connection.request("POST", "/v1/completions", body, {"Authorization": f"Bearer {KEY}"})
                response = connection.getresponse()
                response.read()
                self.statuses.append(response.status)
            except Exception as error:
                self.errors.append(repr(error))
                connection.close()
            if not kept:
                connection.close()


def test_a_drained_server_keeps_its_streams_and_gets_nothing_new(start: Start, engines: Engines) -> None:
    first, second = engines(), engines()
    first.script = second.script = {"delay": 0.05}
    running = start(backends=[backend(first), backend(second, 1)])
    streams = [Stream(running, 30) for _number in range(8)]
    running.wait(lambda: first.active + second.active == 8, "the streams")
    held = first.active
    assert held > 0
    running.ask(f"set server {GROUP}/gpu-0_chat state drain")
    before = len(first.calls)
    assert [running.completion(max_tokens=1).status for _number in range(4)] == [200] * 4
    assert [call for call in first.calls[before:] if call.startswith("/v1/")] == []
    assert first.active == held
    for stream in streams:
        stream.join()
    assert all(stream.whole for stream in streams)
    assert running.stat(GROUP, "gpu-0_chat", "scur") == "0"


def test_reloads_under_load_lose_nothing(start: Start, engines: Engines) -> None:
    first, second = engines(), engines()
    first.script = second.script = {"delay": 0.01}
    running = start(backends=[backend(first), backend(second, 1)])
    streams = [Stream(running, 200) for _number in range(4)]
    with Load(running) as load:
        for _number in range(4):
            time.sleep(0.3)
            running.save()
            running.reload()
        time.sleep(0.3)
    for stream in streams:
        stream.join()
    assert load.errors == []
    assert set(load.statuses) == {200}
    assert len(load.statuses) > 50
    assert all(stream.whole for stream in streams)


def test_state_survives_reload_restart_and_kill(start: Start, engines: Engines) -> None:
    running = start(backends=[backend(engines(), number) for number in range(3)])
    running.ask(f"set server {GROUP}/gpu-0_chat state drain")
    running.ask(f"set server {GROUP}/gpu-1_chat state maint")

    def states() -> dict[str, str]:
        return {row["srv_name"]: admin_state(row) for row in parse(running.ask("show servers state"))}

    wanted = {"gpu-0_chat": "drain", "gpu-1_chat": "maint", "gpu-2_chat": "ready"}
    assert states() == wanted
    running.save()
    running.reload()
    assert states() == wanted
    running.stop()
    running.start()
    assert states() == wanted
    assert running.process
    worker = int(running.info("Pid"))
    running.process.send_signal(signal.SIGKILL)
    running.process.wait()
    running.wait(lambda: not pathlib.Path(f"/proc/{worker}").exists(), "the end of the worker")
    running.start()
    assert states() == wanted


def test_a_mark_holds_for_a_server_that_is_new(start: Start, engines: Engines) -> None:
    """The first start with a mark, or a backend that was added while its host is in maintenance."""
    running = start(backends=[backend(engines())])
    running.stop()
    running.write(backends=[backend(engines(), 0), backend(engines(), 1)])
    state = with_marks("", {"gpu-1_chat": "drain"}, {"gpu-1_chat": [GROUP]})
    pathlib.Path(running.places.server_state).write_text(state)
    running.start()
    rows = {row["srv_name"]: row for row in parse(running.ask("show servers state"))}
    assert admin_state(rows["gpu-1_chat"]) == "drain"
    assert admin_state(rows["gpu-0_chat"]) == "ready"
    assert running.stat(GROUP, "gpu-1_chat", "status").startswith("DRAIN")
    assert running.completion().status == 200


def test_a_mark_wins_over_what_was_running(start: Start, engines: Engines) -> None:
    running = start(backends=[backend(engines(), number) for number in range(2)])
    running.save({"gpu-0_chat": "maint"})
    running.reload()
    assert running.stat(GROUP, "gpu-0_chat", "status") == "MAINT"
    running.save({"gpu-0_chat": "ready"})
    running.reload()
    assert running.stat(GROUP, "gpu-0_chat", "status") != "MAINT"


class Agent(socketserver.ThreadingTCPServer):
    """Says one word to whoever asks."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, word: str) -> None:
        self.word = word
        super().__init__(("127.0.0.1", 0), _Word)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Word(socketserver.BaseRequestHandler):
    server: Agent

    def handle(self) -> None:
        self.request.sendall(self.server.word.encode() + b"\n")


def test_gpu_health_takes_servers_away_down_to_the_floor(start: Start, engines: Engines) -> None:
    agents = [Agent("up 100%") for _number in range(4)]
    servers = [engines() for _number in range(4)]
    backends = [backend(server, number, agent_port=agents[number].port) for number, server in enumerate(servers)]
    running = start(quick=True, backends=backends, floor="50%")

    def up() -> int:
        return sum(running.stat(GROUP, f"gpu-{number}_chat", "status") == "UP" for number in range(4))

    def asked() -> list[bool]:
        for server in servers:
            server.calls.clear()
        assert [running.completion(max_tokens=1).status for _number in range(16)] == [200] * 16
        return ["/v1/completions" in server.calls for server in servers]

    running.wait(lambda: up() == 4, "all servers")
    for agent in agents[:2]:
        agent.word = "down #gpu 0 lost"
    running.wait(lambda: up() == 2, "two servers")
    assert asked() == [False, False, True, True]
    agents[2].word = "down #gpu 1 lost"
    running.wait(lambda: up() == 1, "one server")
    assert asked() == [True] * 4, "below the floor GPU health no longer decides"
    # Engines that are not ready and servers in maintenance stay out there too.
    servers[0].script = {"health": 503}
    for name in (GROUP, GROUP + ".keep"):
        running.ask(f"set server {name}/gpu-1_chat state maint")
    running.wait(lambda: running.stat(GROUP + ".keep", "gpu-0_chat", "status") == "DOWN", "the check")
    assert asked() == [False, False, True, True]
    for agent in agents:
        agent.word = "up 100%"
    servers[0].script = {}
    running.wait(lambda: up() == 3, "three servers again")
    for agent in agents:
        agent.shutdown()


def test_the_requests_of_a_client_that_left_are_not_computed(start: Start, engines: Engines) -> None:
    engine = engines()
    engine.script = {"delay": 0.1}
    running = start(backends=[backend(engine, maxconn=1)])
    stream = Stream(running, 8)
    running.wait(lambda: engine.active == 1, "the first request")
    gone = running.connect()
    gone.request("POST", "/v1/completions", json.dumps({"model": "chat"}), {"Authorization": f"Bearer {KEY}"})
    running.wait(lambda: running.stat(GROUP, "BACKEND", "qcur") == "1", "the queue")
    gone.close()
    running.wait(lambda: running.stat(GROUP, "BACKEND", "qcur") == "0", "an empty queue")
    assert engine.active == 1
    stream.join()
    assert len([call for call in engine.calls if call.startswith("/v1/")]) == 1
