# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What later roles would see after a driver plan: for check mode on a host that has no driver yet.

Private to the collection, pure.
"""

from __future__ import annotations

import typing as t

from ._plan_driver_facts import PERSISTENCED, HostDriver
from ._plan_driver_input import Settings
from ._plan_driver_target import Target


def predict(settings: Settings, target: Target, host: HostDriver, moving: bool, loads: bool, reboots: bool) -> dict[str, t.Any]:
    """Partial gpu_info document. A reboot that this run does not make itself changes nothing that runs."""
    version = target.version or target.expected or None
    driver: dict[str, t.Any] = {}
    if moving:
        driver["installed"] = {
            "version": version,
            "origin": "package",
            "packages": {
                **host.packages,
                **{name: {"version": version or "", "held": settings.hold, "status": "installed"} for name in target.names},
            },
            "kernel_modules": target.kernel_modules if settings.install_kernel_modules else host.kernel_modules,
            "module_version": version if settings.install_kernel_modules else host.module_version,
            "dkms": host.dkms,
        }
        driver["library"] = {"path": "libnvidia-ml.so.1", "version": version}
    if not (loads or reboots) or not host.gpus:
        return {"driver": driver} if driver else {}
    running = version if moving else host.module_version or version
    driver["loaded"] = {
        "version": running,
        "kernel_modules": target.kernel_modules,
        "modules": ["nvidia", "nvidia_uvm"],
        "parameters": dict(settings.module_parameters.get("nvidia", {})),
        "refcount": 0,
    }
    driver["nouveau"] = {"loaded": False, "bound": [], "blacklisted": True}
    unit = {"load": "loaded", "active": "active", "sub": "running", "enabled": "enabled", "need_daemon_reload": False}
    predicted: dict[str, t.Any] = {"driver": driver, "nvml": {"driver_version": running, "nvml_version": running}}
    if settings.persistenced:
        predicted["units"] = {PERSISTENCED: unit}
    has_pynvml = bool((host.facts.get("nvml") or {}).get("pynvml"))
    predicted["state"], predicted["reason"] = ("ok", "") if has_pynvml else ("no_pynvml", "nvidia-ml-py is not on the host")
    predicted["nvml"]["state"] = predicted["state"]
    return predicted
