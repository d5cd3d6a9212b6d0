# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the plan about CDI: is the one specification true, are there others. Pure; private to the collection."""

from __future__ import annotations

import typing as t

from . import _cdi
from ._cdi_readers import is_new
from ._toolkit_input import Draft, Settings

Info = t.Mapping[str, t.Any]


def plan_cdi(draft: Draft, settings: Settings, facts: Info, info: Info, unit: str, older: t.Sequence[tuple[str, str]] = ()) -> None:
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
    if main and is_new(main.version):
        why += [f"it is of CDI version {main.version}, which {name} {version} does not read" for name, version in older]
    why += _capabilities(draft, info["cdi"])
    if why:
        draft.change("cdi", _cdi.PATH, why, "as the host is", f"the CDI specification is written anew: {'; '.join(why)}")
        draft.plan.details["cdi_refresh"] = unit
    elif info["cdi"]["dev_char_missing"] and _systemd_cgroups(info):
        draft.change("dev_char", "/dev/char", info["cdi"]["dev_char_missing"], [], "links in /dev/char for engines with systemd cgroups")
        draft.plan.details["cdi_refresh"] = unit


def _capabilities(draft: Draft, cdi: Info) -> list[str]:
    """Containers of MIG devices need the nodes of their capabilities. The refresh unit makes them with nvidia-modprobe."""
    missing = cdi.get("caps_missing") or []
    if missing and not cdi["modprobe"]:
        draft.find(
            "caps_missing",
            "warn",
            f"Device nodes of MIG's capabilities are not there ({_cdi.some(missing)}), and neither is nvidia-modprobe, which makes them.",
            found=f"no {_cdi.some(missing)}",
            needed="the device nodes of the capabilities that the driver offers",
            fix="Install the driver's package nvidia-modprobe.",
        )
        return []
    return [f"device node {path} is not there" for path in missing]


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
    """Others of our kind go where that is asked for; that they are there is the matrix's finding container_toolkit.cdi_duplicate."""
    for spec in ours if settings.cdi_remove_duplicates else ():
        if spec is not main:
            draft.change(
                "cdi_duplicate", spec.path, spec.kind, None, f"{spec.path} goes away: {_cdi.PATH} is the one that is kept up to date"
            )
            draft.plan.details.setdefault("cdi_remove", []).append(spec.path)
