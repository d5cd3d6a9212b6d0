# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that any plan must obey on any host: disruption limit and foreign managers.

Private to the collection, pure. Both rules look at the *changes*: a plan without changes is always allowed.
"""

from __future__ import annotations

import typing as t

from ._contracts import DISRUPTIONS, Context, Disruption, Finding, Plan, worst_disruption

SOURCE = "docs/architecture.md, rules of conduct"


def busy_with(facts: t.Mapping[str, t.Any]) -> list[str]:
    """Who uses the GPUs now: processes on them and running inference services, as short texts."""
    users = []
    for gpu in facts.get("gpus") or []:
        for process in gpu.get("processes") or []:
            name = process.get("unit") or process.get("name") or "?"
            users.append(f"pid {process.get('pid')} ({name}) on GPU {gpu.get('uuid') or gpu.get('pci_address')}")
    users.extend(f"service {service['unit']}" for service in facts.get("services") or [] if service.get("active") == "active")
    return users


def disruption_limit(facts: t.Mapping[str, t.Any], context: Context) -> Disruption:
    """The highest class that is allowed: the site's word, else nothing on a busy host and anything on an idle one."""
    if context.disruption_max is not None:
        return context.disruption_max
    return "none" if busy_with(facts) else DISRUPTIONS[-1]


def judge_conduct(plan: Plan, facts: t.Mapping[str, t.Any], context: Context) -> list[Finding]:
    """Findings against the plan as a whole; empty if it may go ahead."""
    return [*_disruption(plan, facts, context), *_foreign_managers(plan, facts, context)]


def _disruption(plan: Plan, facts: t.Mapping[str, t.Any], context: Context) -> list[Finding]:
    limit = disruption_limit(facts, context)
    beyond = [change for change in plan.changes if DISRUPTIONS.index(change.disruption) > DISRUPTIONS.index(limit)]
    if not beyond:
        return []
    users = busy_with(facts)
    why = f"in use by {_some(users)}" if users else f"gpu_stack_disruption_max is {limit}"
    worst = worst_disruption(change.disruption for change in beyond)
    return [
        Finding(
            id="host.needs_rollout",
            severity="block",
            component="host",
            subject=plan.component,
            found=f"changes of class {worst}: {_some([change.message for change in beyond])}",
            needed=f"at most {limit} ({why})",
            message=f"The planned change of {plan.component} is of class {worst}, but this host allows only {limit}: {why}.",
            fix=f"Drain the host first (rollout), or set gpu_stack_disruption_max={worst} for this run.",
            source=SOURCE,
        )
    ]


def _foreign_managers(plan: Plan, facts: t.Mapping[str, t.Any], context: Context) -> list[Finding]:
    ours = {change.component for change in plan.changes}
    findings = []
    for manager in facts.get("managers") or []:
        clash = sorted((set(manager.get("components") or ()) & ours) - context.take_over)
        for component in clash:
            findings.append(
                Finding(
                    id="host.foreign_manager",
                    severity="block",
                    component="host",
                    subject=component,
                    found=f"{manager['name']}: {manager['evidence']}",
                    needed=f"no other manager of {component}",
                    message=f"{manager['name']} manages {component} on this host ({manager['evidence']}): each would undo the other.",
                    fix=f"Leave {component} to {manager['name']}, or remove it from there and set gpu_stack_take_over: [{component}].",
                    source=SOURCE,
                )
            )
    return findings


def _some(texts: list[str], limit: int = 3) -> str:
    more = f" and {len(texts) - limit} more" if len(texts) > limit else ""
    return "; ".join(texts[:limit]) + more
