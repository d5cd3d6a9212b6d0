# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway's files as text. Pure; private to the collection.

Interface: files(gateway, places) -> path → (text, mode). Keys of clients are there as SHA-256 only; the engines' keys have to be readable.
"""

from __future__ import annotations

import hashlib
import json

from ._gateway_config import render
from ._gateway_places import Places
from ._gateway_types import KEEP, Gateway

CONFIG, SECRET, PUBLIC = 0o640, 0o600, 0o644


def files(gateway: Gateway, places: Places) -> dict[str, tuple[str, int]]:
    """Every file of the gateway; HAProxy reads them as root before it becomes its own user."""
    clients = sorted(f"{client.sha256} {client.name}\n" for client in gateway.clients)
    keys = [f"{name} {group.api_key}\n" for group in gateway.groups if group.api_key for name in (group.name, group.name + KEEP)]
    maps = {
        places.clients: ("".join(clients), SECRET),
        places.engine_keys: ("".join(keys), SECRET),
        places.pools: (_pools(gateway), PUBLIC),
    }
    return {places.config: (render(gateway, places, _identity(render(gateway, places), maps)), CONFIG), **maps}


def _pools(gateway: Gateway) -> str:
    """Floor and failure domains of each group, twins as their group."""
    groups = {group.name: {"floor": group.floor, "servers": {s.name: s.domain for s in group.servers}} for group in gateway.groups}
    return json.dumps({"groups": groups}, indent=1, sort_keys=True) + "\n"


def identity_of(made: dict[str, tuple[str, int]], places: Places) -> str:
    """What a process says of itself that was made with these files."""
    return next(line.split()[2] for line in made[places.config][0].splitlines() if line.startswith("  description gpufleet "))


def _identity(config: str, maps: dict[str, tuple[str, int]]) -> str:
    """One hash for all files: a process that was started with other ones has to be told of the new ones."""
    return hashlib.sha256(json.dumps([config, sorted(maps.items())]).encode()).hexdigest()
