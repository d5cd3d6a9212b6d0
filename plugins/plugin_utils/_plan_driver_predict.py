# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What later roles would see after a driver plan: for check mode, where nothing is brought and nothing taken.

Private to the collection, pure.
"""

from __future__ import annotations

import typing as t

from ..module_utils._apt_files import AUTOMATIC, automatic_text
from ._facts import merge
from ._plan_driver_facts import FABRIC_MANAGER, IMEX, PERSISTENCED, HostDriver
from ._plan_driver_input import Settings
from ._plan_driver_modules import digest
from ._plan_driver_target import Target, wants_fabric_manager, wants_imex

_GONE = ("no_driver", "no NVIDIA driver is installed")


def predict(settings: Settings, target: Target, host: HostDriver, details: t.Mapping[str, t.Any], reboots: bool) -> dict[str, t.Any]:
    """Partial gpu_info document. A reboot that this run does not make itself changes nothing that runs."""
    files = {entry["path"]: entry["content"] and digest(entry["content"]) for entry in details.get("files") or []}
    predicted: dict[str, t.Any] = {"state_files": {"files": files}} if files else {}
    packages = details.get("packages") or details.get("runfile")
    if packages:
        predicted = merge(predicted, _packages(settings, target, host, packages))
    if (details.get("load") or reboots) and host.gpus:
        predicted = merge(predicted, _running(settings, target, host, bool(packages)))
    return predicted


def predict_absent(host: HostDriver, details: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The same after a removal, where `details` say that there is one. Of the record the initramfs' part stays."""
    packages, runfile = details.get("packages"), details.get("runfile")
    files: dict[str, t.Any] = {entry["path"]: None for entry in details.get("files") or []}
    driver: dict[str, t.Any] = {"installed": None, "library": None} if runfile or (packages or {}).get("names") else {}
    predicted: dict[str, t.Any] = {"driver": driver, "state_files": {"files": files}}
    if packages:
        files.update({AUTOMATIC: None} if host.manager == "apt" else {})
        broken = sorted({*host.broken} - {*packages["names"]})
        predicted["packages"] = {"holds": sorted(host.holds - host.record_holds), "broken": broken}
        if packages["repository_remove"]:
            driver["repository"] = None
    if packages or runfile or "initramfs" in details:
        mark = details.get("initramfs", {}).get("mark") or host.record_initramfs
        forgotten = {**dict.fromkeys(host.record), "initramfs": mark} if packages or runfile else {"initramfs": mark}
        predicted["state_files"]["driver"] = forgotten if mark else None
    if "installed" in driver and details.get("reboot", {}).get("now") and host.gpus:
        driver["loaded"] = None
        state, reason = _GONE
        predicted.update(state=state, reason=reason, nvml={"state": state, "driver_version": None, "nvml_version": None})
    return predicted


def _packages(settings: Settings, target: Target, host: HostDriver, request: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    version = target.version or target.expected or None
    named = {name: {"version": version or "", "held": settings.hold, "status": "installed"} for name in target.names}
    modules = settings.install_kernel_modules
    driver: dict[str, t.Any] = {
        "installed": {
            "version": version,
            "origin": "runfile" if target.source == "runfile" else "package",
            "packages": {**host.packages, **named} if target.source != "runfile" else {},
            "kernel_modules": target.kernel_modules if modules else host.kernel_modules,
            "module_version": version if modules else host.module_version,
            "dkms": host.dkms,
        },
        "library": {"path": "libnvidia-ml.so.1", "version": version},
    }
    if request.get("repository_url"):
        driver["repository"] = {"file": "gpufleet-nvidia", "url": request["repository_url"], "owned": True}
    holds = sorted(target.names) if settings.hold else []
    automatic = {AUTOMATIC: digest(automatic_text(target.names))} if settings.hold and host.manager == "apt" else {}
    record = {"schema": 1, "packages": dict.fromkeys(target.names, version or ""), "holds": holds, "source": target.source}
    return {
        "driver": driver,
        "packages": {"holds": sorted({*host.holds, *holds}), "broken": []},
        "state_files": {"driver": record, "files": automatic},
    }


def _running(settings: Settings, target: Target, host: HostDriver, moving: bool) -> dict[str, t.Any]:
    version = (target.version or target.expected) if moving else host.module_version or target.version
    loaded = {
        "version": version,
        "kernel_modules": target.kernel_modules,
        "modules": ["nvidia", "nvidia_uvm"],
        "parameters": dict(settings.module_parameters.get("nvidia", {})),
        "refcount": 0,
    }
    has_pynvml = bool((host.facts.get("nvml") or {}).get("pynvml"))
    state, reason = ("ok", "") if has_pynvml else ("no_pynvml", "nvidia-ml-py is not on the host")
    unit = {"load": "loaded", "active": "active", "sub": "running", "enabled": "enabled", "need_daemon_reload": False}
    managed = wants_fabric_manager(settings, host)
    units = [*([PERSISTENCED] if settings.persistenced else []), *([FABRIC_MANAGER] if managed else [])]
    if wants_imex(settings, host) and settings.imex.get("group"):
        units.append(IMEX)
    manager = {"unit": FABRIC_MANAGER, "installed_version": version, "active": "active"}
    return {
        **({"fabric": {"manager": manager, "ready": True, "reason": ""}} if managed else {}),
        "state": state,
        "reason": reason,
        "driver": {"loaded": loaded, "nouveau": {"loaded": False, "bound": [], "blacklisted": True}},
        "nvml": {"state": state, "driver_version": version, "nvml_version": version},
        "units": dict.fromkeys(units, unit),
    }
