# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time bounds that a module is given: 0 ends the work at once, infinity no system call takes. Private to the collection."""

from __future__ import annotations

import typing as t

from ._errors import HostError

LONGEST = 7 * 86400


def check_seconds(params: t.Mapping[str, t.Any], *names: str, least: float = 1) -> None:
    """HostError for the first of these parameters that is no time from `least` to LONGEST seconds (NaN is none either)."""
    for name in names:
        if not least <= params[name] <= LONGEST:
            raise HostError(f"{name} is {params[name]:g}; expected seconds from {least:g} to {LONGEST}")
