# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of component `power`, and what its settings are called in the role. Private to the collection, pure."""

from __future__ import annotations

import typing as t

from ..module_utils._gpu_settings_rules import Names, Problem
from ._contracts import Finding, Severity, named_finding

NAMES = Names("gpu_power_limit", "gpu_power_persistence", "gpu_power_rules")
GOVERNOR = "gpu_power_governor_"
SOURCE = "docs/device_settings.md"
_DEVICE = "the device's own constraints, as NVML reports them"


def finding(
    name: str,
    severity: Severity,
    message: str,
    *,
    found: str,
    needed: str,
    fix: str,
    subject: str | None = None,
    nearest: str | None = None,
    source: str = SOURCE,
) -> Finding:
    texts = {"found": found, "needed": needed, "fix": fix, "subject": subject, "nearest": nearest}
    return named_finding("power", name, severity, message, source, **texts)


def from_problem(problem: Problem) -> Finding:
    """A problem with the given settings, as a finding."""
    return finding(
        problem.id,
        t.cast(Severity, problem.severity),
        problem.text + ".",
        found=problem.found,
        needed=problem.needed,
        fix=problem.fix,
        subject=problem.subject or problem.where,
        nearest=problem.nearest,
        source=_DEVICE if problem.id in ("out_of_range", "no_default", "governor_range") else SOURCE,
    )
