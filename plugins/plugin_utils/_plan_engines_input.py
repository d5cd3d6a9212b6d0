# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What component `engines` is asked for: instances of one engine, and those of the other engines beside them. Pure.

Private to the collection. A thin role hands over its own instances, the keys that they share, and the same of the other engines' variables,
so that two engines that want one GPU are refused before the first of them is touched.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from . import _matrix_engines as engines
from ._contracts import Context, Finding, bad_variable
from ._engine_instance import Instance, bad, read

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

PREFIX = {"vllm": "vllm", "sglang": "sglang", "tensorrt_llm": "trtllm"}
"""Engine → prefix of its role's variables."""
SOURCE = "roles/engine_service/README.md"


@dataclass
class Asked:
    """`instances` are the role's own; `beside` those of the other engines' variables."""

    engine: str
    present: bool
    purge: bool
    plan: bool
    host: str
    instances: list[Instance] = field(default_factory=list)
    beside: list[Instance] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Names that are listed, also of instances that cannot be read: those are never left over."""


def read_desired(desired: t.Mapping[str, t.Any], matrix: Matrix, context: Context) -> tuple[Asked, list[Finding]]:
    """`desired`: {engine, state, instances, shared, beside: {engine: {instances, shared}}, purge, plan, host}."""
    engine = str(desired.get("engine"))
    asked = Asked(
        engine=engine,
        present=desired.get("state", "present") == "present",
        purge=bool(desired.get("purge")),
        plan=bool(desired.get("plan", True)),
        host=str(desired.get("host") or ""),
    )
    specs, findings = _specs(engine, desired)
    asked.names = [str(spec.get("name")) for spec in specs if isinstance(spec, t.Mapping) and spec.get("name")]
    if not asked.present:
        return asked, findings
    for spec in specs:
        instance, wrong = read(spec, matrix, context)
        findings += wrong
        if instance is not None:
            asked.instances.append(instance)
    for other, given in (desired.get("beside") or {}).items():
        # What is wrong with them is their own role's matter.
        found = [read(spec, matrix, context)[0] for spec in _specs(other, given)[0]]
        asked.beside += [instance for instance in found if instance is not None]
    return asked, [*findings, *_members(asked)]


def _specs(engine: str, given: t.Mapping[str, t.Any]) -> tuple[list[t.Any], list[Finding]]:
    """The instances with the keys that all of them share."""
    prefix = PREFIX.get(engine, engine)
    instances, shared = given.get("instances") or [], given.get("shared") or {}
    if not isinstance(instances, list):
        expected = "a list of instances, each a mapping with name, model and version"
        return [], [bad_variable("engine", f"{prefix}_instances", type(instances).__name__, expected, None, SOURCE)]
    if not isinstance(shared, t.Mapping):
        return [], [bad_variable("engine", f"{prefix}_instance_defaults", type(shared).__name__, "a mapping", None, SOURCE)]
    known = {key: value for key, value in shared.items() if value not in (None, "")}
    return [{**known, **spec, "engine": engine} if isinstance(spec, t.Mapping) else spec for spec in instances], []


def _members(asked: Asked) -> t.Iterator[Finding]:
    """An instance over several hosts belongs on its members only."""
    for instance in asked.instances:
        hosts = [member["host"] for member in (instance["nodes"] or {}).get("members", ())]
        if hosts and asked.host not in hosts:
            what = f"do not name this host ({asked.host}), which has the instance in {PREFIX[asked.engine]}_instances"
            yield bad(f"{instance['name']}.nodes.members", ", ".join(hosts), what)


def title(engine: str) -> str:
    return engines.TITLE.get(engine, engine)
