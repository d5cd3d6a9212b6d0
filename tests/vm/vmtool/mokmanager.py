"""The operator at the console, for shim's MokManager: what a person has to do to enrol a key, done over the serial line."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

from .settings import VmError

SCREEN = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")
DOWN, ENTER = b"\x1b[B", b"\r"


class Operator:
    """Connect before the reboot: MokManager waits ten seconds for the first key."""

    def __init__(self, console: Path) -> None:
        self.link = socket.socket(socket.AF_UNIX)
        self.link.connect(str(console))
        self.seen = b""

    def close(self) -> None:
        self.link.close()

    def expect(self, text: str, timeout: float = 600) -> None:
        """Until the screen shows it; what was shown before does not count again."""
        end = time.monotonic() + timeout
        self.link.settimeout(1)
        while time.monotonic() < end:
            plain = SCREEN.sub(b"", self.seen)
            at = plain.find(text.encode())
            if at >= 0:
                self.seen = plain[at + len(text) :]
                return
            try:
                self.seen += self.link.recv(65536)
            except TimeoutError:
                continue
        raise VmError(f"the console never showed {text!r}; its last words: {SCREEN.sub(b'', self.seen)[-400:]!r}")

    def press(self, *keys: bytes) -> None:
        """One at a time: an emulated firmware loses keys that come together."""
        for key in keys:
            time.sleep(0.7)
            self.link.sendall(key)

    def enrol(self, password: str) -> None:
        """Enroll MOK, Continue, Yes, the password, Reboot."""
        self.expect("Press any key to perform MOK management")
        self.press(ENTER)
        self.expect("Perform MOK management")
        self.press(DOWN, ENTER)
        self.expect("[Enroll MOK]")
        self.press(DOWN, ENTER)
        self.expect("Enroll the key(s)?")
        self.press(DOWN, ENTER)
        self.expect("Password:")
        self.press(*(letter.encode() for letter in password), ENTER)
        self.expect("Perform MOK management")
        self.press(ENTER)
