# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings and changes as text for people.

Private to the collection, pure.
"""

from __future__ import annotations

import json
import typing as t

from ._contracts import Change, Finding


def finding_text(finding: Finding) -> str:
    """One finding on a few lines: what, found and needed, what works, what to do, who says so."""
    subject = f" [{finding.subject}]" if finding.subject else ""
    lines = [f"{finding.severity.upper()} {finding.id}{subject}: {finding.message}", f"  found: {finding.found}; needed: {finding.needed}"]
    if finding.nearest:
        lines.append(f"  nearest that works: {finding.nearest}")
    lines.append(f"  fix: {finding.fix}")
    rule = f"rule {finding.rule}, " if finding.rule else ""
    lines.append(f"  ({rule}source: {finding.source})")
    if finding.allowed:
        lines.append(f"  allowed until {finding.allowed['expires']}: {finding.allowed['reason']}")
    return "\n".join(lines)


def refusal(component: str, blocking: t.Sequence[Finding], verify: bool = False) -> str:
    """The failure message of the gate: all blocking findings at once. `verify`: it is the gate after a converge, so things were changed."""
    count = f"{len(blocking)} finding{'s' if len(blocking) != 1 else ''}"
    head = f"{component} was changed on this host, but is not as asked" if verify else f"The gate stops {component} on this host"
    return f"{head}: {count}.{'' if verify else ' Nothing was changed.'}\n" + "\n".join(map(finding_text, blocking))


def diff(component: str, changes: t.Sequence[Change]) -> dict[str, str]:
    """Ansible's diff of a plan: one line per subject, before and after."""
    return {
        "before_header": f"{component} (actual)",
        "after_header": f"{component} (desired)",
        "before": "".join(_line(change, change.before) for change in changes),
        "after": "".join(_line(change, change.after) for change in changes),
    }


def _line(change: Change, value: t.Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return f"{change.id} {change.subject}: {text}\n"
