# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway as its configuration is made from: servers, groups of them, limits. Plain values; private to the collection."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, field

DEFAULT_POOL = "default"
SHORT, LONG = "short", "long"
KEEP = ".keep"
"""Suffix of the group that ignores GPU health: what serves when GPU health alone would take too many servers away."""


@dataclass(frozen=True)
class Server:
    """One engine instance behind the gateway."""

    host: str
    instance: str
    address: str
    port: int
    engine: str
    models: tuple[str, ...]
    version: str = ""
    pool: str = DEFAULT_POOL
    failure_domain: str = ""
    maxconn: int = 64
    weight: int = 100
    api_key: str = field(default="", repr=False)
    agent_port: int = 0
    health: str = "/health"
    health_seconds: int = 10

    @property
    def name(self) -> str:
        """Its name in HAProxy, unique in the fleet."""
        return f"{self.host}_{self.instance}"

    @property
    def domain(self) -> str:
        return self.failure_domain or self.host


@dataclass(frozen=True)
class Group:
    """All servers of the same served names and pool: one backend of HAProxy."""

    name: str
    models: tuple[str, ...]
    pool: str
    servers: tuple[Server, ...]
    floor: int
    """Servers that GPU health and maintenance leave."""

    @property
    def keeps(self) -> bool:
        """Whether it needs a second group that ignores GPU health."""
        return self.floor > 0 and any(server.agent_port for server in self.servers)

    @property
    def api_key(self) -> str:
        return self.servers[0].api_key

    @property
    def health(self) -> tuple[str, int]:
        """Path and seconds of the check: the engines' own where all agree, else the one that all have."""
        paths = {server.health for server in self.servers}
        seconds = max(server.health_seconds for server in self.servers)
        return (paths.pop() if len(paths) == 1 else "/health"), seconds


@dataclass(frozen=True)
class Client:
    """Who may ask: a name, and the SHA-256 of its key in capital hexadecimal digits."""

    name: str
    sha256: str = field(repr=False)
    requests_per_minute: int | None = None


@dataclass(frozen=True)
class Gateway:
    """The variables of role gpu_gateway, checked; units are in the names (schemas/gateway.schema.json)."""

    groups: tuple[Group, ...] = ()
    clients: tuple[Client, ...] = ()
    listen: tuple[str, ...] = ("*:8443",)
    certificate: str = ""
    metrics_listen: str = "127.0.0.1:8404"
    paths: tuple[str, ...] = ()
    open: bool = False
    requests_per_minute: int = 0
    body_bytes_max: int = 33554432
    buffer_bytes: int = 262144
    long_tokens: int = 0
    bytes_per_token: float = 4.0
    queue_max: int = 256
    queue_seconds: int = 30
    silence_seconds: int = 600
    body_seconds: int = 30
    reload_seconds: int = 1800
    retry_on: tuple[str, ...] = ()
    retries: int = 2
    max_connections: int = 4000

    @property
    def long_bytes(self) -> int:
        """Size of a request from which it counts as long; 0: sizes do not count."""
        return math.ceil(self.long_tokens * self.bytes_per_token)

    def models(self) -> dict[tuple[str, ...], dict[str, Group]]:
        """Served names → pool → group."""
        found: dict[tuple[str, ...], dict[str, Group]] = {}
        for group in self.groups:
            found.setdefault(group.models, {})[group.pool] = group
        return found


def floor_of(floor: int | str, size: int) -> int:
    """Servers that stay of `size`: a number as it is, a percentage rounded up, never more than there are."""
    wanted = math.ceil(size * int(floor[:-1]) / 100) if isinstance(floor, str) else floor
    return min(wanted, size)


Spec = t.Mapping[str, t.Any]
