"""A hub of models that answers as the Hugging Face Hub does to /api/models/… and /…/resolve/…, and fails on demand. A stand-in.

Used in-process by the unit tests, and as a program on a lab host: python3 model_hub.py PORT FAULTS_FILE, which is read anew for each
request: {"token": "…", "faults": {"FILE": "always slow"}}.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import pathlib
import struct
import sys
import time
import typing as t

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

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.revisions: dict[str, tuple[str, dict[str, bytes]]] = {}
        self.faults: dict[str, str] = {}
        self.token = ""
        self.calls: list[tuple[str, str]] = []
        """(path, Range header)"""
        self.elsewhere: HubServer | None = None
        """Where large files are redirected to."""
        self.seen_tokens: list[str] = []
        self.control: pathlib.Path | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: t.Any) -> None: ...

    def do_GET(self) -> None:
        if self.server.control:
            wanted = json.loads(self.server.control.read_text() or "{}")
            self.server.token, self.server.faults = wanted.get("token", ""), wanted.get("faults", {})
        self.server.calls.append((self.path, self.headers.get("Range", "")))
        self.server.seen_tokens.append(self.headers.get("Authorization", ""))
        parts = self.path.partition("?")[0].strip("/").split("/")
        if self.server.token and self.headers.get("Authorization") != f"Bearer {self.server.token}" and parts[0] != "store":
            self._error(401, "GatedRepo" if self.headers.get("Authorization") else "")
            return
        if parts[:2] == ["api", "models"]:
            self._manifest(parts[-1])
        elif parts[0] == "store":
            self._file(parts[1], "/".join(parts[2:]), True)
        else:
            self._file(parts[3], "/".join(parts[4:]), False)

    def _manifest(self, revision: str) -> None:
        if revision not in self.server.revisions:
            self._error(404, "RevisionNotFound")
            return
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
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        code, body = (206 if start else 200), content[start:]
        kind = fault.rpartition(" ")[2]
        if kind == "500":
            self._error(500, "")
        elif owner.elsewhere and not store and name.endswith(".safetensors"):
            self._answer(302, b"", {"Location": f"{owner.elsewhere.url}/store/{revision}/{name}"})
        elif kind == "slow":
            self._answer(code, b"", length=len(body))
            self._drip(body)
        elif kind == "cut":
            self._answer(code, body, length=len(body), send=len(body) // 2)
            self.close_connection = True
        else:
            self._answer(code, bytes(byte ^ 1 for byte in body) if kind == "wrong" else body)

    def _drip(self, body: bytes) -> None:
        for at in range(0, len(body), 2_000):
            self.wfile.write(body[at : at + 2_000])
            self.wfile.flush()
            time.sleep(1)

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


def main() -> None:
    server = HubServer(int(sys.argv[1]))
    server.control = pathlib.Path(sys.argv[2])
    server.revisions = known()
    server.serve_forever()


def known() -> dict[str, tuple[str, dict[str, bytes]]]:
    return {COMMIT: (COMMIT, model()), "main": (COMMIT, model()), NEWER: (NEWER, model(2))}


if __name__ == "__main__":
    main()
