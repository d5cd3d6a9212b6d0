# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a gateway needs beside HAProxy's configuration: a small program and a drop-in of its unit. Private to the collection."""

from __future__ import annotations

import typing as t

from . import _gateway_paths as paths

CORE = ("_errors", "_files", "_gateway_keep", "_gateway_marks", "_gateway_paths", "_haproxy_socket", "_haproxy_state", "_paths", "_state")
"""Names below plugins/module_utils, closed under import."""

_MAIN = """\
\"\"\"Entry of haproxy.service's drop-in: python3 -I FOLDER COMMAND.\"\"\"

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from gpufleet_gateway._gateway_keep import main

raise SystemExit(main())
"""


def program(read: t.Callable[[str], bytes]) -> dict[str, bytes]:
    """File name → content of the program; `read` gives the source of one of CORE."""
    files = {name + ".py": read(name) for name in CORE}
    files["__init__.py"] = b""
    files["__main__.py"] = _MAIN.encode()
    return files


def drop_in(haproxy: str) -> str:
    """State is saved before the process that knows it goes; HAProxy checks the configuration before it is told to take it."""
    helper = f"-/usr/bin/python3 -I {paths.RUNTIME}"
    return f"""\
# Written by Ansible role gpufleet.inference.gpu_gateway.
[Service]
ExecStartPre={helper} start
ExecReload=
ExecReload={helper} save
ExecReload={haproxy} -c -q -f {paths.CONFIG}
ExecReload=/bin/kill -USR2 $MAINPID
ExecStop={helper} save
LimitNOFILE=1048576
"""
