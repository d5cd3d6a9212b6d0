# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan of component `container_toolkit`: packages, toolkit configuration, engines, units, CDI. Pure; private to the collection.

`facts` is gpu_info with the answer of container_info under `container_info`.
"""

from __future__ import annotations

import typing as t

from . import _cdi, _toolkit_config
from ._contracts import Context, Plan
from ._engine_common import HostFile, Wanted
from ._engine_text import BrokenText
from ._engines import DAEMONS, EnginePlan, plan_engine, plan_rootless
from ._matrix_model import Matrix
from ._plan_container_absent import plan_absent
from ._toolkit_input import Draft, Settings, parse
from ._toolkit_packages import plan_packages, target_version
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
    draft.plan.details["stack"] = {"container_toolkit": {"version": version}}
    plan_packages(draft, settings, facts, info, version)
    _config(draft, settings, info)
    engines = chosen_engines(draft, settings, info)
    _engines(draft, settings, info, engines)
    unit = plan_units(draft, settings, info, version)
    if settings.cdi:
        _cdi_part(draft, settings, facts, info, unit)
    draft.plan.predicted = _predicted(draft, version)
    return _done(draft)


def _done(draft: Draft) -> Plan:
    draft.plan.decision = "converge" if draft.plan.changes else "nothing"
    return draft.plan


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


def _engines(draft: Draft, settings: Settings, info: Info, engines: t.Sequence[str]) -> None:
    wanted = Wanted(default_runtime=t.cast(t.Any, settings.default_runtime), cdi=settings.cdi)
    plans = [plan_engine(engine, info["engines"][engine], wanted, info) for engine in engines if engine in DAEMONS]
    docker = info["engines"].get("docker")
    if docker:
        plans += [plan_rootless(file, docker, wanted) for file in docker["rootless"]]
    work = []
    for item in plans:
        draft.plan.findings.extend(item.answer.findings)
        if item.work:
            engine_changes(draft, item)
            work.append({"engine": item.engine, "user": item.user})
    if work:
        draft.plan.details["engines"] = work


def engine_changes(draft: Draft, item: EnginePlan) -> None:
    whose = f"{item.engine} of {item.user}" if item.user else item.engine
    for file in item.answer.files:
        draft.change("engine_config", file.path, None, list(file.parts), f"{whose}: {file.path} gets {', '.join(file.parts)}")
    if item.need in ("reload", "restart"):
        draft.change(
            "engine_restart", item.unit, "running with older settings", item.need, f"{whose}: {item.need}, {item.why}", item.disruption
        )


def _cdi_part(draft: Draft, settings: Settings, facts: Info, info: Info, unit: str) -> None:
    real = reality(facts, info)
    specs = [_cdi.parse(spec["path"], spec["text"], spec["reason"]) for spec in info["cdi"]["specs"]]
    ours = [spec for spec in specs if spec.kind == _cdi.KIND or (spec.path == _cdi.PATH and spec.error)]
    main = next((spec for spec in ours if spec.path == _cdi.PATH), None)
    _duplicates(draft, settings, ours, main)
    if not real.driver:
        draft.find(
            "cdi_no_driver",
            "info",
            "No driver answers here, so there is nothing yet that a CDI specification could describe.",
            found="no driver is loaded",
            needed="a working driver",
            fix="Run the role nvidia_driver first; the specification is then written by a later run or at boot.",
        )
        return
    why = _cdi.stale(main, real) if main else [f"there is none at {_cdi.PATH}"]
    if why:
        draft.change("cdi", _cdi.PATH, why, "as the host is", f"the CDI specification is written anew: {'; '.join(why)}")
        draft.plan.details["cdi_refresh"] = unit
    elif info["cdi"]["dev_char_missing"] and _systemd_cgroups(info):
        draft.change("dev_char", "/dev/char", info["cdi"]["dev_char_missing"], [], "links in /dev/char for engines with systemd cgroups")
        draft.plan.details["cdi_refresh"] = unit


def _systemd_cgroups(info: Info) -> bool:
    docker = (info["engines"].get("docker") or {}).get("running") or {}
    return docker.get("CgroupDriver") == "systemd" or any(engine in info["engines"] for engine in ("containerd", "crio"))


def reality(facts: Info, info: Info) -> _cdi.Reality:
    driver = facts.get("driver") or {}
    version = (driver.get("loaded") or {}).get("version") or ""
    gpus = [gpu for gpu in facts.get("gpus") or [] if gpu.get("uuid")]
    migs = [mig["uuid"] for gpu in gpus for mig in (gpu.get("mig") or {}).get("devices") or [] if mig.get("uuid")]
    return _cdi.Reality(version, tuple(gpu["uuid"] for gpu in gpus), tuple(migs), info["cdi"]["paths"])


def _duplicates(draft: Draft, settings: Settings, ours: t.Sequence[_cdi.Spec], main: _cdi.Spec | None) -> None:
    others = [spec for spec in ours if spec is not main]
    for spec in others:
        if settings.cdi_remove_duplicates:
            draft.change(
                "cdi_duplicate", spec.path, spec.kind, None, f"{spec.path} goes away: {_cdi.PATH} is the one that is kept up to date"
            )
            draft.plan.details.setdefault("cdi_remove", []).append(spec.path)
            continue
        draft.find(
            "cdi_duplicate",
            "warn",
            f"{spec.path} is a second CDI specification of {_cdi.KIND}: nobody keeps it up to date, and engines may refuse or prefer it.",
            found=spec.path,
            needed=f"only {_cdi.PATH}",
            fix=f"Remove {spec.path}, or set nvidia_container_toolkit_cdi_remove_duplicates: true.",
            subject=spec.path,
        )


def _predicted(draft: Draft, version: str) -> dict[str, t.Any]:
    packages = draft.plan.details.get("packages")
    if not packages:
        return {}
    names = dict.fromkeys(packages["names"], f"{version}-{packages['revision']}")
    toolkit = {"version": version, "packages": names, "refresh_units": version_key(version) >= version_key("1.18.0")}
    return {"containers": {"toolkit": toolkit}, "packages": {"set": names}}


__all__ = ["Settings", "chosen_engines", "plan", "reality"]
