# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds of the container toolkit's packages: apt's marks, dnf's versionlock list. Pure; private."""

from __future__ import annotations

import typing as t

from ..module_utils import _dnf_locks, _paths
from ._toolkit_input import Draft, Settings

NAMES = ("nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1")
RECORD = _paths.CONTAINER_RECORD

Info = t.Mapping[str, t.Any]


def installed_set(facts: Info) -> dict[str, str]:
    return dict((facts.get("packages") or {}).get("set") or {})


def foreign_holds(draft: Draft, facts: Info, info: Info, names: t.Sequence[str] = NAMES) -> None:
    """Packages that somebody else holds must not change."""
    packages = facts.get("packages") or {}
    foreign = sorted(set(packages.get("holds") or ()) & set(names) - _ours(info))
    if foreign:
        command = "dnf versionlock delete" if packages.get("manager") == "dnf" else "apt-mark unhold"
        draft.find(
            "foreign_hold",
            "block",
            f"Somebody else holds {', '.join(foreign)}, which would have to change.",
            found=f"held: {', '.join(foreign)}",
            needed="no hold of others on what must change",
            fix=f"If the hold is no longer wanted: {command} {' '.join(foreign)}",
        )


def plan_holds(draft: Draft, settings: Settings, facts: Info, info: Info, manager: str) -> None:
    """Hold the set, or lift what this role holds; details `holds` or `locks`, `lift_first`, `lifted`, `record`."""
    lock_list: t.Any = info.get("versionlock")
    if manager == "dnf" and lock_list is None:
        if settings.hold:
            _no_versionlock(draft)
        return
    held = set((facts.get("packages") or {}).get("holds") or ()) & set(NAMES)
    ours = _ours(info)
    packages = draft.plan.details.get("packages")
    wanted = set(NAMES) if settings.hold else held - ours
    versions = dict.fromkeys(NAMES, f"{packages['version']}-{packages['revision']}") if packages else installed_set(facts)
    text = _locks(lock_list, wanted, held - wanted, versions, held - ours) if manager == "dnf" else None
    stale = text is not None and text != lock_list["text"]
    if held != wanted or (packages and settings.hold) or stale:
        draft.change("hold", ", ".join(NAMES), sorted(held), sorted(wanted), "hold the set together" if settings.hold else "lift our holds")
        if text is None:
            left = held - ours if packages else held  # ours are lifted before the packages move
            draft.plan.details["holds"] = {"hold": sorted(wanted - left), "lift": sorted(left - wanted)}
        else:
            draft.plan.details["locks"] = {"path": lock_list["path"], "text": text}
    if packages:
        draft.plan.details["lift_first"] = sorted(held & ours)
        draft.plan.details["lifted"] = lifted(held & ours, lock_list if manager == "dnf" else None)
        if text is not None and held & ours:
            draft.plan.details["locks_before"] = {"path": lock_list["path"], "text": _dnf_locks.changed(lock_list["text"], held & ours, {})}
    _record(draft, settings, info, held, wanted)


def lifted(names: t.Iterable[str], lock_list: t.Any) -> dict[str, t.Any]:
    """What to hold again where the transaction fails that they are lifted for."""
    names = sorted(names)
    if lock_list is None:
        return {"holds": names}
    return {"holds": [], **({"locks": {"path": lock_list["path"], "text": lock_list["text"]}} if names else {})}


def _ours(info: Info) -> set[str]:
    return set(((info["toolkit"].get("record") or {}).get("holds")) or ())


def _locks(lock_list: t.Any, wanted: set[str], lift: set[str], versions: Info, foreign: set[str]) -> str:
    """The list as it should be. A lock names a version: one of ours that names another is written anew, one of others is not."""
    there = _dnf_locks.locked(lock_list["text"])
    add = {
        name: versions[name]
        for name in wanted - foreign
        if name in versions and not there.get(name, "").startswith(_dnf_locks.entry(name, versions[name])[:-1])
    }
    return _dnf_locks.changed(lock_list["text"], lift, add) if lift or add else str(lock_list["text"])


def _record(draft: Draft, settings: Settings, info: Info, held: set[str], wanted: set[str]) -> None:
    record = info["toolkit"].get("record") or {}
    packages = draft.plan.details.get("packages")
    kept = sorted(wanted & (_ours(info) | (wanted - held))) if settings.hold else []
    future = {"schema": 1, "holds": kept, "previous": packages["previous"] if packages else record.get("previous") or {}}
    if future != record:
        if not packages and held == wanted:
            draft.change("record", RECORD, "different" if record else None, future, "what this role holds")
        draft.plan.details["record"] = future


def _no_versionlock(draft: Draft) -> None:
    draft.find(
        "no_versionlock",
        "block",
        f"dnf has no versionlock plugin here ({_dnf_locks.CONF} is missing, or says enabled = 0), so nothing can be held.",
        found="no versionlock plugin",
        needed=f"{_dnf_locks.PLUGIN}, by which packages are held",
        fix=f"dnf install {_dnf_locks.PLUGIN}, or set nvidia_container_toolkit_hold: false.",
    )
