# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs and port after a stop: what the instance left behind is ended, a stranger is named and left alone, memory must come back."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _engine_free, _engine_leftovers
from ansible_collections.gpufleet.inference.plugins.module_utils._engine_leftovers import MARK, Use
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError

ME = "root" if os.geteuid() == 0 else os.environ.get("USER", "")


def alive(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is None


@pytest.fixture
def start() -> Iterator[t.Callable[[str], subprocess.Popen[bytes]]]:
    """A process that carries an instance's mark; it is ready once its environment can be read."""
    begun: list[subprocess.Popen[bytes]] = []

    def one(mark: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **({MARK: mark} if mark else {})}
        begun.append(
            subprocess.Popen([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"], env=environment, stdout=-1)
        )
        assert begun[-1].stdout is not None
        assert begun[-1].stdout.readline() == b"up\n"
        return begun[-1]

    yield one
    for process in begun:
        process.kill()
        process.wait()


def holders(monkeypatch: pytest.MonkeyPatch, *processes: subprocess.Popen[bytes], memory: tuple[str, ...] = ()) -> None:
    def use(_gpus: t.Sequence[str]) -> Use:
        return Use(frozenset(process.pid for process in processes if alive(process)), memory, "")

    monkeypatch.setattr(_engine_free, "gpu_use", use)


def free(**over: t.Any) -> list[int]:
    given = {
        "name": "chat",
        "user": ME,
        "units": (),
        "gpus": ["GPU-0"],
        "port": 0,
        "wait": 0.2,
        "sleep": lambda _seconds: time.sleep(0.05),
        **over,
    }
    return _engine_free.free(**given)


def test_nothing_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    holders(monkeypatch)
    assert free() == []


def test_what_the_instance_left_behind_is_ended(start: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    left = start("chat")
    threading.Thread(target=left.wait, daemon=True).start()  # as its parent would
    holders(monkeypatch, left)
    assert free() == [left.pid]
    assert left.wait(5) == -15


@pytest.mark.parametrize("mark", ["", "chat-2", "cha"])
def test_a_stranger_is_named_and_left_alone(start: t.Any, monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    stranger = start(mark)
    holders(monkeypatch, stranger)
    with pytest.raises(HostError, match=rf"still in use after 0\.2 s: GPU memory by .*pid {stranger.pid}"):
        free()
    assert alive(stranger)


def test_the_mark_alone_is_not_enough(start: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may write an environment; the user must be the instance's, or root."""
    stranger = start("chat")
    holders(monkeypatch, stranger)
    monkeypatch.setattr(_engine_leftovers, "_uid", lambda _pid: 12345)
    with pytest.raises(HostError, match="still in use"):
        free()
    assert alive(stranger)


def test_memory_that_nobody_holds_is_waited_for_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    holders(monkeypatch, memory=("GPU-0 (3.1 GiB)",))
    with pytest.raises(HostError, match=r"memory of GPU-0 \(3\.1 GiB\), though no process is listed"):
        free()


def test_a_port_that_somebody_in_another_namespace_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    holders(monkeypatch)
    monkeypatch.setattr(_engine_free, "port_holder", lambda _port: 0)
    with pytest.raises(HostError, match="port 8000 by a process in another pid namespace"):
        free(port=8000)
