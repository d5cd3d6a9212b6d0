"""New files on a gateway that runs: validated first, taken without a loss, put back where they do not come up."""

from __future__ import annotations

import os
import pathlib
import socket
import time
import typing as t

import pytest
from engine_server import EngineServer

from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError
from ansible_collections.gpufleet.inference.plugins.module_utils._gateway_apply import Control, apply, validate
from ansible_collections.gpufleet.inference.plugins.module_utils._gateway_core import CORE, program
from ansible_collections.gpufleet.inference.plugins.module_utils._gateway_info import loaded
from ansible_collections.gpufleet.inference.plugins.module_utils._gateway_keep import keep
from ansible_collections.gpufleet.inference.plugins.module_utils._gateway_marks import read_marks, write_marks
from ansible_collections.gpufleet.inference.plugins.plugin_utils._gateway_files import files, identity_of

from .conftest import KEY, Running, Start, backend, gateway
from .test_gateway_life import GROUP, Load

Engines = t.Callable[..., EngineServer]
MODULE_UTILS = pathlib.Path(__file__).resolve().parents[3] / "plugins/module_utils"


class Gateway:
    """A running gateway as the module sees it."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.taken = 0

    def control(self, patience: float = 3) -> Control:
        places = self.running.places
        previous = str(self.running.folder / "previous")
        return Control(self.running.program, places.config, previous, self.take, lambda: loaded(places.socket), lambda: "a line", patience)

    def take(self) -> None:
        self.taken += 1
        assert self.running.process
        self.running.process.send_signal(12)

    def made(self, **desired: t.Any) -> tuple[dict[str, tuple[str, int]], str]:
        listen = {"listen": [f"127.0.0.1:{self.running.port}"], "metrics_listen": ""}
        made = files(gateway(**{**listen, **desired}), self.running.places)
        return made, identity_of(made, self.running.places)

    def texts(self) -> dict[str, str]:
        places = self.running.places
        return {path: pathlib.Path(path).read_text() for path in (places.config, places.clients, places.engine_keys)}


@pytest.fixture
def one(start: Start, engines: Engines) -> Gateway:
    running = start(backends=[backend(engines())])
    running.reload()
    time.sleep(0.5)  # its master is deaf for a moment after each start; systemd waits for READY=1
    return Gateway(running)


def test_a_change_is_taken_under_load_and_once(one: Gateway, engines: Engines) -> None:
    places = one.running.places
    listed = [backend(engines()), backend(engines(), 1)]
    made, identity = one.made(backends=listed, keys=[{"name": "team-a", "key": KEY}, {"name": "b", "key": "b" * 20}])
    with Load(one.running) as load:
        done = apply(made, identity, one.control(15))
    assert load.errors == []
    assert set(load.statuses) == {200}
    assert len(done) == 4
    assert loaded(places.socket) == identity
    assert os.stat(places.clients).st_mode & 0o777 == 0o600
    assert one.taken == 1
    assert apply(made, identity, one.control()) == []
    assert one.taken == 1, "nothing to do, nothing reloaded"


def test_files_in_place_that_nobody_read_are_taken(one: Gateway, engines: Engines) -> None:
    """A run that was killed after it wrote."""
    made, identity = one.made(backends=[backend(engines())])
    for path, (text, mode) in made.items():
        pathlib.Path(path).write_text(text)
        os.chmod(path, mode)
    assert apply(made, identity, one.control(15)) == ["haproxy took the new files"]


def test_what_haproxy_refuses_never_gets_there(one: Gateway, engines: Engines) -> None:
    before = one.texts()
    made, _identity = one.made(backends=[backend(engines())])
    broken = {**made, one.running.places.config: (made[one.running.places.config][0].replace("balance leastconn", "balance best"), 0o640)}
    with pytest.raises(HostError, match=r"balance.*Nothing was changed"):
        validate(broken, one.control())
    assert (one.texts(), one.taken) == (before, 0)


def test_what_does_not_come_up_is_taken_back(one: Gateway, engines: Engines) -> None:
    """A port that somebody else has: the configuration is right, the start fails."""
    before = one.texts()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        made, identity = one.made(backends=[backend(engines())], metrics_listen=f"127.0.0.1:{other.getsockname()[1]}")
        validate(made, one.control())
        with pytest.raises(HostError, match=r"did not come up.*back and in use") as said:
            apply(made, identity, one.control())
    assert "a line" in str(said.value)
    assert one.texts() == before
    assert one.running.completion().status == 200
    assert one.taken == 2


def test_a_mark_is_in_the_state_of_every_start(one: Gateway, tmp_path: pathlib.Path) -> None:
    places, marks = one.running.places, str(tmp_path / "marks.json")
    mark = {"state": "drain", "owner": "rollout", "reason": "driver", "run_id": "r1", "since": "2026-11-30T22:00:00Z"}
    write_marks({"gpu-0_chat": mark}, marks)
    assert read_marks(marks) == {"gpu-0_chat": mark}
    keep("save", places.config, places.socket, marks, places.server_state)
    one.running.stop()
    keep("start", places.config, places.socket, marks, places.server_state)
    one.running.start()
    assert one.running.stat(GROUP, "gpu-0_chat", "status").startswith("DRAIN")


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"schema": 1, "marks": []}', '{"schema": 1, "marks": {"a": {"state": "off"}}}', '{"schema": 2}']
)
def test_a_damaged_mark_file_is_named(text: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "marks.json"
    path.write_text(text)
    with pytest.raises(HostError, match=str(path)):
        read_marks(str(path))


def test_the_program_of_the_gateway_is_complete(tmp_path: pathlib.Path) -> None:
    import subprocess
    import sys

    folder = tmp_path / "gpufleet_gateway"
    folder.mkdir()
    for name, content in program(lambda name: (MODULE_UTILS / f"{name}.py").read_bytes()).items():
        (folder / name).write_bytes(content)
    done = subprocess.run([sys.executable, "-I", str(folder), "other"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "expected one of start, save\n")
    assert len(set(CORE)) == len(CORE)
