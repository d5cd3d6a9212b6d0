# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secure Boot, kernel lockdown, the key that signs local modules, and what shim has of it. Private to the collection.

Fingerprints are SHA-1, as mokutil and MokManager show them: for people to compare, not to trust.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
import typing as t
import uuid

from ._reader import Reader

_GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
_SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"
_X509 = uuid.UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072").bytes_le
_LIMIT = 1 << 20
_MAX_KEYS = 256
_HEADER, _OWNER = 28, 16
_FRAMEWORK = "/etc/dkms/framework.conf"
_UBUNTU = ("/var/lib/shim-signed/mok/MOK.priv", "/var/lib/shim-signed/mok/MOK.der")
_DKMS = ("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub")
_AKMODS = ("/etc/pki/akmods/private/private_key.priv", "/etc/pki/akmods/certs/public_key.der")


def read_secure_boot(reader: Reader) -> dict[str, t.Any]:
    """The part `host.secure_boot` of gpu_info."""
    lockdown = reader.text(reader.sys("kernel/security/lockdown"), "host.secure_boot.lockdown") or ""
    chosen = re.search(r"\[(\w+)\]", lockdown)
    key, enrolled = read_key(reader), _enrolled(reader)
    known = enrolled is not None and key["fingerprint"] is not None
    return {
        "state": _state(reader),
        "lockdown": chosen.group(1) if chosen else None,
        "mok_enrolled": key["fingerprint"] in (enrolled or []) if known else None,
        "key": key,
        "enrolled": enrolled,
        "requested": read_requested(reader),
    }


def read_key(reader: Reader) -> dict[str, t.Any]:
    """Where modules built on this host get their signature from; `fingerprint` is None where there is no such key yet."""
    private, certificate = _paths(reader)
    content = reader.data(reader.fs(certificate), limit=_LIMIT)
    return {"private": private, "certificate": certificate, "fingerprint": fingerprint(content) if content else None}


def read_requested(reader: Reader) -> t.Optional[list[str]]:
    """Fingerprints that wait for MokManager at the next boot; None where that cannot be read (root can)."""
    folder = reader.sys("firmware/efi/efivars")
    if f"MokNew-{_SHIM}" not in reader.names(folder):
        return []
    content = reader.data(f"{folder}/MokNew-{_SHIM}", "host.secure_boot.requested", _LIMIT)
    return None if content is None else certificates(content[4:])


def fingerprint(certificate: bytes) -> str:
    """SHA-1 of the DER form, hexadecimal."""
    if certificate.startswith(b"-----BEGIN"):
        body = b"".join(line for line in certificate.splitlines() if line and not line.startswith(b"-----"))
        with contextlib.suppress(ValueError):
            certificate = base64.b64decode(body)
    return hashlib.sha1(certificate, usedforsecurity=False).hexdigest()


def certificates(lists: bytes) -> list[str]:
    """Fingerprints of the X.509 entries of EFI signature lists; what is cut off or malformed ends the reading."""
    out: list[str] = []
    at = 0
    while at + _HEADER <= len(lists) and len(out) < _MAX_KEYS:
        size, header, entry = (int.from_bytes(lists[at + 16 + 4 * n : at + 20 + 4 * n], "little") for n in range(3))
        end = at + size
        if size < _HEADER or end > len(lists) or entry <= _OWNER:
            break
        first = at + _HEADER + header
        if lists[at : at + 16] == _X509:
            out += [fingerprint(lists[start + _OWNER : start + entry]) for start in range(first, end - entry + 1, entry)]
        at = end
    return out


def _state(reader: Reader) -> str:
    efi = reader.sys("firmware/efi")
    if not os.path.isdir(efi):
        # A container runtime hides /sys/firmware; a host that booted without EFI has it.
        return "unsupported" if reader.names(reader.sys("firmware")) or not os.path.isdir(reader.sys("firmware")) else "unknown"
    content = reader.data(f"{efi}/efivars/SecureBoot-{_GLOBAL}", "host.secure_boot.state", 16)
    if not content:
        return "unknown"
    # `mokutil --disable-validation`: shim checks nothing, and the kernel takes that as Secure Boot off.
    waived = reader.data(f"{efi}/efivars/MokSBStateRT-{_SHIM}", limit=16) or b"\0"
    return "enabled" if content[-1] == 1 and waived[-1] != 1 else "disabled"


def _enrolled(reader: Reader) -> t.Optional[list[str]]:
    """What shim gave the kernel to trust: its vendor's key and the machine owner's. None where shim left no list."""
    whole = reader.data(reader.sys("firmware/efi/mok-variables/MokListRT"), limit=_LIMIT)
    if whole is not None:
        return certificates(whole)
    # Where the firmware's variables are too small, shim goes on in MokListRT1, MokListRT2 …
    folder = reader.sys("firmware/efi/efivars")
    parts = [name for name in reader.names(folder) if re.fullmatch(rf"MokListRT\d*-{_SHIM}", name)]
    texts = [reader.data(f"{folder}/{name}", "host.secure_boot.enrolled", _LIMIT) for name in sorted(parts)]
    return [one for text in texts for one in certificates((text or b"")[4:])] if parts and None not in texts else None


def _paths(reader: Reader) -> tuple[str, str]:
    """As DKMS decides: its configuration, then the distribution's habit. Where there is akmods instead of DKMS: its pair."""
    names = [_FRAMEWORK, *(f"{_FRAMEWORK}.d/{name}" for name in reader.names(reader.fs(f"{_FRAMEWORK}.d")) if name.endswith(".conf"))]
    text = "\n".join(reader.text(reader.fs(name), limit=_LIMIT) or "" for name in names)
    set_ = dict(re.findall(r"^\s*(mok_signing_key|mok_certificate)=[\"']?(/[^\"'\s]+)", text, re.MULTILINE))
    if len(set_) == 2:
        return set_["mok_signing_key"], set_["mok_certificate"]
    system = reader.text(reader.fs("/etc/os-release")) or ""
    if re.search(r"^ID=\"?ubuntu", system, re.MULTILINE):
        return _UBUNTU
    akmods = os.path.exists(reader.fs(_AKMODS[1])) and not os.path.isdir(reader.fs("/var/lib/dkms"))
    return _AKMODS if akmods else _DKMS
