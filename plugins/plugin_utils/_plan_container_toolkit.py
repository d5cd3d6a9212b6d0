# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan of component `container_toolkit`: packages, toolkit configuration, engines, units, CDI. Pure; private to the collection.

`facts` is gpu_info with the answer of container_info under `container_info`.
"""

from __future__ import annotations

import typing as t

from . import _toolkit_config
from ._cdi_readers import older_engines
from ._contracts import Context, Plan
from ._engine_common import HostFile
from ._engine_text import BrokenText
from ._matrix_model import Matrix
from ._plan_container_absent import plan_absent
from ._toolkit_cdi import plan_cdi
from ._toolkit_engines import chosen_engines, plan_engines
from ._toolkit_input import Draft, Settings, parse
from ._toolkit_packages import interrupted, plan_packages, target_version
from ._toolkit_units import plan_units
from ._versions import key as version_key

Info = t.Mapping[str, t.Any]


def plan(desired: Info, facts: Info, matrix: Matrix, context: Context) -> Plan:
    """`desired`: the variables of role nvidia_container_toolkit without their prefix."""
    draft = Draft()
    settings, wrong = parse(desired)
    info: Info = facts.get("container_info") or {}
    if wrong or not info:
        draft.plan.findings.extend(wrong)
        return draft.plan
    if not settings.present:
        plan_absent(draft, settings, facts, info)
        return _done(draft)
    version = target_version(settings, facts, matrix, context.lock)
    engines = chosen_engines(draft, settings, info)
    older = _older_readers(settings, facts, info, matrix, version, engines)
    draft.plan.details["stack"] = {"container_toolkit": _target(settings, version, engines, older)}
    if settings.packages:
        draft.plan.details["stack"]["container_toolkit"]["heals"] = interrupted(facts, info)
    plan_packages(draft, settings, facts, info, version)
    _config(draft, settings, info)
    plan_engines(draft, settings, info, engines)
    unit = plan_units(draft, settings, info, version, bool(older))
    if settings.cdi:
        plan_cdi(draft, settings, facts, info, unit, older)
    draft.plan.predicted = _predicted(draft, version)
    return _done(draft)


def _target(settings: Settings, version: str, engines: t.Sequence[str], older: t.Sequence[t.Any]) -> dict[str, t.Any]:
    """What the matrix must know to judge this role's ground and no more: engines that it leaves alone are none of its business."""
    return {
        "version": version,
        "engines": [*engines] if settings.cdi else [],
        "engines_asked": [*settings.engines],
        "older_spec": bool(older),
        "cdi_remove_duplicates": settings.cdi and settings.cdi_remove_duplicates,
    }


def _older_readers(
    settings: Settings, facts: Info, info: Info, matrix: Matrix, version: str, engines: t.Sequence[str]
) -> list[tuple[str, str]]:
    """(engine, version) of those for whose sake specifications must be of an older version."""
    if not settings.cdi:
        return []
    known = (facts.get("containers") or {}).get("engines") or {}
    versions = {name: info["engines"][name].get("version") or (known.get(name) or {}).get("version") for name in engines}
    return [(name, str(versions[name])) for name in older_engines(matrix, version, versions)]


def _done(draft: Draft) -> Plan:
    draft.plan.decision = "converge" if draft.plan.changes else "nothing"
    return draft.plan


def _config(draft: Draft, settings: Settings, info: Info) -> None:
    file = HostFile.of(info["toolkit"]["config"])
    wanted = settings.toolkit_config()
    try:
        if not file.usable:
            raise BrokenText(file.reason)
        changes = _toolkit_config.differing(wanted, file)
    except BrokenText as error:
        draft.find(
            "config_broken",
            "block",
            f"{file.path}, {error}. The toolkit cannot read it either; nothing was written.",
            found=f"{file.path}, {error}",
            needed="valid TOML",
            fix=f"Correct {file.path} on the host; nvidia-ctk config default prints one to start from.",
            subject=file.path,
        )
        return
    for key, (before, after) in changes.items():
        draft.change("config", key, before, after, f"{key} of {file.path} becomes {after!r}")
    if changes:
        draft.plan.details["config"] = {"argv": _toolkit_config.arguments(changes)}
    if settings.rootless_users and not settings.no_cgroups and settings.mode == "legacy":
        draft.find(
            "rootless_cgroups",
            "warn",
            "Rootless Docker cannot set up device cgroups, and in legacy mode the toolkit tries to.",
            found="nvidia_container_toolkit_no_cgroups: false",
            needed="true for rootless users in legacy mode",
            fix="Set nvidia_container_toolkit_no_cgroups: true, or use mode cdi.",
        )


def _predicted(draft: Draft, version: str) -> dict[str, t.Any]:
    packages = draft.plan.details.get("packages")
    if not packages:
        return {}
    names = dict.fromkeys(packages["names"], f"{version}-{packages['revision']}")
    toolkit = {"version": version, "packages": names, "refresh_units": version_key(version) >= version_key("1.18.0")}
    return {"containers": {"toolkit": toolkit}, "packages": {"set": names}}
