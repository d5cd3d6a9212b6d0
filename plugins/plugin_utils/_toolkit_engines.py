# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the plan about engines: which of them, and what changes in them. Pure; private to the collection."""

from __future__ import annotations

import typing as t

from ._engine_common import Wanted
from ._engines import DAEMONS, EnginePlan, plan_engine, plan_rootless
from ._toolkit_input import Draft, Settings

Info = t.Mapping[str, t.Any]


def chosen_engines(draft: Draft, settings: Settings, info: Info) -> list[str]:
    """Those asked for; else all that are found, containerd only where it is not merely Docker's."""
    there = info["engines"]
    for engine in settings.engines:
        if engine not in there:
            draft.find(
                "absent",
                "block",
                f"{engine} is asked for and is not on this host; this role configures engines, it does not install them.",
                found=f"engines here: {', '.join(sorted(there)) or 'none'}",
                needed=engine,
                fix=f"Install {engine} first, or take it out of nvidia_container_toolkit_engines.",
                subject=engine,
                component="container_engine",
            )
    if settings.engines:
        return [engine for engine in settings.engines if engine in there]
    found = [engine for engine in there if engine != "containerd" or "docker" not in there]
    if not found:
        draft.find(
            "none",
            "info",
            "No container engine is on this host yet; the toolkit and CDI are set up, engines are left for a later run.",
            found="no Docker, containerd, CRI-O or Podman",
            needed="an engine, to run GPU containers",
            fix="Install an engine and run this role again.",
            component="container_engine",
        )
    return found


def plan_engines(draft: Draft, settings: Settings, info: Info, engines: t.Sequence[str]) -> None:
    wanted = Wanted(default_runtime=t.cast(t.Any, settings.default_runtime), cdi=settings.cdi)
    plans = [plan_engine(engine, info["engines"][engine], wanted, info) for engine in engines if engine in DAEMONS]
    plans += rootless_plans(draft, settings, info, wanted)
    work = []
    for item in plans:
        draft.plan.findings.extend(item.answer.findings)
        if item.work:
            engine_changes(draft, item)
            work.append({"engine": item.engine, "user": item.user})
    if work:
        draft.plan.details["engines"] = work


def rootless_plans(draft: Draft, settings: Settings, info: Info, wanted: Wanted) -> list[EnginePlan]:
    docker = info["engines"].get("docker") or {}
    known = {file["user"]: file for file in docker.get("rootless") or () if file["uid"] is not None}
    for user in settings.rootless_users:
        if user not in known and wanted.present:
            draft.find(
                "no_rootless_docker",
                "block",
                f"Rootless Docker of {user} is asked for, and " + ("there is no such user." if docker else "Docker is not on this host."),
                found=f"no user {user}" if docker else "no dockerd",
                needed="a user of this host, and Docker",
                fix=f"Create {user} and install Docker first, or take {user} out of nvidia_container_toolkit_rootless_users.",
                subject=user,
                component="container_engine",
            )
    return [plan_rootless(known[user], docker, wanted) for user in settings.rootless_users if user in known]


def engine_changes(draft: Draft, item: EnginePlan) -> None:
    whose = f"{item.engine} of {item.user}" if item.user else item.engine
    for file in item.answer.files:
        draft.change("engine_config", file.path, None, list(file.parts), f"{whose}: {file.path} gets {', '.join(file.parts)}")
    if item.need in ("reload", "restart"):
        draft.change(
            "engine_restart",
            item.unit + (f" of {item.user}" if item.user else ""),
            "running with older settings",
            item.need,
            f"{whose}: {item.need}, {item.why}",
            item.disruption,
        )
