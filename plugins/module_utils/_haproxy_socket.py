# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HAProxy's command socket. Private to the collection."""

from __future__ import annotations

import errno
import socket

from ._errors import HostError

TIMEOUT = 10.0
_MISTAKES = ("Unknown command", "No such", "Require", "Can't", "Permission denied", "Invalid", "Wrong", "Missing")


def ask(path: str, command: str, timeout: float = TIMEOUT) -> str:
    """Answer to one command; HostError where nobody answers in time or the command is refused."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as talk:
            talk.settimeout(timeout)
            talk.connect(path)
            talk.sendall(command.encode() + b"\n")
            parts = []
            while True:
                part = talk.recv(65536)
                if not part:
                    break
                parts.append(part)
    except OSError as exc:
        why = "nothing listens there" if exc.errno in (errno.ENOENT, errno.ECONNREFUSED) else str(exc)
        raise HostError(f"HAProxy does not answer at {path}: {why}") from exc
    answer = b"".join(parts).decode(errors="replace").strip()
    if answer.startswith(_MISTAKES):
        raise HostError(f"HAProxy refuses {command!r}: {answer.splitlines()[0]}")
    return answer
