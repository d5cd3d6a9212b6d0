# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers of the same served names and pool are one group. Pure; private to the collection."""

from __future__ import annotations

import re
import typing as t

from ._contracts import Finding, bad_variable
from ._gateway_types import DEFAULT_POOL, LONG, SHORT, Group, Server, floor_of

SOURCE = "schemas/gateway.schema.json"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")


def group_servers(servers: t.Sequence[Server], floor: int | str, by_size: bool) -> tuple[tuple[Group, ...], list[Finding]]:
    """Groups in the order of their names, and what keeps servers from being one; `by_size`: pools are short and long."""
    wrong: list[Finding] = []
    members: dict[tuple[tuple[str, ...], str], list[Server]] = {}
    for server in servers:
        members.setdefault((tuple(sorted(set(server.models))), server.pool), []).append(server)
    wrong += _twice(servers)
    wrong += _shared_names([models for models, _pool in members])
    groups: dict[str, Group] = {}
    for (models, pool), found in sorted(members.items()):
        name = f"{_NOT_IN_NAMES.sub('_', models[0])}.{pool}"
        if name in groups:
            wrong.append(
                _bad("backends", f"{' and '.join((groups[name].models[0], models[0]))}, both {name} in HAProxy", "other served names")
            )
        wrong += _one_key(name, found)
        groups[name] = Group(name, models, pool, tuple(sorted(found, key=lambda server: server.name)), floor_of(floor, len(found)))
    wrong += _pools(list(groups.values()), by_size)
    return tuple(groups.values()), wrong


def _bad(variable: str, shown: str, expected: str, nearest: str | None = None) -> Finding:
    return bad_variable("gateway", f"gpu_gateway_{variable}", shown, expected, nearest, SOURCE)


def _twice(servers: t.Sequence[Server]) -> t.Iterator[Finding]:
    for what, of in (
        ("host and instance", lambda server: server.name),
        ("address and port", lambda server: f"{server.address}:{server.port}"),
    ):
        seen: dict[str, Server] = {}
        for server in servers:
            key = of(server)
            if key in seen:
                yield _bad(
                    "backends", f"{server.host}/{server.instance} and {seen[key].host}/{seen[key].instance} ({key})", f"another {what}"
                )
            seen[key] = server


def _shared_names(models: t.Sequence[tuple[str, ...]]) -> t.Iterator[Finding]:
    """A served name leads to one set of servers; two sets that share one name would divide its requests in a way nobody asked for."""
    distinct = sorted(set(models))
    for index, one in enumerate(distinct):
        for other in distinct[index + 1 :]:
            if set(one) & set(other):
                name = sorted(set(one) & set(other))[0]
                yield _bad(
                    "backends", f"{name}, served as {', '.join(one)} and as {', '.join(other)}", "the same models on all servers of a name"
                )


def _one_key(name: str, servers: t.Sequence[Server]) -> t.Iterator[Finding]:
    """HAProxy writes the key before it chooses the server."""
    if len({server.api_key for server in servers}) > 1:
        other, *_more = (server for server in servers if server.api_key != servers[0].api_key)
        shown = f"{name}, where {servers[0].name} and {other.name} have different api_keys"
        yield _bad("backends", shown, "one api_key for all servers of a model and pool")


def _pools(groups: t.Sequence[Group], by_size: bool) -> t.Iterator[Finding]:
    wanted = (SHORT, LONG) if by_size else (DEFAULT_POOL,)
    for group in groups:
        if by_size and group.pool not in (*wanted, DEFAULT_POOL):
            yield _bad(
                "backends", f"pool {group.pool} of {group.models[0]}", "pool short or long, since gpu_gateway_long_tokens is set", "short"
            )
        if not by_size and group.pool != DEFAULT_POOL and any(g.models == group.models and g.pool != group.pool for g in groups):
            shown = f"{group.models[0]} in pool {group.pool} and others, and gpu_gateway_long_tokens 0"
            yield _bad("backends", shown, "one pool for a model, or a size that tells them apart", "gpu_gateway_long_tokens: 8000")
