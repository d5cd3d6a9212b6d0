# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether servers may leave: the floor of their group, and one failure domain at a time. Pure; private to the collection."""

from __future__ import annotations

import typing as t

_RUNNING = 2

Groups = t.Mapping[str, t.Mapping[str, t.Any]]
"""Backend → {floor: servers that stay, servers: {server: failure domain}} (pools.json of the gateway)."""
Rows = t.Sequence[t.Mapping[str, str]]
"""Of _haproxy_state.parse."""


def usable(row: t.Mapping[str, str]) -> bool:
    """Whether new requests go to it: its checks and agent say up, no maintenance, a weight."""
    return int(row["srv_op_state"]) == _RUNNING and int(row["srv_admin_state"]) == 0 and int(row["srv_uweight"]) > 0


def refusals(groups: Groups, rows: Rows, leaving: t.Collection[str], out: t.Collection[str], domains_max: int) -> list[str]:
    """Why `leaving` must not leave now, with the numbers; empty if they may. `out`: servers with a mark of anyone already."""
    found = []
    for name, group in sorted(groups.items()):
        domains: t.Mapping[str, str] = group["servers"]
        goes = sorted(set(leaving) & set(domains))
        if not goes:
            continue
        serving = {row["srv_name"] for row in rows if row["be_name"] == name and usable(row)}
        stays = serving - set(leaving)
        # A server that serves nothing takes nothing away.
        if len(stays) < group["floor"] and serving & set(goes):
            found.append(
                f"{name}: {len(serving)} of {len(domains)} servers serve, {', '.join(goes)} would leave {len(stays)},"
                f" its floor is {group['floor']}"
            )
        touched = sorted({domains[server] for server in [*goes, *out] if server in domains})
        if len(touched) > domains_max:
            found.append(
                f"{name}: servers of {len(touched)} failure domains would be out ({', '.join(touched)}), at most {domains_max} may"
            )
    return found
