# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of haproxy.cfg: what holds for all requests. Pure; private to the collection.

Interface: render(gateway, places, identity) -> text. It holds no secret: keys are in maps (_gateway_files). Valid from HAProxy 2.6 on.
"""

from __future__ import annotations

import typing as t

from ..module_utils._gateway_paths import MARK
from ._gateway_backend import backend_lines
from ._gateway_frontend import frontend_lines
from ._gateway_places import Places
from ._gateway_types import Gateway


def render(gateway: Gateway, places: Places, identity: str = "") -> str:
    """The whole file; `identity` is what the running process shall call itself."""
    sections: list[list[str]] = [
        [f"{MARK}; a change here is lost with the next run."],
        ["global", *([f"description gpufleet {identity}"] if identity else []), *_global(gateway, places)],
        ["defaults", *_defaults(gateway)],
        ["frontend clients", *frontend_lines(gateway, places)],
    ]
    sections += [[f"backend {name}", *lines] for name, lines in backend_lines(gateway, places)]
    sections.append(["backend gpufleet_rates", "stick-table type string len 64 size 100k expire 2m store http_req_rate(1m)"])
    if gateway.metrics_listen:
        sections.append(["frontend metrics", *_metrics(gateway)])
    return "\n\n".join("\n  ".join(section) for section in sections) + "\n"


def _global(gateway: Gateway, places: Places) -> t.Iterator[str]:
    yield "log stdout format raw local0"
    if places.chroot:
        yield f"chroot {places.chroot}"
    if places.user:
        yield f"user {places.user}"
        yield f"group {places.user}"
    yield f"stats socket {places.socket} mode 600 level admin expose-fd listeners"
    yield "stats timeout 30s"
    yield f"server-state-file {places.server_state}"
    yield f"maxconn {gateway.max_connections}"
    # A request is routed by what its buffer shows, and sent again from it.
    yield f"tune.bufsize {gateway.buffer_bytes}"
    yield f"hard-stop-after {gateway.reload_seconds}s"
    # Thousands of servers' checks at the same moment would be a load of their own.
    yield "spread-checks 20"
    if gateway.certificate:
        yield "ssl-default-bind-options ssl-min-ver TLSv1.2"


def _defaults(gateway: Gateway) -> t.Iterator[str]:
    yield "mode http"
    yield "option dontlognull"
    # Tokens leave as they come.
    yield "option http-no-delay"
    # A connection for each request: engines close idle ones early (vLLM after 5 seconds), and a request lost to that race costs more.
    yield "option http-server-close"
    # A client that is gone frees its place in the queue and its GPU.
    yield "option abortonclose"
    # Idle clients are told to close with their next answer, not cut at a reload.
    yield "option idle-close-on-response"
    yield "option redispatch 1"
    yield f"retries {gateway.retries}"
    if gateway.retry_on:
        yield f"retry-on {' '.join(gateway.retry_on)}"
    yield "load-server-state-from-file global"
    yield "timeout connect 5s"
    yield "timeout http-request 10s"
    yield "timeout http-keep-alive 60s"
    yield f"timeout queue {gateway.queue_seconds}s"
    yield f"timeout client {gateway.silence_seconds}s"
    yield f"timeout server {gateway.silence_seconds}s"


def _metrics(gateway: Gateway) -> t.Iterator[str]:
    yield f"bind {gateway.metrics_listen}"
    yield "http-request use-service prometheus-exporter if { path /metrics }"
    yield "http-request return status 404"
