# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPU health agent: two sockets, one for HAProxy's agent-check and one for HTTP probes, answered from a cached result.

Private to the collection. It never touches a GPU itself, so a driver that hangs cannot hang it: the result ages and is no answer any more.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
import typing as t

from ._gpu_agent_words import MAX_AGE, Record, probe, word

_PATIENCE = 2.0
_FIRST_FD = 3
"""sd_listen_fds(3): sockets that systemd passes begin here."""


def read_record(path: str) -> t.Optional[Record]:
    """The cached result; None where there is none that can be read."""
    try:
        with open(path, encoding="utf-8") as source:
            record = json.load(source)
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def passed(count: int) -> list[socket.socket]:
    """Sockets of systemd: the agent's, then HTTP's."""
    return [socket.socket(fileno=_FIRST_FD + number) for number in range(count)]


def serve(agent: socket.socket, http: t.Optional[socket.socket], path: str, stop: t.Callable[[], bool], max_age: float = MAX_AGE) -> None:
    """Answer until `stop` says so; one client at a time, each for two seconds at most."""
    with selectors.DefaultSelector() as waiting:
        waiting.register(agent, selectors.EVENT_READ, _word)
        if http is not None:
            waiting.register(http, selectors.EVENT_READ, _http)
        while not stop():
            for key, _mask in waiting.select(timeout=0.5):
                _one(t.cast(socket.socket, key.fileobj), key.data, path, max_age)


def _one(listening: socket.socket, answer: t.Callable[[socket.socket, str, float], None], path: str, max_age: float) -> None:
    try:
        client, _address = listening.accept()
    except OSError:
        return
    with client:
        client.settimeout(_PATIENCE)
        try:
            answer(client, path, max_age)
        except OSError:
            return


def _word(client: socket.socket, path: str, max_age: float) -> None:
    said = word(read_record(path), time.time(), max_age)
    if said:
        client.sendall(said.encode() + b"\n")


def _http(client: socket.socket, path: str, max_age: float) -> None:
    request = b""
    while b"\r\n\r\n" not in request and len(request) < 8192:
        part = client.recv(4096)
        if not part:
            return
        request += part
    words = request.split(b"\r\n", 1)[0].split()
    if len(words) == 3 and words[0] in (b"GET", b"HEAD") and words[1].partition(b"?")[0] == b"/health":
        status, document = probe(read_record(path), time.time(), max_age)
    else:
        status, document = 404, {"error": "only GET /health is here"}
    body = json.dumps(document).encode() + b"\n"
    head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'Unavailable'}\r\nContent-Type: application/json\r\n"
    client.sendall(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + (b"" if words[:1] == [b"HEAD"] else body))
