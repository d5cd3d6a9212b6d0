# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance over several hosts as one thing: which member runs what, in which order, and whether all of it is well. Pure.

Private to the collection. Interface:

    members(instance, life) -> [Member]                   # the head first
    start(instance, life), stop(…), restart(…) -> [Step]  # one after the other; none waits for an answer, only `whole` does
    whole(instance, life, seen, answered) -> [reason]     # empty: it is well
    together(hosts, instances) -> [[host, …], …]          # what a rollout takes out, restarts and brings back at once

A member that dies takes the group with it, and none rejoins by itself: whatever is wrong with one, all are restarted.
"""

from __future__ import annotations

import itertools
import typing as t

from ._engine_instance import Instance
from ._engine_job import unit_name
from ._engine_lifecycle import Lifecycle
from ._engine_nodes import launcher, runs_server


class Member(t.NamedTuple):
    """One host of the group."""

    host: str
    address: str
    rank: int
    units: tuple[str, ...]
    """What runs there; empty where mpirun starts its processes from the head."""


class Step(t.NamedTuple):
    host: str
    verb: t.Literal["start", "stop"]
    unit: str


Units = t.Mapping[str, t.Mapping[str, t.Mapping[str, t.Any]]]
"""Host → unit → {active_state, result}, as engine_info reports them."""


def members(instance: Instance, life: Lifecycle) -> list[Member]:
    """Empty for an instance on a single host."""
    out = []
    for rank, member in enumerate((instance["nodes"] or {}).get("members", ())):
        ray = (_ray(instance),) if launcher(instance, life) == "ray" else ()
        server = (unit_name(instance),) if runs_server(instance, life, rank) else ()
        out.append(Member(member["host"], member["address"], rank, (*ray, *server)))
    return out


def start(instance: Instance, life: Lifecycle) -> list[Step]:
    """The head first: the others look for it. Over Ray the server comes last, when the cluster has all its GPUs."""
    group = members(instance, life)
    ray = [Step(member.host, "start", _ray(instance)) for member in group if _ray(instance) in member.units]
    return ray + [Step(member.host, "start", unit_name(instance)) for member in group if unit_name(instance) in member.units]


def stop(instance: Instance, life: Lifecycle) -> list[Step]:
    """The head's server first, which drains. Its Ray last: members whose head is gone would be restarted by systemd meanwhile."""
    group = members(instance, life)
    servers = [Step(member.host, "stop", unit_name(instance)) for member in group if unit_name(instance) in member.units]
    ray = [Step(member.host, "stop", _ray(instance)) for member in reversed(group) if _ray(instance) in member.units]
    return servers + ray


def restart(instance: Instance, life: Lifecycle) -> list[Step]:
    """All are down before one comes up: one of the old group would take the new head for its own."""
    return stop(instance, life) + start(instance, life)


def whole(instance: Instance, life: Lifecycle, seen: Units, answered: bool | None) -> list[str]:
    """Why the group is not well. `answered`: whether the head generated a completion; None, it was not asked.

    /health of the head says nothing of the others, and a unit that is active nothing of its place in the group.
    """
    out = []
    for member in members(instance, life):
        units = seen.get(member.host)
        if units is None and member.units:
            out.append(f"{member.host} (rank {member.rank}) was not read")
            continue
        for name in member.units:
            unit = (units or {}).get(name) or {}
            state = unit.get("active_state") or "not there"
            if state != "active":
                result = unit.get("result")
                why = f" ({result})" if result not in (None, "", "success") else ""
                out.append(f"{name} on {member.host} (rank {member.rank}) is {state}{why}")
    if not answered:
        out.append("the head was not asked for a completion" if answered is None else "the head gives no completion")
    return out


def together(hosts: t.Sequence[str], instances: t.Iterable[Instance]) -> list[list[str]]:
    """Hosts in their order, those that share an instance in one list: directly, or over a third host."""
    groups = [{host} for host in dict.fromkeys(hosts)]
    for instance in instances:
        shared = {member["host"] for member in (instance["nodes"] or {}).get("members", ())}
        touched = [group for group in groups if group & shared]
        if len(touched) > 1:
            groups = [group for group in groups if group not in touched] + [set(itertools.chain.from_iterable(touched))]
    order = {host: place for place, host in enumerate(hosts)}
    return sorted((sorted(group, key=order.__getitem__) for group in groups), key=lambda group: order[group[0]])


def _ray(instance: Instance) -> str:
    return unit_name(instance, "ray")
