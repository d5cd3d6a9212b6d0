# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must run: the module loaded, nvidia-persistenced, the fabric manager.

Private to the collection, pure. Order in converge is the order here: module, device nodes, persistence daemon, fabric manager.
"""

from __future__ import annotations

import json
import typing as t

from ._plan_driver_facts import FABRIC_MANAGER, IMEX, PERSISTENCED, HostDriver
from ._plan_driver_input import Settings
from ._plan_driver_part import Part
from ._plan_driver_reboot import KERNEL_CHANGED, Reason
from ._plan_driver_target import wants_fabric_manager, wants_imex

_WITHOUT = {
    "persistenced": "nvidia_driver_persistenced to false",
    "fabric_manager": "nvidia_driver_fabric_manager to absent",
    "imex": "nvidia_driver_imex_group to an empty text",
}
LOADABLE = ("enabled", "enabled-runtime", "static", "indirect", "generated", "alias")


def running_part(settings: Settings, host: HostDriver, moving: bool, because: t.Sequence[Reason]) -> Part:
    """`moving`: packages change in this plan; `because`: why what runs must be replaced by a reboot first."""
    part = Part()
    if not settings.install_kernel_modules:
        if not settings.persistenced:
            _service(part, host, "persistenced", PERSISTENCED, False, moving, False)
        return part
    if not moving and not host.loaded_version and not host.module_version:
        # A kernel that has the module is a reboot away: the reboot policy has the word.
        if any(reason.id == KERNEL_CHANGED for reason in because):
            return part
        if not host.module_unknown:
            _module_missing(part, host)
            return part
        _module_unknown(part, host)
    if not host.gpus:
        return part
    reboot = bool(because)
    loads = not host.loaded_version and not reboot
    if loads:
        part.change("load", "nvidia", None, host.module_version or "as installed", "load the kernel modules")
        part.details["load"] = ["nvidia", "nvidia-uvm"]
        part.details["load_version"] = host.module_version or host.version or ""
    runnable = not reboot
    _service(part, host, "persistenced", PERSISTENCED, settings.persistenced, moving, runnable)
    _persistence_left(part, settings, host)
    if wants_fabric_manager(settings, host):
        _service(part, host, "fabric_manager", FABRIC_MANAGER, True, moving, runnable)
    if wants_imex(settings, host) and settings.imex.get("group"):
        _service(part, host, "imex", IMEX, True, moving, runnable)
    return part


def _service(part: Part, host: HostDriver, name: str, unit: str, wanted: bool, moving: bool, runnable: bool) -> None:
    state = host.unit(unit)
    exists = state.get("load") not in (None, "", "not-found")
    if not exists:
        if wanted and moving:
            part.change(name, unit, "absent", "active, enabled", f"start and enable {unit}")
            part.details.setdefault("services", []).append({"unit": unit, "enabled": True, "started": runnable})
        elif wanted:
            _unit_missing(part, name, unit)
        return
    active, enabled = state.get("active") in ("active", "activating", "reloading"), state.get("enabled") in LOADABLE
    right = (
        (not active and state.get("enabled") in ("disabled", "static", "masked", ""))
        if not wanted
        else enabled and (active or not runnable)
    )
    if right:
        return
    before = f"{state.get('active')}, {state.get('enabled')}"
    after = ("active, enabled" if runnable else "enabled") if wanted else "inactive, disabled"
    part.change(
        name,
        unit,
        before,
        after,
        f"{'start and enable' if wanted else 'stop and disable'} {unit}",
        "none" if wanted else "host_service_restart",
    )
    part.details.setdefault("services", []).append({"unit": unit, "enabled": wanted, "started": wanted and runnable})


def _persistence_left(part: Part, settings: Settings, host: HostDriver) -> None:
    """The daemon switches the mode off when it stops. What stays on was set by other hands, unless role gpu_power wants it."""
    wanted = _wants_persistence((host.facts.get("state_files") or {}).get("gpu_settings"))
    on = [str(gpu.get("index")) for gpu in host.facts.get("gpus") or [] if gpu.get("persistence") is True]
    if settings.persistenced or not on or wanted or host.unit(PERSISTENCED).get("active") == "active":
        return
    part.find(
        "persistence_left",
        "warn",
        f"nvidia-persistenced is off as asked, but persistence mode is on for GPU {', '.join(on)}: somebody set it by nvidia-smi -pm 1.",
        found=f"persistence mode on: GPU {', '.join(on)}",
        needed="off, or asked for (nvidia_driver_persistenced, or gpu_power_persistence)",
        fix="nvidia-smi -pm 0; it is gone after a reboot in any case.",
        subject="persistence mode",
    )


def _wants_persistence(settings: t.Any) -> bool:
    return '"persistence": true' in json.dumps(settings or {}).lower()


def _unit_missing(part: Part, name: str, unit: str) -> None:
    part.find(
        f"{name}_missing",
        "warn",
        f"{unit} is wanted, but no installed package brings it.",
        found="no such unit",
        needed=unit,
        fix=f"Add the package with {unit} to nvidia_driver_packages_extra, or set {_WITHOUT[name]}.",
        subject=unit,
    )


def _module_missing(part: Part, host: HostDriver) -> None:
    """Packages without a module: nothing was built, or the build failed. Success would be a lie."""
    built = [f"{entry.get('name')}/{entry.get('version')} for {entry.get('kernel') or '?'}: {entry.get('state')}" for entry in host.dkms]
    release = str(host.kernel.get("release"))
    headers = "present" if release in (host.kernel.get("headers") or []) else "missing"
    part.find(
        "module_missing",
        "block",
        f"Driver {host.version} is installed, but there is no nvidia kernel module for the running kernel {release} (headers {headers}).",
        found="; ".join(built) or "no nvidia module, and DKMS knows none",
        needed=f"a module of version {host.version} for kernel {release}",
        fix=_fix(host, release, headers),
        subject=release,
    )


def _module_unknown(part: Part, host: HostDriver) -> None:
    """No answer is not the answer no: the load shows it."""
    release = str(host.kernel.get("release"))
    part.find(
        "module_unknown",
        "warn",
        f"modinfo gives no answer, so it is not known which nvidia module kernel {release} has"
        f"{'; DKMS says that one is installed' if host.dkms else ''}. Loading it will tell.",
        found="no answer of modinfo",
        needed=f"a module of version {host.version} for kernel {release}",
        fix="Look for a disk or a process that hangs (`ps -eo stat,wchan,cmd | grep ^D`), and run `modinfo nvidia` on the host.",
        subject=release,
    )


def _fix(host: HostDriver, release: str, headers: str) -> str:
    package: t.Final = f"kernel-devel-{release}" if host.manager == "dnf" else f"linux-headers-{release}"
    if headers == "missing":
        return (
            f"Install {package} (DKMS then builds the module), "
            "or set nvidia_driver_install_kernel_modules: false where the module comes from elsewhere."
        )
    return "See /var/lib/dkms/*/*/build/make.log on the host; another branch or kind of kernel modules may build."
