"""A hub of models on loopback that answers as the real one does, and fails on demand."""

from __future__ import annotations

import hashlib
import http.server
import json
import struct
import threading
import typing as t
from pathlib import Path

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NEWER = "89abcdef0123456789abcdef0123456789abcdef"


def safetensors(payload: bytes) -> bytes:
    header = json.dumps({"w": {"dtype": "U8", "shape": [len(payload)], "data_offsets": [0, len(payload)]}}).encode()
    return struct.pack("<Q", len(header)) + header + payload


def model(seed: int = 1) -> dict[str, bytes]:
    weights = {f"model-0000{n}-of-00002.safetensors": safetensors(bytes([seed, n]) * 100_000) for n in (1, 2)}
    index = {"metadata": {"total_size": 400_000}, "weight_map": {f"w{n}": name for n, name in enumerate(weights)}}
    return {
        "config.json": json.dumps({"model_type": "llama", "rope_theta": 10000.0, "seed": seed}).encode(),
        "model.safetensors.index.json": json.dumps(index).encode(),
        "original/consolidated.00.pth": b"left out",
        "sub/folder/vocab.txt": b"a\nb\n",
        **weights,
    }


class HubServer(http.server.ThreadingHTTPServer):
    """`revisions`: commit or branch → (commit, files). `faults`: file → how it fails, each used up once unless it is 'always …'."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.revisions: dict[str, tuple[str, dict[str, bytes]]] = {}
        self.faults: dict[str, str] = {}
        self.token = ""
        self.calls: list[tuple[str, str]] = []
        """(path, Range header)"""
        self.elsewhere: HubServer | None = None
        """Where large files are redirected to."""
        self.seen_tokens: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: t.Any) -> None: ...

    def do_GET(self) -> None:
        self.server.calls.append((self.path, self.headers.get("Range", "")))
        self.server.seen_tokens.append(self.headers.get("Authorization", ""))
        parts = self.path.partition("?")[0].strip("/").split("/")
        if self.server.token and self.headers.get("Authorization") != f"Bearer {self.server.token}" and parts[0] != "store":
            return self._error(401, "GatedRepo" if self.headers.get("Authorization") else "")
        if parts[:2] == ["api", "models"]:
            return self._manifest(parts[-1])
        if parts[0] == "store":
            return self._file(parts[1], "/".join(parts[2:]), True)
        return self._file(parts[3], "/".join(parts[4:]), False)

    def _manifest(self, revision: str) -> None:
        if revision not in self.server.revisions:
            return self._error(404, "RevisionNotFound")
        commit, files = self.server.revisions[revision]
        siblings = []
        for name, content in files.items():
            entry: dict[str, t.Any] = {"rfilename": name, "size": len(content)}
            entry["blobId"] = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            if name.endswith(".safetensors"):
                entry["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 135}
            siblings.append(entry)
        self._answer(200, json.dumps({"sha": commit, "siblings": siblings}).encode())

    def _file(self, revision: str, name: str, store: bool) -> None:
        owner = self.server
        content = owner.revisions[revision][1][name]
        fault = owner.faults.get(name, "")
        if not fault.startswith("always"):
            owner.faults.pop(name, None)
        kind = fault.rpartition(" ")[2]
        if kind == "500":
            return self._error(500, "")
        if owner.elsewhere and not store and name.endswith(".safetensors"):
            return self._answer(302, b"", {"Location": f"{owner.elsewhere.url}/store/{revision}/{name}"})
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        body = content[start:]
        if kind == "wrong":
            body = bytes(byte ^ 1 for byte in body)
        if kind == "cut":
            self._answer(206 if start else 200, body, length=len(body), send=len(body) // 2)
            self.close_connection = True
            return None
        return self._answer(206 if start else 200, body)

    def _error(self, code: int, word: str) -> None:
        self._answer(code, b"", {"X-Error-Code": word} if word else {})

    def _answer(self, code: int, body: bytes, headers: t.Mapping[str, str] | None = None, length: int = -1, send: int = -1) -> None:
        self.send_response(code)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body) if length < 0 else length))
        self.end_headers()
        self.wfile.write(body if send < 0 else body[:send])
        self.wfile.flush()


def serving() -> t.Iterator[HubServer]:
    server = HubServer()
    server.revisions = {COMMIT: (COMMIT, model()), "main": (COMMIT, model()), NEWER: (NEWER, model(2))}
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
