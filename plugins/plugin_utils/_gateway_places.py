# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the configuration has to know of the gateway's file system. Private to the collection."""

from __future__ import annotations

from dataclasses import dataclass

from ..module_utils import _gateway_paths as paths


@dataclass(frozen=True)
class Places:
    """As on a host whose HAProxy came from the distribution; tests have their own."""

    config: str = paths.CONFIG
    clients: str = paths.CLIENTS
    engine_keys: str = paths.ENGINE_KEYS
    pools: str = paths.POOLS
    socket: str = paths.SOCKET
    server_state: str = paths.SERVER_STATE
    chroot: str = paths.CHROOT
    user: str = paths.USER
