# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secure Boot facts: shim's lists as the firmware stores them, and the key that signs here."""

from __future__ import annotations

import base64
import hashlib
import uuid
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _secure_boot

EFIVARS = "sys/firmware/efi/efivars/"
SHIM = "-605dab50-e046-4300-abb6-3dd810dd8b23"
X509, SHA256 = "a5c059a1-94e4-4aa7-87b5-ab155c2bf072", "c1c41626-504c-4092-aca9-41f936934328"
ATTRIBUTES = b"\6\0\0\0"
OURS, VENDOR, OTHER = b"\x30\x82\x03\x01ours", b"\x30\x82\x03\x02vendor", b"\x30\x82\x03\x03other"


def listed(*entries: bytes, kind: str = X509) -> bytes:
    """An EFI signature list for each entry, as mokutil and shim write them."""
    out = b""
    for entry in entries:
        size = 16 + len(entry)
        out += uuid.UUID(kind).bytes_le + b"".join(n.to_bytes(4, "little") for n in (28 + size, 0, size)) + b"o" * 16 + entry
    return out


def mark(certificate: bytes) -> str:
    return hashlib.sha1(certificate, usedforsecurity=False).hexdigest()


def test_enrolled_and_requested_keys_are_told_apart(host: Any) -> None:
    host.write("var/lib/dkms/mok.pub", OURS)
    host.write(f"{EFIVARS}MokListRT{SHIM}", ATTRIBUTES + listed(b"h" * 32, kind=SHA256) + listed(VENDOR))
    host.write(f"{EFIVARS}MokNew{SHIM}", ATTRIBUTES + listed(OURS))
    found = _secure_boot.read_secure_boot(host.reader())
    assert (found["mok_enrolled"], found["enrolled"], found["requested"]) == (False, [mark(VENDOR)], [mark(OURS)])
    assert found["key"] == {"private": "/var/lib/dkms/mok.key", "certificate": "/var/lib/dkms/mok.pub", "fingerprint": mark(OURS)}
    host.write(f"{EFIVARS}MokListRT{SHIM}", ATTRIBUTES + listed(VENDOR, OURS))
    assert _secure_boot.read_secure_boot(host.reader())["mok_enrolled"] is True


def test_long_list_goes_on_in_further_variables_and_the_kernels_copy_wins(host: Any) -> None:
    host.write(f"{EFIVARS}MokListRT{SHIM}", ATTRIBUTES + listed(VENDOR))
    host.write(f"{EFIVARS}MokListRT1{SHIM}", ATTRIBUTES + listed(OURS))
    host.write(f"{EFIVARS}MokListTrustedRT{SHIM}", ATTRIBUTES + b"\1")
    assert _secure_boot.read_secure_boot(host.reader())["enrolled"] == [mark(VENDOR), mark(OURS)]
    host.write("sys/firmware/efi/mok-variables/MokListRT", listed(OTHER))
    assert _secure_boot.read_secure_boot(host.reader())["enrolled"] == [mark(OTHER)]


@pytest.mark.parametrize("broken", [b"", b"x" * 27, listed(OURS)[:-1], listed(OURS)[:16] + b"\0" * 12, listed(OURS)[:16] + b"\xff" * 60])
def test_malformed_list_ends_the_reading(broken: bytes) -> None:
    assert _secure_boot.certificates(listed(VENDOR) + broken) == [mark(VENDOR)]


def test_validation_that_shim_waives_is_no_secure_boot(host: Any) -> None:
    host.write(EFIVARS + "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", ATTRIBUTES + b"\1")
    assert _secure_boot.read_secure_boot(host.reader())["state"] == "enabled"
    host.write(f"{EFIVARS}MokSBStateRT{SHIM}", ATTRIBUTES + b"\1")
    assert _secure_boot.read_secure_boot(host.reader())["state"] == "disabled"


def test_number_of_keys_is_bounded() -> None:
    assert len(_secure_boot.certificates(listed(*[OURS] * 1000))) == 256


def test_pem_and_der_are_one_certificate() -> None:
    pem = b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(OURS) + b"-----END CERTIFICATE-----\n"
    assert _secure_boot.fingerprint(pem) == _secure_boot.fingerprint(OURS) == mark(OURS)


def test_where_dkms_has_its_key(host: Any) -> None:
    def certificate() -> str:
        return str(_secure_boot.read_key(host.reader())["certificate"])

    host.write("etc/pki/akmods/certs/public_key.der", OTHER)
    assert certificate() == "/etc/pki/akmods/certs/public_key.der"
    host.write("var/lib/dkms/dkms_dbversion")
    assert certificate() == "/var/lib/dkms/mok.pub"
    host.write("etc/os-release", "NAME=Ubuntu\nID=ubuntu\n")
    assert certificate() == "/var/lib/shim-signed/mok/MOK.der"
    host.write("etc/dkms/framework.conf", "# mok_certificate=/no\nmok_signing_key=/site/a.key\n")
    host.write("etc/dkms/framework.conf.d/site.conf", 'mok_certificate="/site/a.der"\n')
    assert certificate() == "/site/a.der"
