"""The gate in front of an engine, and the watch over it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lab/standin"))
from engine_server import EngineServer

from ansible_collections.gpufleet.inference.plugins.module_utils import _carried, _engine_gate, _engine_watch
from ansible_collections.gpufleet.inference.plugins.module_utils._nvml import Options, Outcome
from ansible_collections.gpufleet.inference.plugins.module_utils._subprocess import Result
from ansible_collections.gpufleet.inference.plugins.plugin_utils import _engine_job

GPU = "GPU-00000000-1111-2222-3333-444444444444"


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> t.Any:
    """Call it with what NVML says, one look after the other; it gives the exit status or the command, and the seconds."""

    def call(*looks: Outcome, gpus: t.Sequence[str] = (GPU,), wait: float = 60) -> tuple[t.Any, float]:
        answers, clock, became = list(looks), [0.0], []
        monkeypatch.setattr(_engine_gate, "run_bounded", lambda *_a: answers.pop(0) if len(answers) > 1 else answers[0])
        monkeypatch.setattr(_engine_gate.time, "monotonic", lambda: clock[0])
        monkeypatch.setattr(_engine_gate.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
        monkeypatch.setattr(_engine_gate.os, "execv", lambda program, argv: became.append(argv))
        status = _engine_gate.run(gpus, ["/bin/engine", "serve"], wait, Options())
        return (became[0] if became else status), clock[0]

    return call


THERE, GONE = Outcome("ok", {}), Outcome("ok", {GPU: "GPU_IS_LOST"})


def test_gpus_that_answer_are_not_waited_for(gate: t.Any) -> None:
    assert gate(THERE) == (["/bin/engine", "serve"], 0)


def test_without_gpus_nothing_is_asked(gate: t.Any) -> None:
    assert gate(GONE, gpus=()) == (["/bin/engine", "serve"], 0)


def test_a_gpu_that_comes_late_at_boot_is_waited_for(gate: t.Any) -> None:
    late = [Outcome("module_not_loaded", reason="the nvidia kernel module is not loaded"), Outcome("ok", {GPU: "NOT_FOUND"})]
    became, waited = gate(*late, THERE)
    assert became == ["/bin/engine", "serve"]
    assert 0 < waited < 10


@pytest.mark.parametrize(
    ("look", "says", "bound"),
    [
        (GONE, "fallen off the bus (GPU_IS_LOST)", 60),
        (Outcome("ok", {GPU: "NOT_FOUND"}), "no such GPU", 60),
        (Outcome("no_library", reason="libnvidia-ml.so.1 is not on this host"), "libnvidia-ml.so.1 is not on this host", 60),
        (Outcome("hung", reason="the NVIDIA driver hangs"), "the NVIDIA driver hangs", 0),
    ],
    ids=["lost", "unknown", "no driver", "hung"],
)
def test_a_lost_gpu_ends_with_the_status_that_is_not_restarted(
    gate: t.Any, capsys: pytest.CaptureFixture[str], look: Outcome, says: str, bound: float
) -> None:
    status, waited = gate(look)
    assert status == _engine_job.EXIT_GPU_LOST
    assert waited <= bound
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("<3>GPU lost")
    assert GPU in line
    assert says in line


def test_without_nvidias_binding_it_starts_and_says_so(gate: t.Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert gate(Outcome("no_pynvml", reason="no module"))[0] == ["/bin/engine", "serve"]
    assert "without a look" in capsys.readouterr().err


def test_a_program_that_is_not_there_has_its_own_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert _engine_gate.main(["run", "--", "/nowhere/vllm", "serve"]) == _engine_gate.EXIT_NO_PROGRAM
    assert "cannot run /nowhere/vllm" in capsys.readouterr().err


def test_the_program_on_the_host_stands_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it lies on a host: started by its path, it becomes the command with its words as they are."""
    monkeypatch.setattr(_carried, "LIB", str(tmp_path))
    _carried.install("gpufleet_engine", {"__init__.py": b"", **_carried.closure(["_engine_gate"])})
    program = tmp_path / "engine_gate.py"
    program.write_text(_engine_gate.LAUNCHER)
    words = [sys.executable, str(program), "run", "--", "/bin/echo", "--", "--gpu", "a b"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]}, cwd="/")
    assert done.stdout == "-- --gpu a b\n"
    assert not list(tmp_path.rglob("__pycache__"))


class Watched:
    """A unit that is watched, asked by `look`."""

    def __init__(self, folder: Path, url: str) -> None:
        self.shown = {"ActiveState": "active", "InvocationID": "1", "ExecMainStartTimestampMonotonic": "0"}
        self.restarts: list[t.Sequence[str]] = []
        self.lines: list[str] = []
        self._folder, self._url = folder, url

    def run(self, argv: t.Sequence[str], timeout: float) -> Result:
        if argv[1] == "show":
            return Result("ok", 0, "".join(f"{key}={value}\n" for key, value in self.shown.items()), "")
        self.restarts.append(argv)
        return Result("ok", 0, "", "")

    def look(self, times: int = 1, grace: float = 1e12) -> int:
        for _time in range(times):
            _engine_watch.watch(self._url, "e.service", 3, grace, lambda _l, text: self.lines.append(text), str(self._folder))
        return len(self.restarts)


@pytest.fixture
def server() -> t.Iterator[EngineServer]:
    server = EngineServer("trtllm")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def watched(tmp_path: Path, server: EngineServer, monkeypatch: pytest.MonkeyPatch) -> Watched:
    unit = Watched(tmp_path / "watch", server.url + "/health")
    monkeypatch.setattr(_engine_watch, "run", unit.run)
    return unit


def test_three_failures_in_a_row_restart_and_are_then_forgotten(watched: Watched, server: EngineServer) -> None:
    assert watched.look() == 0
    server.script = {"health": 503}
    assert watched.look(2) == 0
    server.script = {}
    watched.look()
    server.script = {"health": 503}
    assert watched.look(2) == 0, "a good answer in between begins anew"
    assert watched.look() == 1
    assert watched.restarts[0] == ["systemctl", "restart", "--no-block", "e.service"]
    assert "answers 503" in watched.lines[-1]
    assert watched.look(2) == 1


def test_an_engine_that_still_loads_is_left_alone_until_the_grace_is_over(watched: Watched, server: EngineServer) -> None:
    server.script = {"health": 503}
    assert watched.look(9) == 0
    assert watched.look(3, grace=0) == 1


def test_another_start_of_the_unit_begins_anew(watched: Watched, server: EngineServer) -> None:
    watched.look()
    server.script = {"health": 503}
    watched.look(2)
    watched.shown["InvocationID"] = "2"
    assert watched.look(3) == 0


def test_a_unit_that_does_not_run_is_not_restarted(watched: Watched, server: EngineServer) -> None:
    watched.look()
    server.script = {"health": 503}
    watched.shown["ActiveState"] = "deactivating"
    assert watched.look(5, grace=0) == 0


def test_a_broken_state_file_begins_anew(watched: Watched, server: EngineServer, tmp_path: Path) -> None:
    watched.look()
    (tmp_path / "watch/e.service.json").write_text("{")
    server.script = {"health": 503}
    assert watched.look(3, grace=0) == 1
