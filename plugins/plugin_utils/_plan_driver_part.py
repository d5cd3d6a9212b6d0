# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One part of a plan, and short ways to state a finding or a change of its component (`driver` unless said otherwise).

Private to the collection, pure.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ._contracts import Change, Disruption, Finding, Severity, named_finding

SOURCE = "docs/driver.md"


def unhold(manager: str, names: str) -> str:
    """The command that lifts a hold on a host."""
    return f"dnf versionlock delete {names}" if manager == "dnf" else f"apt-mark unhold {names}"


@dataclass
class Part:
    """What one aspect (packages, module files, services, reboot) adds to the plan; details go to converge."""

    changes: list[Change] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    details: dict[str, t.Any] = field(default_factory=dict)
    component: str = "driver"
    source: str = SOURCE

    def change(self, name: str, subject: str, before: t.Any, after: t.Any, message: str, disruption: Disruption = "none") -> None:
        self.changes.append(Change(f"{self.component}.{name}", self.component, subject, before, after, message, disruption))

    def find(
        self,
        name: str,
        severity: Severity,
        message: str,
        *,
        found: str,
        needed: str,
        fix: str,
        subject: str | None = None,
        nearest: str | None = None,
        about: str | None = None,
    ) -> None:
        texts = {"found": found, "needed": needed, "fix": fix, "subject": subject, "nearest": nearest}
        self.findings.append(named_finding(about or self.component, name, severity, message, self.source, **texts))
