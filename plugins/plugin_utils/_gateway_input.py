# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site asks of a gateway, checked as a whole. Pure; private to the collection.

Interface: read(desired, matrix) -> (Gateway or None, findings). All that is wrong is said at once; no finding holds a key.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import typing as t
from pathlib import Path

from ._contracts import Finding, bad_variable
from ._gateway_groups import group_servers
from ._gateway_types import Client, Gateway, Server, Spec
from ._matrix_schema import problems

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

SOURCE = "schemas/gateway.schema.json"
PREFIX = "gpu_gateway_"
PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/messages",
    "/v1/models",
    "/v1/rerank",
    "/v1/responses",
    "/v1/score",
)
"""What passes unless the site says otherwise: an engine's own key guards some of its routes only."""
RETRY_ON = ("conn-failure", "empty-response", "500", "503")
"""Answers that another server is asked after. 500 is what vLLM answers once it was told to stop, 503 what a full one answers."""
FLOOR = "50%"
MAX_CONNECTIONS_OF_SERVER = 64
_SCHEMA = Path(__file__).resolve().parents[2] / "schemas" / "gateway.schema.json"
_KEY = re.compile(r"[\x21-\x7e]{16,256}\Z")
_ENGINE_KEY = re.compile(r"[\x21-\x7e]{1,512}\Z")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}\Z")
_HIDDEN = "********"
# What HAProxy itself needs of a buffer beside the request: its reserve (tune.maxrewrite) and its own notation of headers.
_BUFFER_RESERVE = 4096


@functools.lru_cache(maxsize=1)
def schema() -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", json.loads(_SCHEMA.read_text(encoding="utf-8")))


def read(desired: Spec, matrix: Matrix) -> tuple[Gateway | None, list[Finding]]:
    """The gateway, or None where it cannot be made; every finding is blocking."""
    given = {key: value for key, value in desired.items() if value is not None}
    masked = _masked(given)
    wrong = [_misfit(where, what) for where, what in problems(masked, schema(), schema())]
    # The $ of a pattern is also before a last line end, which would begin a line of configuration.
    wrong += [bad(where, repr(text), "a text without line ends and control characters") for where, text in _control(masked)]
    if wrong:
        return None, wrong
    clients, found = _clients(given.get("keys", []), bool(given.get("open")))
    wrong += found
    servers, found = _servers(given["backends"], matrix)
    wrong += found
    plain: dict[str, t.Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    for key in ("keys", "backends", "floor"):
        plain.pop(key, None)
    values: dict[str, t.Any] = {"paths": PATHS, "retry_on": RETRY_ON, **plain, "clients": clients}
    gateway = Gateway(**values)
    groups, found = group_servers(servers, given.get("floor", FLOOR), bool(gateway.long_tokens))
    wrong += [*found, *_conflicts(gateway)]
    return (None if wrong else Gateway(**{**vars(gateway), "groups": groups})), wrong


def bad(variable: str, shown: str, expected: str, nearest: str | None = None) -> Finding:
    return bad_variable("gateway", PREFIX + variable, shown, expected, nearest, SOURCE)


def _misfit(where: str, what: str) -> Finding:
    nearest = what.partition("did you mean ")[2].partition("?")[0] or None
    expected = "as the role's documentation says" if "is missing" not in what else "it to be given"
    shown = f"not usable: {what.rstrip('.')}" if "is missing" not in what else "missing"
    return bad(where, shown, expected, nearest)


def _masked(given: Spec) -> dict[str, t.Any]:
    """The same without keys, since the schema's messages show values."""

    def mask(items: t.Any, names: tuple[str, ...]) -> t.Any:
        if not isinstance(items, list):
            return items
        return [{k: _HIDDEN if k in names and isinstance(v, str) else v for k, v in i.items()} if isinstance(i, dict) else i for i in items]

    out = dict(given)
    for name, secrets in (("keys", ("key", "sha256")), ("backends", ("api_key",))):
        if name in out:
            out[name] = mask(out[name], secrets)
    return out


def _control(value: t.Any, where: str = "") -> t.Iterator[tuple[str, str]]:
    if isinstance(value, str) and not value.isprintable():
        yield where, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _control(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _control(item, f"{where}[{index}]")


def _clients(keys: list[dict[str, t.Any]], everyone: bool) -> tuple[tuple[Client, ...], list[Finding]]:
    wrong: list[Finding] = []
    clients: list[Client] = []
    if not keys and not everyone:
        wrong.append(
            bad("keys", "empty", "at least one client with a key", "one client, or gpu_gateway_open: true for a gateway without keys")
        )
    if keys and everyone:
        wrong.append(bad("open", "true although gpu_gateway_keys has clients", "one of the two", "false"))
    seen: dict[str, str] = {}
    for index, item in enumerate(keys):
        where, name = f"keys[{index}]", item["name"]
        if ("key" in item) == ("sha256" in item):
            wrong.append(bad(where, f"{name}, with {'both' if 'key' in item else 'neither'}", "either key or sha256"))
            continue
        if "key" in item and not _KEY.match(item["key"]):
            wrong.append(bad(f"{where}.key", f"a text of {len(item['key'])} characters", "16 to 256 printable characters without spaces"))
            continue
        if "sha256" in item and not _SHA256.match(item["sha256"]):
            wrong.append(
                bad(f"{where}.sha256", f"a text of {len(item['sha256'])} characters", "64 hexadecimal digits", "printf %s KEY | sha256sum")
            )
            continue
        digest = item["sha256"] if "sha256" in item else hashlib.sha256(item["key"].encode()).hexdigest()
        client = Client(name, digest.upper(), item.get("requests_per_minute"))
        if name in (known.name for known in clients):
            wrong.append(bad(f"{where}.name", name, "a name of its own: another client has it"))
        if client.sha256 in seen:
            wrong.append(bad(where, f"{name}, with the key of {seen[client.sha256]}", "a key of its own"))
        seen[client.sha256] = name
        clients.append(client)
    return tuple(clients), wrong


def _servers(specs: list[dict[str, t.Any]], matrix: Matrix) -> tuple[list[Server], list[Finding]]:
    # Imported late: the life cycle rows pull in the flag tables, which a bad input never needs.
    from ._gateway_health import health_of

    wrong: list[Finding] = []
    servers: list[Server] = []
    for index, spec in enumerate(specs):
        key = spec.get("api_key", "")
        if key and not _ENGINE_KEY.match(key):
            wrong.append(bad(f"backends[{index}].api_key", f"a text of {len(key)} characters", "printable characters without spaces"))
        path, seconds = health_of(matrix, spec["engine"], spec.get("version", ""))
        values = {"maxconn": MAX_CONNECTIONS_OF_SERVER, **spec, "models": tuple(spec["models"]), "health": path, "health_seconds": seconds}
        servers.append(Server(**values))
    return servers, wrong


def _conflicts(gateway: Gateway) -> t.Iterator[Finding]:
    limit = gateway.buffer_bytes - _BUFFER_RESERVE
    if gateway.long_bytes > limit:
        tokens = int(limit / gateway.bytes_per_token)
        shown = f"{gateway.long_tokens} ({gateway.long_bytes} bytes)"
        yield bad("long_tokens", shown, f"at most what gpu_gateway_buffer_bytes shows of a request, {limit} bytes", str(tokens))
    ports: dict[str, str] = {}
    for name, places in (("listen", gateway.listen), ("metrics_listen", (gateway.metrics_listen,) if gateway.metrics_listen else ())):
        for place in places:
            port = place.rpartition(":")[2]
            if not 0 < int(port) < 65536:
                yield bad(name, place, "a port from 1 to 65535", "8443")
            elif port in ports and ("*" in (place[0], ports[port][0]) or place == ports[port]):
                yield bad(name, place, f"another port than {ports[port]}", "127.0.0.1:8404")
            ports.setdefault(port, place)
