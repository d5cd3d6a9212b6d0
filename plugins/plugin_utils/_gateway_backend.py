# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The backends: health, queue, the engine's key. Pure; private to the collection."""

from __future__ import annotations

import typing as t

from ._gateway_places import Places
from ._gateway_replies import error, quote, reply
from ._gateway_routes import names
from ._gateway_types import KEEP, Gateway, Group, Server


def backend_lines(gateway: Gateway, places: Places) -> t.Iterator[tuple[str, list[str]]]:
    """Name and lines of each backend."""
    for group in gateway.groups:
        for name in names(group):
            yield name, list(_lines(gateway, places, group, name))


def _lines(gateway: Gateway, places: Places, group: Group, name: str) -> t.Iterator[str]:
    model = group.models[0]
    path, seconds = group.health
    yield "balance leastconn"
    if gateway.queue_max:
        full = error(f"The queue of {model} is full ({gateway.queue_max} requests wait).", "queue_full", 503)
        yield reply(503, full, f"if {{ queue({name}) ge {gateway.queue_max} }}", {"Retry-After": "5"})
    # What HAProxy itself answers when nobody took the request.
    nobody = f"No server took this request for {model}: none is up, or {gateway.queue_seconds} seconds in the queue were not enough."
    silent = f"The server of {model} sent nothing for {gateway.silence_seconds} seconds."
    broken = f"The server of {model} broke off before it answered."
    for status, message, kind in ((503, nobody, "unavailable"), (504, silent, "timeout"), (502, broken, "bad_gateway")):
        yield f"http-error status {status} content-type application/json string {quote(error(message, kind, status))}"
    if group.api_key:
        yield f'http-request set-header authorization "Bearer %[str({name}),map_str({places.engine_keys})]"'
    yield "option httpchk"
    yield f"http-check send meth GET uri {path} ver HTTP/1.1 hdr host gateway"
    yield "http-check expect status 200"
    # Ten wrong answers in a row make the checks quicker; they alone decide, since a client can provoke errors too.
    yield f"timeout check {seconds}s"
    yield "default-server check inter 5s fastinter 2s fall 3 rise 2 observe layer7 error-limit 10 on-error fastinter"
    for server in group.servers:
        yield _server(server, with_agent=not name.endswith(KEEP))


def _server(server: Server, with_agent: bool) -> str:
    address = f"[{server.address}]" if ":" in server.address else server.address
    agent = f" agent-check agent-port {server.agent_port} agent-inter 5s" if server.agent_port and with_agent else ""
    return f"server {server.name} {address}:{server.port} weight {server.weight} maxconn {server.maxconn}{agent}"
