# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The frontend: who may ask what, and which servers answer. Pure; private to the collection."""

from __future__ import annotations

import typing as t

from ._gateway_places import Places
from ._gateway_replies import error, model_list, reply
from ._gateway_routes import route_lines
from ._gateway_types import Gateway


def frontend_lines(gateway: Gateway, places: Places) -> t.Iterator[str]:
    """Cheap refusals first; the body is waited for when nothing but it is missing."""
    for place in gateway.listen:
        tls = f" ssl crt {gateway.certificate} alpn h2,http/1.1" if gateway.certificate else ""
        yield f"bind {place}{tls}"
    yield "log global"
    yield "option httplog"
    yield "option forwardfor"
    yield from _readiness(gateway)
    yield from _allowed(gateway)
    yield from _clients(gateway, places)
    yield from _rates(gateway)
    too_large = error(f"The request is larger than {gateway.body_bytes_max} bytes.", "request_too_large", 413)
    yield reply(413, too_large, f"if {{ req.hdr_val(content-length) gt {gateway.body_bytes_max} }}")
    names = [name for group in gateway.groups for name in group.models]
    yield reply(200, model_list(sorted(set(names))), "if { path /v1/models } { method GET HEAD }")
    yield f"http-request wait-for-body time {gateway.body_seconds}s if {{ method POST }}"
    yield reply(413, too_large, f"if {{ req.body_size gt {gateway.body_bytes_max} }}")
    yield from route_lines(gateway)


def _readiness(gateway: Gateway) -> t.Iterator[str]:
    """/readyz, for what stands before the gateway: every model has a server."""
    sets = list(gateway.models().values())
    for number, pools in enumerate(sets):
        for group in pools.values():
            yield f"acl served_{number} nbsrv({group.name}) gt 0"
    text = "content-type text/plain string"
    for number in range(len(sets)):
        yield f"http-request return status 503 {text} unready if {{ path /readyz }} !served_{number}"
    status, word = (200, "ready") if sets else (503, "unready")
    yield f"http-request return status {status} {text} {word} if {{ path /readyz }}"


def _allowed(gateway: Gateway) -> t.Iterator[str]:
    exact = [path for path in gateway.paths if not path.endswith("/")]
    below = [path for path in gateway.paths if path.endswith("/")]
    if exact:
        yield f"acl allowed_path path -m str {' '.join(exact)}"
    if below:
        yield f"acl allowed_path path -m beg {' '.join(below)}"
    # A path that its reader could take for another one: the allow-list has seen only what is written.
    yield "acl odd_path path -m sub .. // % \\\\"
    refused = error("This path does not pass the gateway.", "path_not_allowed", 403)
    yield reply(403, refused, "unless allowed_path")
    yield reply(403, refused, "if odd_path")
    yield reply(405, error("GET, HEAD and POST pass the gateway.", "method_not_allowed", 405), "unless { method GET HEAD POST }")


def _clients(gateway: Gateway, places: Places) -> t.Iterator[str]:
    if gateway.open:
        yield "http-request set-var(txn.client) src"
    else:
        yield "http-request set-var(txn.key) req.hdr(x-api-key),sha2(256),hex if { req.hdr(x-api-key) -m found }"
        bearer = "req.fhdr(authorization),regsub(^[Bb]earer[[:space:]]+,,),sha2(256),hex"
        yield f"http-request set-var(txn.key) {bearer} if {{ req.fhdr(authorization) -m reg -i ^bearer[[:space:]] }}"
        yield f"http-request set-var(txn.client) var(txn.key),map_str({places.clients}) if {{ var(txn.key) -m found }}"
        missing = error("No valid API key: send Authorization: Bearer KEY.", "invalid_api_key", 401)
        yield reply(401, missing, "unless { var(txn.client) -m found }", {"WWW-Authenticate": "Bearer"})
    # The client's key ends here; a group's own is added by its backend.
    yield "http-request del-header authorization"
    yield "http-request del-header x-api-key"
    yield "http-request capture var(txn.client) len 63"


def _rates(gateway: Gateway) -> t.Iterator[str]:
    own = [client for client in gateway.clients if client.requests_per_minute is not None]
    if not gateway.requests_per_minute and not any(client.requests_per_minute for client in own):
        return
    yield "http-request track-sc0 var(txn.client) table gpufleet_rates"
    yield f"http-request set-var(txn.limit) int({gateway.requests_per_minute})"
    for client in own:
        yield f"http-request set-var(txn.limit) int({client.requests_per_minute}) if {{ var(txn.client) -m str {client.name} }}"
    yield "http-request set-var(txn.over) sc_http_req_rate(0),sub(txn.limit)"
    slower = error("More requests in a minute than this client may send.", "rate_limit_exceeded", 429)
    yield reply(429, slower, "if { var(txn.limit) -m int gt 0 } { var(txn.over) -m int gt 0 }", {"Retry-After": "10"})
