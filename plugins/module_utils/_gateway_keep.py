# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What HAProxy's unit runs before a start, a reload and a stop: the server state, with every mark in it. Private to the collection.

A mark therefore holds from the first moment of a new process, also after a kill, when the state that was saved last is old.
"""

from __future__ import annotations

import sys
import typing as t

from . import _gateway_paths as paths
from ._errors import HostError
from ._files import read_text, write_text
from ._gateway_marks import read_marks
from ._haproxy_socket import ask
from ._haproxy_state import servers_of, with_marks

COMMANDS = ("start", "save")


def keep(command: str, config: str, socket: str, marks: str, state: str) -> None:
    """`save`: from the process that runs; `start`: from what was saved last."""
    text = ask(socket, "show servers state") if command == "save" else read_text(state) or ""
    wanted = {server: mark["state"] for server, mark in read_marks(marks).items()}
    write_text(state, with_marks(text, wanted, servers_of(read_text(config) or "")), mode=0o600, dir_mode=0o700)


def main(argv: t.Optional[t.Sequence[str]] = None) -> int:
    """Returns the exit status; the unit goes on in any case, since a gateway without state is better than none."""
    words = list(sys.argv[1:] if argv is None else argv)
    if len(words) != 1 or words[0] not in COMMANDS:
        sys.stderr.write(f"expected one of {', '.join(COMMANDS)}\n")
        return 2
    try:
        keep(words[0], paths.CONFIG, paths.SOCKET, paths.MARKS, paths.SERVER_STATE)
    except HostError as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    return 0
