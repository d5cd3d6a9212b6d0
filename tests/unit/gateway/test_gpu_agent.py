"""The GPU health agent: what it says, and what a real HAProxy makes of each word."""

from __future__ import annotations

import json
import pathlib
import socket
import threading
import time
import typing as t
import urllib.error
import urllib.request

import pytest
from engine_server import EngineServer

from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_agent import serve
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_agent_words import DEGRADED, FAILED, GOOD, judge, probe, word

from .conftest import Start, backend
from .test_gateway_life import GROUP

Engines = t.Callable[..., EngineServer]
GPU = {"index": 0, "state": "ok", "pci_address": "0000:1b:00.0"}


@pytest.mark.parametrize(
    ("state", "gpus", "xids", "expected"),
    [
        ("ok", [GPU], {}, GOOD),
        ("ok", [GPU], {"0000:1b:00.0": [13, 31, 43]}, GOOD),
        ("ok", [GPU], {"0000:99:00.0": [79]}, GOOD),
        ("ok", [GPU], {"0000:1b:00.0": [48]}, DEGRADED),
        ("ok", [GPU], {"0000:1b:00.0": [48, 79]}, FAILED),
        ("ok", [{**GPU, "state": "lost"}], {}, FAILED),
        ("ok", [GPU, {**GPU, "index": 1, "ecc_uncorrected": 2}], {}, DEGRADED),
        ("ok", [{**GPU, "row_remap_failure": True}], {}, DEGRADED),
        ("ok", [], {}, FAILED),
        ("hung", [], {}, FAILED),
        ("mismatch", [GPU], {}, FAILED),
    ],
)
def test_judgement(state: str, gpus: list[dict[str, t.Any]], xids: dict[str, list[int]], expected: str) -> None:
    assert judge(state, "why", gpus, xids)[0] == expected


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"state": GOOD, "at": 100.0}, "up 100%"),
        ({"state": DEGRADED, "at": 100.0}, "0%"),
        ({"state": FAILED, "at": 100.0, "reason": "gpu 0\nmaint; ready"}, "down #gpu 0 maint ready"),
        ({"state": GOOD, "at": 39.0}, ""),
        ({"state": FAILED, "at": 39.0}, ""),
        ({"state": GOOD, "at": 102.0}, ""),
        ({"state": GOOD}, ""),
        ({"state": GOOD, "at": "now"}, ""),
        (None, ""),
    ],
)
def test_words(record: dict[str, t.Any] | None, said: str) -> None:
    assert word(record, 100.0) == said
    assert probe(record, 100.0)[0] == (200 if said in ("up 100%", "0%") else 503)


class Agent:
    """The agent with a file to answer from."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.file = folder / "gpu_health.json"
        self.sockets = [socket.create_server(("127.0.0.1", 0)) for _number in range(2)]
        self.port, self.http = (int(one.getsockname()[1]) for one in self.sockets)
        self.end = threading.Event()
        arguments = (self.sockets[0], self.sockets[1], str(self.file), self.end.is_set)
        self.thread = threading.Thread(target=serve, args=arguments)
        self.thread.start()

    def say(self, state: str, age: float = 0, **more: t.Any) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps({"state": state, "at": time.time() - age, "reason": "gpu 3 lost", "gpus": [], **more}))
        new.replace(self.file)

    def get(self, path: str) -> tuple[int, t.Any]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}{path}", timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


@pytest.fixture
def agent(tmp_path: pathlib.Path) -> t.Iterator[Agent]:
    one = Agent(tmp_path)
    yield one
    one.end.set()
    one.thread.join()
    for listening in one.sockets:
        listening.close()


def test_what_haproxy_makes_of_each_word(start: Start, engines: Engines, agent: Agent) -> None:
    agent.say(GOOD)
    running = start(quick=True, backends=[backend(engines(), 0, agent_port=agent.port), backend(engines(), 1)], floor=0)

    def seen(column: str = "status") -> str:
        return running.stat(GROUP, "gpu-0_chat", column)

    def wait(column: str, value: str) -> None:
        running.wait(lambda: seen(column).startswith(value), f"{column} {value}, is {seen(column)}")

    wait("agent_status", "L7OK")
    assert (seen(), seen("weight")) == ("UP", "100")
    agent.say(FAILED)
    wait("status", "DOWN")
    assert seen("last_agt") == "gpu 3 lost" or "gpu 3 lost" in running.ask("show stat")
    agent.say(DEGRADED)
    wait("weight", "0")
    assert [running.completion().status for _number in range(4)] == [200] * 4
    assert running.stat(GROUP, "gpu-0_chat", "stot") == "0"
    agent.say(GOOD)
    wait("weight", "100")
    wait("status", "UP")
    # Nothing it can say ends maintenance.
    running.ask(f"set server {GROUP}/gpu-0_chat state maint")
    time.sleep(0.6)
    assert seen() == "MAINT"
    running.ask(f"set server {GROUP}/gpu-0_chat state ready")
    wait("status", "UP")
    running.ask(f"set server {GROUP}/gpu-0_chat state drain")
    time.sleep(0.6)
    assert seen().startswith("DRAIN")


@pytest.mark.parametrize("before", [GOOD, FAILED])
@pytest.mark.parametrize("what", ["stale", "no file", "no agent"])
def test_what_is_stale_or_gone_changes_nothing(start: Start, engines: Engines, agent: Agent, before: str, what: str) -> None:
    agent.say(before)
    running = start(quick=True, backends=[backend(engines(), 0, agent_port=agent.port)], floor=0)
    status = "UP" if before == GOOD else "DOWN"
    column = lambda name: running.stat(GROUP, "gpu-0_chat", name)  # noqa: E731
    running.wait(lambda: bool(column("agent_status").startswith("L7") and column("status").startswith(status)), "the agent")
    if what == "stale":
        agent.say(FAILED if before == GOOD else GOOD, age=61)
    elif what == "no file":
        agent.file.unlink()
    else:
        agent.end.set()
        agent.thread.join()
        for listening in agent.sockets:
            listening.close()
    time.sleep(1.5)
    assert column("status").startswith(status)


def test_probe(agent: Agent) -> None:
    assert agent.get("/health")[0] == 503
    agent.say(GOOD, gpus=[{"index": 0, "memory_total": 80, "memory_used": 8}])
    status, document = agent.get("/health")
    assert (status, document["gpus"][0]["memory_used"]) == (200, 8)
    assert agent.get("/metrics")[0] == 404
    agent.say(FAILED)
    assert agent.get("/health")[0] == 503


def test_a_client_that_says_nothing_keeps_nobody_waiting_for_long(agent: Agent) -> None:
    agent.say(GOOD)
    with socket.create_connection(("127.0.0.1", agent.http)):
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", agent.port), timeout=10) as asking:
            assert asking.recv(100) == b"up 100%\n"
        assert time.monotonic() - began < 4
