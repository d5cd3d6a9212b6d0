# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a gateway keeps its files. Private to the collection."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Places:
    """As on a host whose HAProxy came from the distribution; tests have their own."""

    config: str = "/etc/haproxy/haproxy.cfg"
    clients: str = "/etc/haproxy/gpufleet/clients.map"
    engine_keys: str = "/etc/haproxy/gpufleet/engine_keys.map"
    socket: str = "/run/haproxy/admin.sock"
    server_state: str = "/var/lib/gpufleet/gateway/server_state"
    chroot: str = "/var/lib/haproxy"
    user: str = "haproxy"
