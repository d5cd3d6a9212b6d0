# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""State files of ours that this version cannot read: a planner that took them for absent would undo what they say.

Private to the collection, pure.
"""

from __future__ import annotations

import typing as t

from ..module_utils import _paths
from ._contracts import Finding, named_finding

PACKAGE_RECORDS = (_paths.DRIVER_RECORD, _paths.CUDA_RECORD)
"""Driver and CUDA share a repository: neither takes it away without having read the record of the other."""


def unreadable_state(component: str, source: str, facts: t.Mapping[str, t.Any], paths: t.Iterable[str]) -> list[Finding]:
    """A blocking finding for each of these files that is broken or from a newer version."""
    errors = (facts.get("state_files") or {}).get("errors") or {}
    return [
        named_finding(
            component,
            "state_unreadable",
            "block",
            f"{path} cannot be used: {errors[path]}.",
            source,
            found=str(errors[path]),
            needed="a file that this version understands",
            fix=f"Repair or remove {path}, or use the newer version of gpufleet.inference that wrote it.",
            subject=path,
        )
        for path in paths
        if path in errors
    ]
