# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingerprints as gpg prints them."""

from __future__ import annotations

import pytest
from openpgp_keys import ED25519, ED25519_FINGERPRINT, RSA_FINGERPRINT, TWO_KEYS

from ansible_collections.gpufleet.inference.plugins.module_utils._openpgp import BadKey, fingerprints, normal


def test_fingerprint_is_the_one_that_gpg_prints() -> None:
    assert fingerprints(ED25519) == [ED25519_FINGERPRINT]


def test_every_key_of_a_file_is_seen() -> None:
    assert fingerprints(TWO_KEYS) == [RSA_FINGERPRINT, ED25519_FINGERPRINT]
    assert fingerprints(ED25519 + TWO_KEYS) == [ED25519_FINGERPRINT, RSA_FINGERPRINT, ED25519_FINGERPRINT]


def test_armour_headers_are_no_part_of_the_key() -> None:
    assert fingerprints(ED25519.replace("BLOCK-----\n\n", "BLOCK-----\nVersion: GnuPG v2\nComment: x\n\n", 1)) == [ED25519_FINGERPRINT]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>404</html>",
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEX\n=AAAA\n-----END PGP PUBLIC KEY BLOCK-----",
        ED25519.replace("mDME", "!!!!"),
        ED25519[:200] + "\n-----END PGP PUBLIC KEY BLOCK-----",
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\naGVsbG8=\n-----END PGP PUBLIC KEY BLOCK-----",
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n-----END PGP PUBLIC KEY BLOCK-----",
    ],
)
def test_what_is_no_key_is_said_to_be_none(text: str) -> None:
    with pytest.raises(BadKey):
        fingerprints(text)


def test_people_write_fingerprints_in_many_ways() -> None:
    assert {normal(text) for text in ("ab CD\u00a012", "0xABCD12", "ab:cd:12")} == {"ABCD12"}
