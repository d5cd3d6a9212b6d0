# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An OpenAI-compatible endpoint, asked as a client asks it. Private to the collection.

Ready means a real answer: an open port, a 200 on /health and a listed model each come before an engine that cannot generate.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import struct
import time
import typing as t
import urllib.parse
import zlib

from ._errors import HostError

_LARGE = 4 << 20
_WORDS = 300
"""Characters of an answer that an error shows."""


class NotReady(HostError):
    """What is not so yet; `state` is refused | starting | timeout | wrong. Only the last will not mend itself by waiting."""

    def __init__(self, state: str, text: str) -> None:
        super().__init__(text)
        self.state = state


class Answer(t.NamedTuple):
    """What a generation gave; times in seconds from sending the request."""

    text: str
    tokens: int
    first: float
    """To the first piece of text."""
    total: float


class Endpoint:
    """`url` is the base address without /v1; `timeout` bounds each request between two bytes."""

    def __init__(self, url: str, key: str = "", timeout: float = 30.0, ca: str = "", verify: bool = True) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise HostError(f"url is {url!r}; expected http or https, host and port, such as http://127.0.0.1:8000")
        self._parts, self._key, self._timeout = parts, key, timeout
        self._context: t.Optional[ssl.SSLContext] = None
        if parts.scheme == "https":
            self._context = ssl.create_default_context(cafile=ca or None)
            if not verify:
                self._context.check_hostname = False
                self._context.verify_mode = ssl.CERT_NONE

    def health(self, path: str) -> None:
        """200, nothing else."""
        self._json("GET", path, None, parse=False)

    def models(self) -> list[str]:
        """Names that the endpoint serves."""
        data = self._json("GET", "/v1/models", None)
        try:
            return [str(entry["id"]) for entry in data["data"]]
        except (KeyError, TypeError) as exc:
            raise NotReady("wrong", f"/v1/models answers in another form: {str(data)[:_WORDS]}") from exc

    def complete(self, model: str, prompt: str, tokens: int) -> Answer:
        data, took = self._timed("/v1/completions", {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0})
        return self._answer(data, lambda choice: choice["text"], took)

    def chat(self, model: str, prompt: str, tokens: int, image: bool = False) -> Answer:
        """With `image` the question comes with a picture, which only an engine that sees takes."""
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(red_square()).decode()}"}}
        content: t.Any = [picture, {"type": "text", "text": prompt}] if image else prompt
        messages = [{"role": "user", "content": content}]
        data, took = self._timed("/v1/chat/completions", {"model": model, "messages": messages, "max_tokens": tokens, "temperature": 0})
        return self._answer(data, lambda choice: choice["message"]["content"] or choice["message"].get("reasoning_content") or "", took)

    def embed(self, model: str, prompt: str) -> int:
        """Length of the vector."""
        data, _took = self._timed("/v1/embeddings", {"model": model, "input": prompt})
        try:
            return len(data["data"][0]["embedding"])
        except (KeyError, IndexError, TypeError) as exc:
            raise NotReady("wrong", f"/v1/embeddings answers in another form: {str(data)[:_WORDS]}") from exc

    def stream(self, model: str, prompt: str, tokens: int, chat: bool) -> Answer:
        """One streamed generation, counted by its usage: an event may carry several tokens."""
        body: dict[str, t.Any] = {
            "model": model,
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        body.update({"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt})
        path = "/v1/chat/completions" if chat else "/v1/completions"
        begun, first, text, used, ended = time.monotonic(), 0.0, "", 0, False
        connection, response = self._send("POST", path, body)
        try:
            self._expect(response, path)
            for line in response:
                word = line.strip()
                if word == b"data: [DONE]":
                    ended = True
                elif word.startswith(b"data:"):
                    event = json.loads(word[5:])
                    if event.get("error"):
                        raise NotReady("wrong", f"{path} broke off with an error: {str(event['error'])[:_WORDS]}")
                    piece = _piece(event)
                    if piece and not first:
                        first = time.monotonic() - begun
                    text += piece
                    used = int((event.get("usage") or {}).get("completion_tokens") or used)
        except (OSError, http.client.HTTPException) as exc:
            raise self._lost(exc, path) from exc
        except ValueError as exc:
            raise NotReady("wrong", f"{path} streams something that is no JSON: {exc}") from exc
        finally:
            connection.close()
        if not ended or not first:
            raise NotReady("wrong", f"{path} streamed {len(text)} characters and {'ended without [DONE]' if not ended else 'no text'}")
        return Answer(text, used, first, time.monotonic() - begun)

    def _timed(self, path: str, body: t.Mapping[str, t.Any]) -> tuple[t.Any, float]:
        begun = time.monotonic()
        return self._json("POST", path, body), time.monotonic() - begun

    def _answer(self, data: t.Any, text_of: t.Callable[[t.Any], str], took: float) -> Answer:
        try:
            text, used = str(text_of(data["choices"][0])), int((data.get("usage") or {}).get("completion_tokens") or 0)
        except (KeyError, IndexError, TypeError) as exc:
            raise NotReady("wrong", f"the answer has another form: {str(data)[:_WORDS]}") from exc
        if not text and not used:
            raise NotReady("wrong", "the answer is empty")
        return Answer(text, used, took, took)

    def _json(self, method: str, path: str, body: t.Optional[t.Mapping[str, t.Any]], parse: bool = True) -> t.Any:
        connection, response = self._send(method, path, body)
        try:
            self._expect(response, path)
            content = response.read(_LARGE)
        except (OSError, http.client.HTTPException) as exc:
            raise self._lost(exc, path) from exc
        finally:
            connection.close()
        try:
            return json.loads(content) if parse else None
        except ValueError as exc:
            raise NotReady("wrong", f"{path} answers 200 and no JSON: {content[:_WORDS]!r}") from exc

    def _send(
        self, method: str, path: str, body: t.Optional[t.Mapping[str, t.Any]]
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        host, port = str(self._parts.hostname), self._parts.port
        if self._context:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(host, port, timeout=self._timeout, context=self._context)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=self._timeout)
        headers = {"Accept": "application/json, text/event-stream", **({"Authorization": f"Bearer {self._key}"} if self._key else {})}
        content = None if body is None else json.dumps(dict(body))
        try:
            connection.request(method, self._parts.path.rstrip("/") + path, content, {**headers, "Content-Type": "application/json"})
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException) as exc:
            connection.close()
            raise self._lost(exc, path) from exc

    def _expect(self, response: http.client.HTTPResponse, path: str) -> None:
        if response.status == 200:
            return
        words = response.read(_LARGE).decode("utf-8", "replace").strip()[:_WORDS]
        state = "starting" if response.status in (429, 500, 502, 503, 504) else "wrong"
        hint = ": the API key is not accepted" if response.status in (401, 403) else ""
        raise NotReady(state, f"{path} answers {response.status}{hint}{': ' + words if words else ''}")

    def _lost(self, exc: BaseException, path: str) -> NotReady:
        where = self._parts.netloc
        if isinstance(exc, ssl.SSLCertVerificationError):
            return NotReady("wrong", f"{where} has a certificate that is not trusted here: {exc.verify_message}")
        if isinstance(exc, (socket.timeout, TimeoutError)):
            return NotReady("timeout", f"{where}{path} gave nothing for {self._timeout:g} s")
        if isinstance(exc, ConnectionRefusedError):
            return NotReady("refused", f"{where} refuses connections: nothing listens there")
        return NotReady("refused", f"{where}{path} broke off: {exc or type(exc).__name__}")


def red_square(side: int = 64) -> bytes:
    """A PNG (RFC 2083) of one colour, large enough for the patches of any vision encoder."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\xff\0\0" * side) * side
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _piece(event: t.Mapping[str, t.Any]) -> str:
    for choice in event.get("choices") or []:
        delta = choice.get("delta") or {}
        return str(choice.get("text") or delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning") or "")
    return ""
