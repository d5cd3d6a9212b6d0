"""A hub of models on loopback that answers as the real one does, and fails on demand."""

from __future__ import annotations

import sys
import threading
import typing as t
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lab/standin"))
from model_hub import COMMIT, HubServer, known


def serving() -> t.Iterator[HubServer]:
    server = HubServer()
    server.revisions = known()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def hub() -> t.Iterator[HubServer]:
    yield from serving()


@pytest.fixture
def cdn() -> t.Iterator[HubServer]:
    yield from serving()


@pytest.fixture
def job(tmp_path: Path, hub: HubServer) -> dict[str, t.Any]:
    return {
        "name": "llama",
        "store": str(tmp_path / "store"),
        "repo": "org/llama",
        "revision": COMMIT,
        "refresh": False,
        "endpoint": hub.url,
        "path": "",
        "include": [],
        "exclude": ["original/*", "*.pth", "*.gguf", "*.onnx"],
        "sha256": {},
        "patches": {},
        "keep": 1,
        "reserve": 0,
        "workers": 3,
        "stall_timeout": 2.0,
    }
