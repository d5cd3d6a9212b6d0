"""A kernel image as the emulator starts it fastest: unpacked, so that no emulated processor has to."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .settings import VmError

PACKED = {b"\x28\xb5\x2f\xfd": ["zstd", "-dc"], b"\xfd7zXZ\0": ["xz", "-dc"], b"\x1f\x8b\x08": ["gzip", "-dc"]}


def unpack(vmlinuz: Path, to: Path) -> None:
    """The ELF file within a bzImage. What follows the packed stream makes the tools complain, after they gave all of it."""
    image = vmlinuz.read_bytes()
    for magic, tool in PACKED.items():
        at = image.find(magic)
        while at >= 0:
            done = subprocess.run(tool, input=image[at:], capture_output=True, timeout=120)
            if done.stdout.startswith(b"\x7fELF"):
                to.write_bytes(done.stdout)
                return
            at = image.find(magic, at + 1)
    raise VmError(f"no packed kernel found in {vmlinuz}")
