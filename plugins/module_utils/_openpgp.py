# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingerprints of an OpenPGP public key, as `gpg --show-keys` prints them, without gpg. Private to the collection.

A key file can carry several keys, and apt would trust each of them: all primary keys are looked at.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import typing as t

_ARMOUR = re.compile(r"-----BEGIN PGP PUBLIC KEY BLOCK-----\s*?\n(.*?)-----END PGP PUBLIC KEY BLOCK-----", re.DOTALL)
_PUBLIC_KEY = 6
"""Tag of a primary key's packet (RFC 9580, 5.5.1.1)."""


class BadKey(ValueError):
    """Not an armoured OpenPGP public key."""


def fingerprints(armoured: str) -> list[str]:
    """Of each primary key, upper case hexadecimal; BadKey if there is none."""
    found = [_fingerprint(body) for block in _ARMOUR.findall(armoured) for tag, body in _packets(_dearmoured(block)) if tag == _PUBLIC_KEY]
    if not found:
        raise BadKey("it holds no OpenPGP public key")
    return found


def normal(fingerprint: str) -> str:
    """As people write one: with spaces, colons, in lower case, with 0x."""
    text = re.sub(r"[\s:]", "", fingerprint).upper()
    return text[2:] if text.startswith("0X") else text


def _dearmoured(block: str) -> bytes:
    """Headers end with an empty line, where there are any; the checksum line begins with =."""
    lines = [line.strip() for line in block.splitlines()]
    start = next((number + 1 for number, line in enumerate(lines) if not line), 0)
    try:
        return base64.b64decode("".join(line for line in lines[start:] if not line.startswith("=")), validate=True)
    except binascii.Error as exc:
        raise BadKey(f"its base64 cannot be read ({exc})") from exc


def _packets(data: bytes) -> t.Iterator[tuple[int, bytes]]:
    """(tag, body) of each packet; lengths in the old and the new format (RFC 9580, 4.2)."""
    at = 0
    while at < len(data):
        head = data[at]
        if not head & 0x80:
            raise BadKey("its packets cannot be read")
        try:
            tag, size, at = _new(data, at) if head & 0x40 else _old(data, at)
        except IndexError as exc:
            raise BadKey("it ends in the middle of a packet") from exc
        if at + size > len(data):
            raise BadKey("it ends in the middle of a packet")
        yield tag, data[at : at + size]
        at += size


def _new(data: bytes, at: int) -> tuple[int, int, int]:
    tag, first = data[at] & 0x3F, data[at + 1]
    if first < 192:
        return tag, first, at + 2
    if first < 224:
        return tag, ((first - 192) << 8) + data[at + 2] + 192, at + 3
    if first == 255:
        return tag, int.from_bytes(data[at + 2 : at + 6], "big"), at + 6
    raise BadKey("it has a packet of unknown length, which keys have not")


def _old(data: bytes, at: int) -> tuple[int, int, int]:
    width = {0: 1, 1: 2, 2: 4}.get(data[at] & 3)
    if width is None:
        raise BadKey("it has a packet of unknown length, which keys have not")
    return (data[at] >> 2) & 0xF, int.from_bytes(data[at + 1 : at + 1 + width], "big"), at + 1 + width


def _fingerprint(body: bytes) -> str:
    if body[:1] == b"\x04":
        return hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body).hexdigest().upper()  # noqa: S324 - what version 4 defines
    if body[:1] == b"\x06":
        return hashlib.sha256(b"\x9b" + len(body).to_bytes(4, "big") + body).hexdigest().upper()
    raise BadKey(f"it is a key of version {body[0] if body else '?'}; known are 4 and 6")
