"""A real HAProxy in front of stand-in engines, on loopback."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._haproxy_socket import ask
from ansible_collections.gpufleet.inference.plugins.module_utils._haproxy_state import with_marks
from ansible_collections.gpufleet.inference.plugins.plugin_utils._gateway_files import files
from ansible_collections.gpufleet.inference.plugins.plugin_utils._gateway_input import read
from ansible_collections.gpufleet.inference.plugins.plugin_utils._gateway_places import Places
from ansible_collections.gpufleet.inference.plugins.plugin_utils._gateway_types import Gateway
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lab/standin"))
from engine_server import EngineServer

KEY = "team-a-secret-key-0001"
ENGINE_KEY = "key-of-the-engines"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def haproxies() -> list[list[str]]:
    """HAProxy of this machine, and more by GPUFLEET_HAPROXY (words of a command, several separated by semicolons)."""
    found = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    more = [command.split() for command in os.environ.get("GPUFLEET_HAPROXY", "").split(";") if command.strip()]
    return ([[found]] if found else []) + more


@pytest.fixture
def haproxy() -> str:
    if not haproxies():
        pytest.skip("no haproxy on this machine (tests/setup/system installs it): nothing says whether the configuration works")
    return haproxies()[0][0]


def gateway(**desired: t.Any) -> Gateway:
    made, findings = read({"keys": [{"name": "team-a", "key": KEY}], **desired}, load_matrix())
    assert made is not None, [finding.message for finding in findings]
    return made


def places(folder: pathlib.Path) -> Places:
    names = ("config", "clients", "engine_keys", "pools", "socket", "server_state")
    return Places(**{name: str(folder / name) for name in names}, chroot="", user="")


def backend(engine: EngineServer, number: int = 0, **more: t.Any) -> dict[str, t.Any]:
    kind = {"trtllm": "tensorrt_llm"}.get(engine.engine, engine.engine)
    where = {"host": f"gpu-{number}", "instance": "chat", "address": "127.0.0.1", "port": engine.server_port}
    return {**where, "engine": kind, "models": [engine.model], **more}


class Answer(t.NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def error(self) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", json.loads(self.body)["error"])


class Running:
    """A gateway that runs: files written, master process started."""

    def __init__(self, program: str, folder: pathlib.Path, quick: bool) -> None:
        self.program, self.folder, self.quick = program, folder, quick
        self.places = places(folder)
        self.port, self.metrics_port = free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def write(self, **desired: t.Any) -> None:
        listen = {"listen": [f"127.0.0.1:{self.port}"], "metrics_listen": f"127.0.0.1:{self.metrics_port}"}
        for path, (text, mode) in files(gateway(**{**listen, **desired}), self.places).items():
            pathlib.Path(path).write_text(re.sub(r"inter [25]s", "inter 200ms", text) if self.quick else text)
            os.chmod(path, mode)

    def start(self) -> None:
        state = pathlib.Path(self.places.server_state)
        if not state.exists():
            state.write_text(with_marks("", {}, {}))
        log = (self.folder / "log").open("ab")
        command = [self.program, "-W", "-f", self.places.config, "-p", str(self.folder / "pid")]
        self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.wait(lambda: "gpufleet_rates" in self.ask("show stat"), "HAProxy's socket")

    def reload(self) -> None:
        before = self.info("Pid")
        assert self.process
        sent = 0.0

        def renewed() -> bool:
            # A master that has only just forked its worker misses the signal (systemd waits for READY=1).
            nonlocal sent
            if time.monotonic() - sent > 2:
                t.cast("subprocess.Popen[bytes]", self.process).send_signal(signal.SIGUSR2)
                sent = time.monotonic()
            return self.info("Pid") != before

        self.wait(renewed, "the new process")

    def save(self, marks: dict[str, str] | None = None, groups: dict[str, list[str]] | None = None) -> None:
        """What the unit does before a reload and a start."""
        state = with_marks(self.ask("show servers state"), marks or {}, groups or {})
        pathlib.Path(self.places.server_state).write_text(state)

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(10)

    def wait(self, true: t.Callable[[], bool], what: str, seconds: float = 15) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                if true():
                    return
            except Exception as error:
                what = f"{what} ({error})" if "(" not in what else what
            assert time.monotonic() < deadline, f"waited for {what}; log: {(self.folder / 'log').read_text()[-2000:]}"
            time.sleep(0.05)

    def ask(self, command: str) -> str:
        return ask(self.places.socket, command)

    def info(self, name: str) -> str:
        return next(line.partition(": ")[2] for line in self.ask("show info").splitlines() if line.startswith(name + ":"))

    def stat(self, backend_name: str, server: str, column: str) -> str:
        lines = self.ask("show stat").splitlines()
        names = lines[0].lstrip("# ").split(",")
        rows = (dict(zip(names, line.split(","))) for line in lines[1:])
        return next(row[column] for row in rows if row["pxname"] == backend_name and row["svname"] == server)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def request(self, path: str = "/v1/completions", body: t.Any = None, key: str = KEY, method: str = "", **headers: str) -> Answer:
        connection = self.connect()
        sent = {"Authorization": f"Bearer {key}"} if key else {}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method or ("POST" if data else "GET"), path, data, {**sent, **headers})
        response = connection.getresponse()
        answer = Answer(response.status, response.read(), {name.lower(): value for name, value in response.getheaders()})
        connection.close()
        return answer

    def completion(self, model: str = "chat", **body: t.Any) -> Answer:
        return self.request(body={"model": model, "prompt": "hi", "max_tokens": 4, **body})


Start = t.Callable[..., Running]


@pytest.fixture
def start(haproxy: str, tmp_path: pathlib.Path) -> t.Iterator[Start]:
    running: list[Running] = []

    def begin(quick: bool = False, **desired: t.Any) -> Running:
        one = Running(haproxy, tmp_path, quick)
        running.append(one)
        one.write(**desired)
        one.start()
        return one

    yield begin
    for one in running:
        one.stop()


@pytest.fixture
def engines() -> t.Iterator[t.Callable[..., EngineServer]]:
    servers: list[EngineServer] = []

    def begin(model: str = "chat", engine: str = "vllm", key: str = "") -> EngineServer:
        server = EngineServer(engine, 0, model, key)
        server.request_queue_size = 128
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return server

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()
