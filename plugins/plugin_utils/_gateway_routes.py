# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From model name and size of a request to the servers that answer it. Pure; private to the collection."""

from __future__ import annotations

import typing as t

from ._gateway_replies import error, reply
from ._gateway_types import DEFAULT_POOL, KEEP, LONG, SHORT, Gateway, Group

_ORDER = {True: (LONG, DEFAULT_POOL), False: (SHORT, DEFAULT_POOL, LONG)}
"""Pools that a long request and a short one may go to, best first: servers for short requests may not take long ones at all."""


def route_lines(gateway: Gateway) -> t.Iterator[str]:
    """Rules that set txn.group; whoever has none by then is told why."""
    sets = gateway.models()
    yield "http-request set-var(txn.model) req.body,json_query('$.model')"
    if len(sets) == 1:
        # An engine takes a request without a model for its own; with one set of servers that is no question.
        (first, *_more), *_others = sets
        yield f"http-request set-var(txn.model) str({first}) unless {{ var(txn.model) -m found }}"
    if gateway.long_tokens:
        yield f"acl long_request req.body_size gt {gateway.long_bytes}"
    for number, (models, pools) in enumerate(sets.items()):
        yield f"acl model_{number} var(txn.model) -m str {' '.join(models)}"
        for group in pools.values():
            yield from (f"acl up_{number}_{group.pool} nbsrv({name}) gt 0" for name in names(group))
        for size, order in _orders(pools, bool(gateway.long_tokens)):
            yield from _choices(number, f"model_{number}{size}", order)
    unnamed = f"The request names no model within its first {gateway.buffer_bytes} bytes."
    yield reply(400, error(unnamed, "model_missing", 400), "unless { var(txn.model) -m found }")
    yield reply(404, error("No such model here; GET /v1/models lists them.", "model_not_found", 404), "unless { var(txn.group) -m found }")
    yield "use_backend %[var(txn.group)]"


def names(group: Group) -> tuple[str, ...]:
    """Backends of HAProxy that a group is."""
    return (group.name, group.name + KEEP) if group.keeps else (group.name,)


def _orders(pools: dict[str, Group], by_size: bool) -> t.Iterator[tuple[str, list[Group]]]:
    """Condition on the size, and groups in the order in which they are tried."""
    if not by_size or len(pools) == 1:
        yield "", list(pools.values())
        return
    for is_long, condition in ((True, " long_request"), (False, " !long_request")):
        order = [pools[pool] for pool in _ORDER[is_long] if pool in pools]
        yield condition, order or list(pools.values())


def _choices(number: int, condition: str, order: list[Group]) -> t.Iterator[str]:
    """The first group with a server; where GPU health leaves fewer than the floor, its twin that asks the engines alone."""
    worse = ""
    for group in order:
        here = f" up_{number}_{group.pool}" if worse else ""
        yield f"http-request set-var(txn.group) str({group.name}) if {condition}{worse}{here}"
        if group.keeps:
            below = f"{{ nbsrv({group.name}) lt {group.floor} }} {{ nbsrv({group.name}{KEEP}) gt 0 }}"
            yield f"http-request set-var(txn.group) str({group.name}{KEEP}) if {condition}{worse} {below}"
        worse += f" !up_{number}_{group.pool}"
