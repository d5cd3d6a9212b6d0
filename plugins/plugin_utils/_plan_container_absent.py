# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking the container toolkit away: the runtime out of the engines first, then units, packages, source. Pure; private."""

from __future__ import annotations

import typing as t

from ..module_utils import _dnf_locks
from . import _cdi, _toolkit_units
from ._engine_common import Wanted
from ._engines import DAEMONS, plan_engine, switched
from ._toolkit_engines import rootless_plans
from ._toolkit_holds import NAMES, RECORD, foreign_holds, lifted
from ._toolkit_input import Draft, Settings
from ._toolkit_packages import APT_KEY, OWNED, broke_off, interrupted, reload_class

_UNITS = (_toolkit_units.OUR_UNIT, _toolkit_units.DOCKER_UNIT)

Info = t.Mapping[str, t.Any]


def plan_absent(draft: Draft, settings: Settings, facts: Info, info: Info) -> None:
    wanted = Wanted(present=False, cdi_switched=switched(info))
    work = []
    plans = [plan_engine(engine, info["engines"][engine], wanted, info) for engine in DAEMONS if engine in info["engines"]]
    for item in [*plans, *rootless_plans(draft, settings, info, wanted)]:
        engine = f"{item.engine} of {item.user}" if item.user else item.engine
        draft.plan.findings.extend(finding for finding in item.answer.findings if finding.severity == "block")
        for file in item.answer.files:
            draft.change("engine_config", file.path, list(file.parts), None, f"{engine}: NVIDIA's runtime goes out of {file.path}")
        if item.need in ("reload", "restart"):
            draft.change("engine_restart", item.unit, "running", item.need, f"{engine}: {item.need}", item.disruption)
        if item.work:
            work.append({"engine": item.engine, "user": item.user})
    if work:
        draft.plan.details["engines"] = work
    owned = [path for path, there in info["owned"].items() if there]
    units = [path for path in owned if path in (_toolkit_units.DROP_IN, *_UNITS)]
    ours = (*OWNED, APT_KEY, _toolkit_units.TMPFILES, _toolkit_units.USER_UNIT, *units)
    for path in owned:
        draft.change("file", path, "present", None, f"{path} goes away", reload_class(info) if path in units else "none")
    broken = interrupted(facts, info)
    installed = sorted({*broken, *(set(NAMES) & set((facts.get("packages") or {}).get("set") or {}))})
    if settings.packages and installed:
        foreign_holds(draft, facts, info)
        message = "the container toolkit's packages go away" + broke_off(broken)
        draft.change("packages", ", ".join(installed), "installed", None, message, reload_class(info))
        # Half a set, or one of two versions, is no obstacle to what takes it away.
        draft.plan.details["stack"] = {"container_toolkit": {"removes": True, "heals": broken}}
    # Its hooks are programs of these packages: an engine would fail on them instead of saying that there is no such device.
    spec = [item["path"] for item in info["cdi"]["specs"] if item["path"] == _cdi.PATH]
    spec = spec if settings.packages and (installed or not info["toolkit"]["ctk"]) else []
    for path in spec:
        draft.change("cdi", path, "present", None, f"{path} goes away with what wrote it")
    record = info["toolkit"].get("record") or {}
    if owned or installed or record or spec:
        lift = sorted(set(record.get("holds") or ()) & set((facts.get("packages") or {}).get("holds") or ()))
        lock_list = info.get("versionlock") if (facts.get("packages") or {}).get("manager") == "dnf" else None
        draft.plan.details["lifted"] = lifted(lift, lock_list)
        draft.plan.details["absent"] = {
            "files": [*(path for path in owned if path in ours), *([RECORD] if record else []), *spec],
            "lift": lift if lock_list is None else [],
            "locks": [{"path": lock_list["path"], "text": _dnf_locks.changed(lock_list["text"], lift, {})}] if lock_list and lift else [],
            "packages": installed if settings.packages else [],
            "interrupted": installed if settings.packages and broken else [],
            "reload": bool(units),
            "units": [path.rpartition("/")[2] for path in units if path in _UNITS],
        }
