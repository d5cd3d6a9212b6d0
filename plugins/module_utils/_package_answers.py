# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What package managers answer, whichever they are. Private to the collection."""

from __future__ import annotations

import typing as t

from ._errors import HostError


class PackageError(HostError):
    """Why packages were not changed; `reason` is a stable word, the text is for people."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Simulation(t.NamedTuple):
    """What a transaction would do."""

    install: dict[str, str]
    """name → version"""
    remove: list[str]
    error: str
    """Empty, or why it cannot be done."""
