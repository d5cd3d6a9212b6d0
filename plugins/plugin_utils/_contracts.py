# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding, Change, Plan and Context: what gate and planners exchange.

Private to the collection. The JSON forms are fixed by schemas/finding, change and plan (.schema.json).
"""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass, field

Severity = t.Literal["block", "warn", "info"]
Disruption = t.Literal["none", "engine_restart", "host_service_restart", "gpu_reload", "reboot"]
Decision = t.Literal["nothing", "converge", "reload", "reboot"]

SEVERITIES: tuple[Severity, ...] = ("block", "warn", "info")
DISRUPTIONS: tuple[Disruption, ...] = ("none", "engine_restart", "host_service_restart", "gpu_reload", "reboot")


def worst_disruption(classes: t.Iterable[Disruption]) -> Disruption:
    """The highest class of disruption; none for an empty iterable."""
    return max(classes, key=DISRUPTIONS.index, default="none")


@dataclass(frozen=True)
class Finding:
    """One statement of the gate; see schemas/finding.schema.json for the meaning of each field."""

    id: str
    severity: Severity
    component: str
    found: str
    needed: str
    message: str
    fix: str
    source: str
    subject: str | None = None
    rule: str | None = None
    nearest: str | None = None
    confidence: str | None = None
    allowed: dict[str, str] | None = None

    def to_dict(self) -> dict[str, t.Any]:
        """JSON form; optional fields that are not set are left out."""
        out: dict[str, t.Any] = {"schema": 1}
        out.update({key: value for key, value in vars(self).items() if value is not None})
        return out

    def sort_key(self) -> tuple[int, str, str]:
        return SEVERITIES.index(self.severity), self.id, self.subject or ""


def named_finding(component: str, name: str, severity: Severity, message: str, source: str, **rest: t.Any) -> Finding:
    """A planner's finding: its id is the component and the name; `rest` are the other fields of Finding."""
    return Finding(id=f"{component}.{name}", severity=severity, component=component, message=message, source=source, **rest)


def bad_variable(component: str, variable: str, shown: str, expected: str, nearest: str | None, source: str) -> Finding:
    """A role variable that cannot be used: its name, its value as shown, what was expected, the nearest that works."""
    texts = {"found": shown, "needed": expected, "nearest": nearest, "fix": f"Set {variable} to {nearest or expected}."}
    message = f"{variable} is {shown}; expected {expected}."
    return named_finding(component, "bad_input", "block", message, source, subject=variable, **texts)


@dataclass(frozen=True)
class Change:
    """One difference between desired and actual state; before/after hold any JSON value."""

    id: str
    component: str
    subject: str
    before: t.Any
    after: t.Any
    message: str
    disruption: Disruption = "none"

    def to_dict(self) -> dict[str, t.Any]:
        return {"schema": 1, **vars(self)}


@dataclass
class Plan:
    """Result of a planner; `details` is what the role's converge needs and private to that role."""

    component: str
    findings: list[Finding] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    predicted: dict[str, t.Any] = field(default_factory=dict)
    decision: Decision = "nothing"
    details: dict[str, t.Any] = field(default_factory=dict)

    @property
    def disruption(self) -> Disruption:
        return worst_disruption(change.disruption for change in self.changes)

    def to_dict(self) -> dict[str, t.Any]:
        return {
            "schema": 1,
            "component": self.component,
            "findings": [finding.to_dict() for finding in sorted(self.findings, key=Finding.sort_key)],
            "changes": [change.to_dict() for change in self.changes],
            "disruption": self.disruption,
            "predicted": self.predicted,
            "decision": self.decision,
            "details": self.details,
        }


@dataclass(frozen=True)
class Context:
    """A site's policy for one check; the same options on every role."""

    today: datetime.date
    unknown: t.Literal["warn", "block"] = "block"
    allow: tuple[dict[str, t.Any], ...] = ()
    disruption_max: Disruption | None = None
    take_over: frozenset[str] = frozenset()
    check_mode: bool = False
    collection_version: str = "0.0.0"
    runtime_sha256: str | None = None
    """Hash of the host core that this controller would install (None: unknown)."""
    lock: dict[str, t.Any] | None = None
    """This host's group of the stack lock (schemas/stack_lock.schema.json → groups.*); None: no lock applies."""
    local_connection: bool = False
    """Controller and host are the same machine: never reboot it from within."""
