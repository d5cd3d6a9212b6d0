# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of the gate without a host: for CI of inventories."""

from __future__ import annotations

import datetime
import typing as t

from ansible.errors import AnsibleFilterError

from ..plugin_utils._contracts import Context
from ..plugin_utils._matrix import judge
from ..plugin_utils._matrix_load import MatrixError, load_matrix
from ..plugin_utils._offline import BadDescription, facts_of
from ..plugin_utils._products import complete


def stack_findings(
    machine: t.Any,
    stack: t.Any = None,
    allow: t.Sequence[dict[str, t.Any]] = (),
    matrix_overlay: t.Sequence[str] = (),
    unknown: t.Literal["warn", "block"] = "block",
    today: t.Any = None,
) -> list[dict[str, t.Any]]:
    """Findings as mappings, the worst first."""
    if not isinstance(machine, t.Mapping):
        raise AnsibleFilterError(f"stack_findings: expected a gpu_info document or a machine description, found {type(machine).__name__}")
    if stack is not None and not isinstance(stack, t.Mapping):
        raise AnsibleFilterError(f"stack_findings: stack is {type(stack).__name__}, expected a mapping")
    if unknown not in ("warn", "block"):
        raise AnsibleFilterError(f"stack_findings: unknown is {unknown!r}, expected warn or block")
    try:
        day = datetime.date.fromisoformat(str(today)) if today else datetime.date.today()
    except ValueError:
        raise AnsibleFilterError(f"stack_findings: today is {today!r}, expected a date such as 2026-11-30") from None
    try:
        matrix = load_matrix(overlays=list(matrix_overlay))
        facts = complete(facts_of(matrix, machine), matrix)
    except (MatrixError, BadDescription) as error:
        raise AnsibleFilterError(f"stack_findings: {error}") from None
    policy = Context(today=day, unknown=unknown, allow=tuple(allow))
    return [finding.to_dict() for finding in judge(matrix, facts, stack or {}, policy)]


class FilterModule:
    """One filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"stack_findings": stack_findings}
