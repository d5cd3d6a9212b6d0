"""make_modules.py FOLDER NAME…: kernel modules without content, which kmod, depmod and dracut take for modules. Nothing loads them."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

NAMES = b"\0.shstrtab\0.modinfo\0"


def section(name: int, kind: int, offset: int, size: int) -> bytes:
    return struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, size, 0, 0, 1, 0)


def module(name: str) -> bytes:
    """An x86_64 ELF object with the one section that modinfo reads."""
    info = f"license=GPL\0name={name}\0".encode()
    start = 64 + len(NAMES) + len(info)
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, start, 0, 64, 0, 0, 64, 3, 1)
    sections = bytes(64) + section(1, 3, 64, len(NAMES)) + section(11, 1, 64 + len(NAMES), len(info))
    return head + NAMES + info + sections


folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for one in sys.argv[2:]:
    (folder / f"{one}.ko").write_bytes(module(one))
