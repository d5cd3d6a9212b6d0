"""A stand-in engine on loopback."""

from __future__ import annotations

import sys
import threading
import typing as t
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lab/standin"))
from engine_server import EngineServer


@pytest.fixture
def engine() -> t.Iterator[EngineServer]:
    server = EngineServer()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()
