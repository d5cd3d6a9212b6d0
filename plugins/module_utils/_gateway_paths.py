# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a gateway keeps its files. Private to the collection.

Not in _paths: the host core holds that file, and a gateway is no GPU host.
"""

from __future__ import annotations

from ._paths import ETC_DIR, VAR_DIR

MARKS = ETC_DIR + "/gateway_marks.json"
"""Desired administrative state of servers; what the socket is told, and what every start of HAProxy begins with."""
STATE_DIR = VAR_DIR + "/gateway"
SERVER_STATE = STATE_DIR + "/server_state"
RECORD = STATE_DIR + "/record.json"
PREVIOUS = STATE_DIR + "/previous"
"""The files before the last change."""
ORIGINAL = STATE_DIR + "/original.cfg"
"""What was there before this collection came; state absent brings it back."""
RUNTIME = "/opt/gpufleet/lib/gpufleet_gateway"
DROP_IN = "/etc/systemd/system/haproxy.service.d/gpufleet.conf"
UNIT = "haproxy.service"

CONFIG = "/etc/haproxy/haproxy.cfg"
MAPS = "/etc/haproxy/gpufleet"
CLIENTS = MAPS + "/clients.map"
ENGINE_KEYS = MAPS + "/engine_keys.map"
POOLS = MAPS + "/pools.json"
"""Floors and failure domains, for whoever takes servers out."""
MARKS_LOCK = "/run/gpufleet/gateway_marks.lock"
SOCKET = "/run/haproxy/admin.sock"
CHROOT = "/var/lib/haproxy"
USER = "haproxy"
MARK = "# Written by Ansible role gpufleet.inference.gpu_gateway"
"""First words of our configuration; a file without them is somebody else's."""
