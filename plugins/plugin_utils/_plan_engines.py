# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan of component `engines`: the instances of one engine on a host, and what must happen for them to run as asked.

Private to the collection, pure. Desired state is read in _plan_engines_input, the host in _plan_engines_facts; a definition
(_engine_definition) holds everything that the host gets, and _plan_engines_changes compares.
"""

from __future__ import annotations

import typing as t

from ._contracts import Change, Context, Finding, Plan, named_finding
from ._engine_definition import Definition, definition
from ._engine_files import make_job
from ._engine_gpus import Device
from ._engine_host import check_host, stack
from ._engine_instance import Instance
from ._engine_nodes import rank_of
from ._matrix_model import Matrix
from ._plan_engines_changes import changes, removal
from ._plan_engines_facts import Here, host_of, recorded
from ._plan_engines_input import PREFIX, Asked, read_desired, title
from ._plan_engines_numbers import numbers
from ._plan_engines_obstacles import obstacles
from ._plan_power_devices import FORESEEN

Facts = t.Mapping[str, t.Any]
USER = "gpufleet-engine"


def models(desired: Facts) -> list[str]:
    """Folders on the host that the planner wants to know: stack_check reads them by model_info."""
    if desired.get("state", "present") != "present" or not desired.get("plan", True):
        return []
    shared, specs = desired.get("shared") or {}, desired.get("instances") or []
    found = [spec.get("model", shared.get("model")) for spec in specs if isinstance(spec, t.Mapping)] if isinstance(specs, list) else []
    return list(dict.fromkeys(folder for folder in found if isinstance(folder, str) and folder.startswith("/")))


def plan(desired: Facts, facts: Facts, matrix: Matrix, context: Context) -> Plan:
    """`desired`: see _plan_engines_input.read_desired; `facts` with engine_info and model_info."""
    result = Plan(component="engines")
    here = Here(facts.get("engine_info") or {}, facts)
    asked, findings = read_desired(desired, matrix, context)
    result.findings += [*findings, *_unread(here)]
    if not asked.present:
        _absent(result, asked, here)
        return _decided(result, here)
    foreseen = context.check_mode and facts.get("state") in FORESEEN
    used, wrong = _devices(asked, here)
    result.findings += [] if foreseen else (_unreadable(asked, facts) or wrong)
    result.details.update(stack={"engines": stack(asked.instances)}, instances=[], users=[])
    blocked = any(finding.severity == "block" for finding in result.findings)
    for instance in asked.instances if not blocked else ():
        if foreseen and instance["gpus"]:
            result.changes.append(_foreseen(instance))
        else:
            _instance(result, instance, used[instance["name"]], asked, here, matrix, context)
    _left_over(result, asked, here)
    return _decided(result, here)


def _devices(asked: Asked, here: Here) -> tuple[dict[str, list[Device]], list[Finding]]:
    """GPUs of all instances of this host: those asked for, those of the other engines' variables, those on record."""
    mine = {instance["name"] for instance in asked.instances}
    leaving = _unlisted(asked, here) if asked.purge else []
    known = {*mine, *(instance["name"] for instance in asked.beside), *asked.names, *leaving}
    # Of two that want the same the later one is blamed: ours come last. What is wrong with another engine's alone is its own role's matter.
    used, findings = check_host([*recorded(here, known), *asked.beside, *asked.instances], here.facts)
    return used, [finding for finding in findings if str(finding.subject).partition(".")[0] in mine]


def _unread(here: Here) -> t.Iterator[Finding]:
    """What engine_info could not read. Without a record it cannot be told what runs and what would be put back: that blocks."""
    for what, why in (here.info.get("errors") or {}).items():
        record = "/engine_records/" in str(what)
        yield named_finding(
            "engine",
            "record_unreadable" if record else "unread",
            "block" if record else "warn",
            f"{what} cannot be read: {why}.",
            "engine_info",
            subject=str(what),
            found=str(why),
            needed="a record that this version can read" if record else "an answer",
            fix="Put the record back from a backup, or move its folder away; the instance is then installed anew."
            if record
            else "See the host.",
        )


def _unreadable(asked: Asked, facts: Facts) -> list[Finding]:
    """Where GPUs cannot be read at all, that is the news, and not that each instance's are unknown."""
    state = facts.get("state")
    if state in ("ok", "lost") or not any(instance["gpus"] for instance in asked.instances):
        return []
    return [
        named_finding(
            "engine",
            "gpus_unreadable",
            "block",
            f"The GPUs of this host cannot be read ({state}): {facts.get('reason') or 'no reason given'}.",
            "gpu_info",
            found=f"state {state}",
            needed="state ok",
            fix="Run roles gpu_preflight and nvidia_driver first; docs/states.md explains the state. An engine for the CPU has gpus: [].",
        )
    ]


def _instance(result: Plan, instance: Instance, devices: list[Device], asked: Asked, here: Here, matrix: Matrix, context: Context) -> None:
    name = instance["name"]
    planned: dict[str, t.Any] = {}
    findings: list[Finding] = []
    if asked.plan:
        planned, findings = numbers(instance, devices, here.facts, here.facts.get("model_info") or {}, matrix, context)
    job, wrong = make_job(instance, matrix, devices, planned, rank_of(instance, asked.host))
    wanted = definition(job, host_of(here))
    findings += wrong
    # Over MPI the head starts everything, and other members have no unit.
    action, found = changes(name, wanted, here) if wanted["units"] else ("nothing", [])
    findings += obstacles(instance, devices, here) if action not in ("nothing", "enable") else []
    result.findings += findings
    unread = any(finding.id == "engine.model_unreadable" for finding in findings)
    if action == "nothing" or any(finding.severity == "block" for finding in findings) or (unread and here.record(name)):
        return
    result.changes += found
    _add(result, name, action, found, wanted)
    if instance["runtime"] == "venv" and wanted["user"] == USER and USER not in here.users:
        result.details["users"] = [USER]


def _add(result: Plan, name: str, action: str, found: t.Sequence[Change], wanted: Definition | None) -> None:
    cut = any(change.disruption != "none" for change in found)
    row = {"name": name, "action": action, "definition": wanted, "drain": cut, "why": [change.message for change in found]}
    result.details.setdefault("instances", []).append(row)


def _absent(result: Plan, asked: Asked, here: Here) -> None:
    """The listed ones go; with purge, or where none is listed, all that are recorded of this engine."""
    ours = [name for name, record in here.records.items() if record.get("engine") == asked.engine]
    everything = asked.purge or not asked.names
    for name in [name for name in ours if everything or name in asked.names]:
        _remove(result, name, here)


def _unlisted(asked: Asked, here: Here) -> list[str]:
    beside = {instance["name"] for instance in asked.beside}
    known = {*asked.names, *beside}
    return [name for name, record in here.records.items() if record.get("engine") == asked.engine and name not in known]


def _left_over(result: Plan, asked: Asked, here: Here) -> None:
    """Recorded and no longer listed: taken away only on a word of the site."""
    prefix = PREFIX[asked.engine]
    for name in _unlisted(asked, here):
        if asked.purge:
            _remove(result, name, here, first=True)
            continue
        record = here.records[name]
        result.findings.append(
            named_finding(
                "engine",
                "not_listed",
                "info",
                f"{title(asked.engine)} instance {name} is on this host and in no variable; it is left alone.",
                "engine_info",
                subject=name,
                found=f"{record.get('model')} on port {record.get('port')}",
                needed=f"an entry in {prefix}_instances",
                fix=f"List it in {prefix}_instances, or remove what is not listed with {prefix}_purge: true.",
            )
        )


def _remove(result: Plan, name: str, here: Here, first: bool = False) -> None:
    change = removal(name, here)
    result.changes.append(change)
    _add(result, name, "remove", [change], None)
    if first:
        # What it holds must be free before another one can take it.
        result.details["instances"].insert(0, result.details["instances"].pop())


def _foreseen(instance: Instance) -> Change:
    text = f"{instance['name']}: installed once the driver that an earlier role brings tells of its GPUs"
    return Change("engines.install", "engines", instance["name"], "absent", "present", text)


def _decided(result: Plan, here: Here) -> Plan:
    result.decision = "converge" if result.changes else "nothing"
    if result.changes:
        result.predicted = {"services": _services(result, here)}
    return result


def _services(result: Plan, here: Here) -> list[dict[str, t.Any]]:
    rows = {row["unit"]: dict(row) for row in here.facts.get("services") or ()}
    for row in result.details.get("instances") or ():
        unit = f"gpufleet-engine-{row['name']}.service"
        if row["definition"] is None:
            rows.pop(unit, None)
        else:
            rows[unit] = {"unit": unit, "engine": row["definition"]["engine"], "active": "active", "owned": True}
    return [rows[unit] for unit in sorted(rows)]
