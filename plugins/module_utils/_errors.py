# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors that a module turns into `fail_json` without a traceback. Private to the collection."""

from __future__ import annotations

import typing as t


class HostError(Exception):
    """Something on the host, or a given value, that a person must act on; the text says what and how."""


class WorkError(HostError):
    """Why work was not done: `reason` is a stable word for programs, the text is for people, `details` are facts beside it."""

    def __init__(self, reason: str, text: str, details: t.Optional[t.Mapping[str, t.Any]] = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.details = dict(details or {})
