# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the running HAProxy says of its servers, against the floor. Pure; private to the collection."""

from __future__ import annotations

import typing as t

from ._contracts import Finding, named_finding
from ._gateway_types import Gateway

SOURCE = "docs/gateway.md"
_RUNNING = 2
"""srv_op_state of a server whose checks and agent say that it is up (HAProxy's management guide, show servers state)."""


def serving(row: t.Mapping[str, t.Any]) -> bool:
    """Whether new requests go to it: up, in no maintenance, with a weight."""
    return int(row["operation"]) == _RUNNING and int(row["admin"]) == 0 and int(row["weight"]) > 0


def below_floor(gateway: Gateway, info: t.Mapping[str, t.Any]) -> t.Iterator[Finding]:
    """One finding for each group with fewer servers than its floor; nothing of a gateway that does not run yet."""
    rows = info.get("servers") or []
    for group in gateway.groups:
        known = [row for row in rows if row["backend"] == group.name]
        up = [row for row in known if serving(row)]
        if known and len(up) < group.floor:
            out = ", ".join(sorted(row["server"] for row in known if not serving(row)))
            message = f"{group.name} has {len(up)} of {len(known)} servers, its floor is {group.floor}; out: {out}."
            rest = {
                "found": f"{len(up)} servers",
                "needed": f"at least {group.floor}",
                "fix": "Look at the servers named here: engine, GPU health, marks.",
            }
            yield named_finding("gateway", "below_floor", "warn", message, SOURCE, subject=group.name, **rest)
