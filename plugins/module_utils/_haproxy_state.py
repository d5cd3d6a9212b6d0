# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HAProxy's server state: read from its socket, kept in the file that it reads when it starts. Private to the collection.

The format is that of `show servers state`, version 1 (HAProxy's management guide): a number, a line with the names of the columns, a line a
server. What a start must know of a server that has no line yet is its administrative state alone.
"""

from __future__ import annotations

import typing as t

HEADER = (
    "# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight"
    " srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state srv_agent_state"
    " bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port srv_check_addr srv_agent_addr srv_agent_port"
)
MAINT, DRAIN = 0x01, 0x08
"""Bits of srv_admin_state that the command socket sets; the others come from configuration, tracking and name resolution."""
BITS = {"ready": 0, "maint": MAINT, "drain": DRAIN}

Row = dict[str, str]


def parse(text: str) -> list[Row]:
    """One row a server; nothing of a text in another format."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or lines[0] != ["1"] or lines[1][:1] != ["#"]:
        return []
    names = lines[1][1:]
    return [dict(zip(names, values)) for values in lines[2:] if len(values) == len(names)]


def admin_state(row: t.Mapping[str, str]) -> str:
    """ready | maint | drain, as the socket set it."""
    bits = int(row["srv_admin_state"])
    return "maint" if bits & MAINT else "drain" if bits & DRAIN else "ready"


def servers_of(config: str) -> dict[str, list[str]]:
    """Server → backends that have it, of a configuration file."""
    found: dict[str, list[str]] = {}
    backend = ""
    for line in config.splitlines():
        words = line.split()
        if words and not line[0].isspace():
            backend = words[1] if words[0] == "backend" and len(words) > 1 else ""
        elif len(words) > 2 and words[0] == "server" and backend:
            found.setdefault(words[1], []).append(backend)
    return found


def with_marks(text: str, marks: t.Mapping[str, str], groups: t.Mapping[str, t.Sequence[str]]) -> str:
    """The state with every mark in it. `marks`: server → ready, maint or drain; `groups`: as servers_of says; other rows go."""
    rows = [row for row in parse(text) if not groups or row["be_name"] in groups.get(row["srv_name"], ())]
    names = list(rows[0]) if rows else HEADER.split()[1:]
    known = {(row["be_name"], row["srv_name"]) for row in rows}
    for row in rows:
        if row["srv_name"] in marks:
            row["srv_admin_state"] = str(int(row["srv_admin_state"]) & ~(MAINT | DRAIN) | BITS[marks[row["srv_name"]]])
    for server, state in sorted(marks.items()):
        rows += [_new_row(names, backend, server, state) for backend in groups.get(server, ()) if (backend, server) not in known]
    lines = ["1", "# " + " ".join(names), *(" ".join(row[name] for name in names) for row in rows)]
    return "\n".join(lines) + "\n"


def _new_row(names: t.Sequence[str], backend: str, server: str, state: str) -> Row:
    """Of a server that HAProxy has not had yet: up until its checks say otherwise, as at any first start."""
    values = dict.fromkeys(names, "0")
    values.update(be_id="1", be_name=backend, srv_id="1", srv_name=server, srv_addr="-", srv_op_state="2", srv_admin_state=str(BITS[state]))
    values.update(
        srv_uweight="100", srv_iweight="100", srv_check_status="6", srv_check_result="3", srv_check_health="4", srv_check_state="6"
    )
    for name in ("srv_fqdn", "srvrecord", "srv_check_addr", "srv_agent_addr"):
        if name in values:
            values[name] = "-"
    return values
