# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A FUSE file system with one file whose reads are taken and never answered, until told to: real uninterruptible sleep.

    python3 blocking_fuse.py MOUNTPOINT          # root; mounts, prints "ready", serves
    touch MOUNTPOINT.release                     # answers all waiting reads with an error, and lets later ones through

A process that reads MOUNTPOINT/blocked sleeps where not even SIGKILL ends it, as in a hung driver: the kernel waits
without a way out for a request that the server has taken. Speaks the kernel's protocol (7.x) directly, needs no library.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = (
    1, 2, 3, 14, 15, 17, 18, 25, 26, 27, 28, 29, 36, 42,
)  # fmt: skip
HEADER = struct.Struct("<IIQQIIII")
OUT = struct.Struct("<IiQ")
EIO, ENOENT, ENOSYS = 5, 2, 38
NAME = b"blocked"


def attributes(node: int) -> bytes:
    mode = 0o040755 if node == 1 else 0o100644
    size = 0 if node == 1 else 4096
    return struct.pack("<QQQQQQIIIIIIIIII", node, size, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


class Server:
    """Answers everything but reads of the one file."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.waiting: list[int] = []
        self.open_for_all = False

    def reply(self, unique: int, body: bytes = b"", error: int = 0) -> None:
        try:
            os.write(self.device, OUT.pack(OUT.size + len(body), -error, unique) + body)
        except FileNotFoundError:  # the caller is gone
            return

    def release(self) -> None:
        self.open_for_all = True
        for unique in self.waiting:
            self.reply(unique, error=EIO)
        self.waiting = []

    def handle(self, message: bytes) -> None:
        _length, opcode, unique, node, *_ids = HEADER.unpack_from(message)
        body = message[HEADER.size :]
        if opcode == INIT:
            self.reply(unique, struct.pack("<IIIIHHIIHHIIIII", 7, 26, 65536, 0, 12, 9, 65536, 1, 0, 0, 0, 0, 0, 0, 0)[:64].ljust(64, b"\0"))
        elif opcode == LOOKUP:
            if body.split(b"\0")[0] == NAME:
                self.reply(unique, struct.pack("<QQQQII", 2, 0, 3600, 3600, 0, 0) + attributes(2))
            else:
                self.reply(unique, error=ENOENT)
        elif opcode == GETATTR:
            self.reply(unique, struct.pack("<QII", 3600, 0, 0) + attributes(node))
        elif opcode in (OPEN, OPENDIR):
            self.reply(unique, struct.pack("<QII", 1, 1 if opcode == OPEN else 0, 0))  # direct I/O: a read asks us
        elif opcode == READ:
            if self.open_for_all:
                self.reply(unique, error=EIO)
            else:
                self.waiting.append(unique)
        elif opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            return  # no reply is expected; an interrupt is what we ignore
        elif opcode in (RELEASE, FLUSH, RELEASEDIR, READDIR):
            self.reply(unique)
        else:
            self.reply(unique, error=ENOSYS)


def main(mountpoint: str) -> None:
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    data = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"blocked", os.fsencode(mountpoint), b"fuse", 0, data):
        raise SystemExit(f"mount: {os.strerror(ctypes.get_errno())}")
    server = Server(device)
    poller = select.poll()
    poller.register(device, select.POLLIN)
    print("ready", flush=True)
    while True:
        if poller.poll(100):
            try:
                server.handle(os.read(device, 1 << 17))
            except OSError:  # unmounted
                return
        if not server.open_for_all and os.path.exists(mountpoint + ".release"):
            server.release()


if __name__ == "__main__":
    main(sys.argv[1])
