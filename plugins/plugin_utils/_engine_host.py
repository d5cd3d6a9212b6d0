# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All instances of one host together: names, ports, GPUs. Pure.

Private to the collection. Interface: check_host(instances, facts) -> (devices by instance, findings); instances as read() gives them.
That image and version agree, that the release exists and that the host can run it is the gate's matter: see stack().
"""

from __future__ import annotations

import itertools
import math
import typing as t

from . import _matrix_engines as engines
from ._contracts import Finding
from ._engine_gpus import Device, Facts, resolve
from ._engine_instance import Instance, bad

ANY = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to


def check_host(instances: t.Sequence[Instance], facts: Facts) -> tuple[dict[str, list[Device]], list[Finding]]:
    """Devices of each instance by its name, and what instances take from each other or from the host."""
    used: dict[str, list[Device]] = {}
    findings: list[Finding] = []
    for instance in instances:
        used[instance["name"]], wrong = resolve(instance, facts)
        findings += [*wrong, *(_ranks(instance, len(used[instance["name"]])) if not wrong else ())]
    for one, other in itertools.combinations(instances, 2):
        findings += _between(one, other, used)
    return used, findings


def stack(instances: t.Iterable[Instance]) -> list[dict[str, t.Any]]:
    """The instances as the gate's target stack lists engines."""
    keys = (
        "name",
        "engine",
        "version",
        "runtime",
        "image",
        "model",
        "args",
        "env",
        "host",
        "port",
        "served_name",
        "parallel",
        "drain_seconds",
    )
    out = []
    for instance in instances:
        row = {key: instance[key] for key in keys if instance.get(key) not in (None, "", {}, [])}
        if instance["nodes"]:
            row["nodes"] = [member["host"] for member in instance["nodes"]["members"]]
        out.append(row)
    return out


def _ranks(instance: Instance, gpus: int) -> t.Iterator[Finding]:
    """More ranks than GPUs never start; on the CPU they may share it."""
    if instance["gpus"] == []:
        return
    ranks = math.prod(instance["parallel"].values())
    nodes = len(instance["nodes"]["members"]) if instance["nodes"] else 1
    if ranks > gpus * nodes:
        have = f"{gpus} GPUs" + (f" on each of {nodes} nodes" if nodes > 1 else "")
        asked = " x ".join(str(size) for size in instance["parallel"].values())
        yield bad(f"{instance['name']}.parallel", asked, f"is {ranks} ranks, one a GPU; the instance has {have}", str(gpus * nodes))


def _between(one: Instance, other: Instance, used: t.Mapping[str, t.Sequence[Device]]) -> t.Iterator[Finding]:
    if one["name"] == other["name"]:
        titles = f"{engines.TITLE[one['engine']]} and {engines.TITLE[other['engine']]}"
        yield bad(f"{one['name']}.name", repr(one["name"]), f"is the name of two instances of this host ({titles})", f"{one['name']}-2")
        return
    if one["port"] == other["port"] and (one["host"] == other["host"] or one["host"] in ANY or other["host"] in ANY):
        yield bad(f"{other['name']}.port", str(other["port"]), f"is {one['name']}'s port too", str(_free(one, other)))
    shared = [
        (mine, theirs)
        for mine in used[one["name"]]
        for theirs in used[other["name"]]
        if mine.uuid == theirs.uuid or mine.parent == theirs.uuid
    ]
    for mine, _theirs in shared:
        label = f"{mine.index} ({mine.uuid})" if mine.index is not None else mine.uuid
        yield bad(f"{other['name']}.gpus", label, f"is used by {one['name']} as well; an engine takes all of a GPU's memory")


def _free(one: Instance, other: Instance) -> int:
    return min(65535, max(one["port"], other["port"]) + 1)
