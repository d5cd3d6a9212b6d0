# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network interfaces with their addresses. Private to the collection."""

from __future__ import annotations

import json

from ._subprocess import run


def read_interfaces() -> dict[str, list[str]]:
    """Name → addresses, IPv4 and IPv6, of interfaces that are up; empty where `ip` (iproute2) is not there or says something else."""
    result = run(["ip", "-json", "address", "show", "up"], timeout=10)
    try:
        rows = json.loads(result.out) if result.success else []
        return {str(row["ifname"]): [str(one["local"]) for one in row.get("addr_info") or () if one.get("local")] for row in rows if row}
    except (ValueError, KeyError, TypeError):
        return {}
