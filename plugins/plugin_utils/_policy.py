# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's own rules: overlay rows whose condition is a JMESPath expression over the host's facts. Pure.

Private to the collection. jmespath is needed on the controller only, and only where an overlay has policies.
"""

from __future__ import annotations

import json
import typing as t

from ._contracts import Context, Finding
from ._matrix_types import Row

try:
    import jmespath
    from jmespath.exceptions import JMESPathError
except ImportError:  # reported when an overlay needs it
    jmespath = None  # type: ignore[assignment]
    JMESPathError = ValueError  # type: ignore[misc,assignment]

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

_SHOWN = 200


class MissingLibrary(RuntimeError):
    """jmespath is asked for and absent."""


class Policy:
    """A policies row with its expressions compiled."""

    def __init__(self, row: Row) -> None:
        if jmespath is None:
            raise MissingLibrary(
                f"The site policy {row.get('id')} is a JMESPath expression: the Python library jmespath is missing on the controller. "
                "Install it where ansible-core runs (pip install jmespath, or the package python3-jmespath)."
            )
        self.row = row
        self.when = jmespath.compile(row["when"])
        self.found = jmespath.compile(row["found"]) if row.get("found") else None

    @staticmethod
    def problems(row: Row) -> t.Iterator[tuple[str, str]]:
        """Pairs of key and what is wrong with its expression."""
        for name in ("when", "found"):
            expression = row.get(name)
            if jmespath is not None and isinstance(expression, str) and expression:
                try:
                    jmespath.compile(expression)
                except JMESPathError as error:
                    yield name, f"is no JMESPath expression: {' '.join(str(error).split())}"


def findings(matrix: Matrix, facts: t.Mapping[str, t.Any], stack: t.Mapping[str, t.Any], policy: Context) -> list[Finding]:
    """Findings of all site policies for one host."""
    if not matrix.policies:
        return []
    # Ansible hands out subclasses of str and int; jmespath's functions take the plain types only.
    document = json.loads(json.dumps({**facts, "stack": dict(stack)}, default=str))
    return [finding for rule in matrix.policies if (finding := _judge(rule, document, policy))]


def _judge(rule: Policy, document: dict[str, t.Any], policy: Context) -> Finding | None:
    row = rule.row
    try:
        answer = rule.when.search(document)
        shown = rule.found.search(document) if rule.found else answer
    except JMESPathError as error:
        text = " ".join(str(error).split())
        return _finding(row, policy.unknown, text, f"The site policy {row['id']} could not be decided on this host: {text}")
    return _finding(row, row["severity"], _text(shown), row["message"]) if _true(answer) else None


def _true(answer: t.Any) -> bool:
    return answer not in (None, False, "", [], {})


def _text(value: t.Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _finding(row: Row, severity: t.Any, found: str, message: str) -> Finding:
    return Finding(
        id=row["id"],
        severity="warn" if severity == "block" and row.get("confidence") == "unverified" else severity,
        component="policy",
        rule=row["id"],
        found=found,
        needed=row.get("needed", f"not: {row['when']}"),
        message=message,
        fix=row.get("fix", "Bring the host in line with the policy, or allow the finding with gpu_stack_allow."),
        source=row.get("source", "site policy"),
        confidence=row.get("confidence", "verified"),
    )
