"""Stand-in of an inference engine's HTTP side: life cycle as measured on real engines, predictable answers, failures on demand.

As in the real ones: vLLM listens only when it is ready, SGLang answers 503 before; after SIGTERM vLLM's /health stays 200 while new
requests get 500, SGLang's turns 503 while they are still taken; vLLM's server ends with status 0 when its engine process dies; keys guard
/v1 only (vLLM) or all but health and metrics (SGLang). Not as in the real ones: text, speed, memory, flags.

As a program: python3 engine_server.py --engine vllm --port 8000 --model chat [--api-key KEY] [--script FILE]; FILE is JSON, read anew for
each request: {"delay": seconds per token, "status": 503, "break": true, "text": "…", "die": true, "blind": true (takes no images)}.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import pathlib
import signal
import sys
import threading
import time
import typing as t

WORDS = (" Paris", ".", " It", " lies", " on", " the", " Seine", ".")
OPEN = {"vllm": (), "sglang": ("/health", "/health_generate", "/ready", "/metrics"), "trtllm": None}
"""Paths that need no key where one is set; for vLLM everything outside /v1; TensorRT-LLM has no keys."""


class EngineServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, engine: str = "vllm", port: int = 0, model: str = "chat", key: str = "") -> None:
        self.engine, self.model, self.key = engine, model, key
        self.script: dict[str, t.Any] = {}
        self.script_file: pathlib.Path | None = None
        self.ready = True
        self.draining = False
        self.active = 0
        self.lock = threading.Lock()
        self.calls: list[str] = []
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def behaviour(self) -> dict[str, t.Any]:
        if self.script_file:
            try:
                return dict(json.loads(self.script_file.read_text()))
            except (OSError, ValueError):
                return {}
        return self.script


class _Handler(http.server.BaseHTTPRequestHandler):
    server: EngineServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: t.Any) -> None: ...

    def do_GET(self) -> None:
        self._route(None)

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        self._route(json.loads(self.rfile.read(size) or b"{}"))

    def _route(self, body: dict[str, t.Any] | None) -> None:
        owner, path = self.server, self.path.partition("?")[0]
        owner.calls.append(path)
        script = owner.behaviour()
        if script.get("die"):
            os._exit(0 if owner.engine == "vllm" else 137)
        if not self._allowed(path):
            return self._json(401, {"error": "Unauthorized"})
        if not owner.ready:
            return self._json(503, {"error": "starting"})
        if path in ("/health", "/health_generate", "/ready"):
            sick = script.get("health") or (503 if owner.draining and owner.engine == "sglang" else 200)
            return self._json(int(sick), {})
        if path == "/v1/models":
            return self._json(200, {"object": "list", "data": [] if script.get("no_models") else [{"id": owner.model, "object": "model"}]})
        if path == "/metrics":
            return self._answer(200, b"vllm:num_requests_running 0\n", "text/plain")
        if body is None or not path.startswith("/v1/"):
            return self._json(404, {"error": "not found"})
        if script.get("status"):
            return self._json(int(script["status"]), {"error": "scripted"})
        if owner.draining and owner.engine == "vllm":
            return self._json(500, {"error": "cannot schedule new futures after shutdown"})
        if body.get("model") != owner.model:
            return self._json(404, {"error": f"model {body.get('model')} does not exist"})
        if script.get("blind") and any(isinstance(message.get("content"), list) for message in body.get("messages") or ()):
            return self._json(400, {"error": "this model takes no images"})
        with owner.lock:
            owner.active += 1
        try:
            self._generate(path, body, script)
        finally:
            with owner.lock:
                owner.active -= 1
        return None

    def _allowed(self, path: str) -> bool:
        owner = self.server
        free = OPEN[owner.engine]
        if not owner.key or free is None or path in free or (owner.engine == "vllm" and not path.startswith("/v1")):
            return True
        return self.headers.get("Authorization") == f"Bearer {owner.key}"

    def _generate(self, path: str, body: dict[str, t.Any], script: dict[str, t.Any]) -> None:
        if path == "/v1/embeddings":
            return self._json(200, {"data": [{"embedding": [0.0] * 16}]})
        count = int(body.get("max_tokens") or 16)
        words = [script["text"]] if "text" in script else [WORDS[n % len(WORDS)] for n in range(count)]
        chat = path.endswith("chat/completions")
        usage = {"prompt_tokens": 5, "completion_tokens": len(words)}
        delay = float(script.get("delay", 0))
        if not body.get("stream"):
            time.sleep(delay * len(words))
            text = "".join(words)
            choice = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
            return self._json(200, {"choices": [{**choice, "index": 0, "finish_reason": "length"}], "usage": usage})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for number, word in enumerate(words):
            time.sleep(delay)
            if script.get("break") and number == len(words) // 2:
                return self._event({"error": {"message": "engine died"}}) if script["break"] == "event" else None
            self._event({"choices": [{"delta": {"content": word}} if chat else {"text": word}]})
        self._event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")
        return None

    def _event(self, data: dict[str, t.Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(data).encode() + b"\n\n")
        self.wfile.flush()

    def _json(self, status: int, data: dict[str, t.Any]) -> None:
        self._answer(status, json.dumps(data).encode(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=sorted(OPEN), default="vllm")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", default="chat")
    parser.add_argument("--api-key", default="")
    parser.add_argument("--script", type=pathlib.Path)
    parser.add_argument("--load-seconds", type=float, default=0.5)
    parser.add_argument("--drain-seconds", type=float, default=0)
    options = parser.parse_args()
    if options.engine == "vllm":
        time.sleep(options.load_seconds)  # not even a port before it is ready
    server = EngineServer(options.engine, options.port, options.model, options.api_key)
    server.script_file = options.script
    if options.engine != "vllm":
        server.ready = False
        threading.Timer(options.load_seconds, lambda: setattr(server, "ready", True)).start()

    def drain(_signal: int, _frame: t.Any) -> None:
        server.draining = True
        threading.Thread(target=_end, args=(server, options.drain_seconds)).start()

    signal.signal(signal.SIGTERM, drain)
    server.serve_forever(poll_interval=0.05)


def _end(server: EngineServer, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while server.active and (server.engine == "sglang" or time.monotonic() < deadline):
        time.sleep(0.02)
    server.shutdown()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
