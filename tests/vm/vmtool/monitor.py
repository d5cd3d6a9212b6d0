"""The emulator's human monitor: one command, its answer."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

from .settings import VmError

PROMPT = b"(qemu) "
ECHO = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")


class Monitor:
    def __init__(self, path: Path) -> None:
        self.path = path

    def ask(self, command: str, timeout: float = 120) -> str:
        """What it says to the command; an error is one of ours."""
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(timeout)
            link.connect(str(self.path))
            _until_prompt(link, timeout)
            link.sendall(command.encode() + b"\n")
            said = _until_prompt(link, timeout)
        answer = ECHO.sub(b"", said).decode(errors="replace").split("\n", 1)[-1].strip()
        if "Error" in answer or "unknown command" in answer:
            raise VmError(f"{command}: {answer}")
        return answer


def _until_prompt(link: socket.socket, timeout: float) -> bytes:
    end, said = time.monotonic() + timeout, b""
    while not said.endswith(PROMPT):
        if time.monotonic() > end:
            raise VmError("the emulator's monitor gave no answer")
        part = link.recv(65536)
        if not part:
            raise VmError("the emulator's monitor went away")
        said += part
    return said
