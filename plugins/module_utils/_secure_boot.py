# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secure Boot, kernel lockdown, and whether the key that signs local modules is enrolled. Private to the collection."""

from __future__ import annotations

import os
import re
import typing as t

from ._reader import Reader

_STATE = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_KEYS = "MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"
_LOCAL_KEYS = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub")


def read_secure_boot(reader: Reader) -> dict[str, t.Any]:
    """The part `host.secure_boot` of gpu_info."""
    lockdown = reader.text(reader.sys("kernel/security/lockdown"), "host.secure_boot.lockdown") or ""
    chosen = re.search(r"\[(\w+)\]", lockdown)
    return {"state": _state(reader), "lockdown": chosen.group(1) if chosen else None, "mok_enrolled": _enrolled(reader)}


def _state(reader: Reader) -> str:
    efi = reader.sys("firmware/efi")
    if not os.path.isdir(efi):
        # A container runtime hides /sys/firmware; a host that booted without EFI has it.
        return "unsupported" if reader.names(reader.sys("firmware")) or not os.path.isdir(reader.sys("firmware")) else "unknown"
    content = reader.data(f"{efi}/efivars/{_STATE}", "host.secure_boot.state")
    if not content:
        return "unknown"
    return "enabled" if content[-1] == 1 else "disabled"


def _enrolled(reader: Reader) -> t.Optional[bool]:
    """Whether shim's list holds the machine's own key; None where there is no such key or no list."""
    enrolled = reader.data(reader.sys(f"firmware/efi/efivars/{_KEYS}"))
    keys = [key for key in (reader.data(reader.fs(path)) for path in _LOCAL_KEYS) if key]
    if enrolled is None or not keys:
        return None
    return any(key in enrolled for key in keys)
