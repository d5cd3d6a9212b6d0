# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the state of the GPU stack as gpu_info names it. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from ._contracts import Finding, Severity
from ._matrix_case import Case
from ._matrix_findings import finding

STATES = "docs/states.md"

# state → finding id, what is needed, what to do. A state that the driver role cures does not stop that role.
_STATES: dict[str, tuple[str, str, str]] = {
    "hung": ("nvml.hung", "a driver that answers", "Find the hung process (see the reason), drain the host and reboot it."),
    "lost": ("gpu.lost", "GPUs that answer", "Look for Xid 79 in the kernel log; drain the host, reboot, reseat or replace the GPU."),
    "no_driver": ("nvml.no_driver", "a driver", "Run the role nvidia_driver (playbook gpufleet.inference.site)."),
    "module_not_loaded": (
        "nvml.module_not_loaded",
        "a loaded nvidia module",
        "See why modprobe nvidia fails: kernel headers, Secure Boot, nouveau.",
    ),
    "no_library": (
        "nvml.no_library",
        "libnvidia-ml.so.1 of the driver's version",
        "Install the driver's library package (libnvidia-ml1 or libnvidia-compute).",
    ),
    "no_pynvml": (
        "nvml.no_pynvml",
        "nvidia-ml-py under /opt/gpufleet/python",
        "Run the role gpu_preflight, which unpacks it from a wheel.",
    ),
    "impostor_pynvml": (
        "nvml.impostor_pynvml",
        "nvidia-ml-py",
        "Remove the package pynvml, or run gpu_preflight, whose own copy goes first.",
    ),
    "error": ("nvml.error", "an NVML that answers", "See the error; check the kernel log for NVRM messages."),
}
_CURED_BY_PREFLIGHT = ("no_pynvml", "impostor_pynvml")
_CURED_BY_DRIVER = ("no_driver", "module_not_loaded", "no_library")


def rules(case: Case) -> t.Iterator[Finding]:
    state, reason = str(case.facts.get("state") or ""), str(case.facts.get("reason") or "")
    if state == "no_gpu":
        yield finding(
            "host.no_gpu",
            "warn",
            found="no NVIDIA GPU on the PCI bus",
            needed="at least one",
            message="This host has no NVIDIA GPU on its PCI bus.",
            fix="Take it out of the GPU group, or look into the machine (BIOS, power, slot).",
            source="sysfs, PCI class 0300 and 0302, vendor 10de",
        )
    elif state == "mismatch":
        yield _mismatch(case, reason)
    elif state in _STATES and not (state == "lost" and any(gpu.get("state") == "lost" for gpu in case.gpus)):
        name, needed, fix = _STATES[state]
        yield finding(
            name,
            _state_severity(case, state),
            found=f"state {state}" + (f": {reason}" if reason else ""),
            needed=needed,
            message=_sentence(reason) or f"The GPU stack of this host is in state {state}.",
            fix=fix,
            source=STATES,
        )


def _state_severity(case: Case, state: str) -> Severity:
    if state in _CURED_BY_PREFLIGHT:  # facts from sysfs are complete enough for every rule
        return "warn"
    if state in _CURED_BY_DRIVER:  # a bare host is no broken host, unless something is to run on it
        return "info" if case.cures_driver else "block" if case.engines else "warn"
    return "block"


def _mismatch(case: Case, reason: str) -> Finding:
    """A mismatch is cured by a reboot exactly when everything on disk is one version and only the loaded module is another."""
    driver = case.facts.get("driver") or {}
    installed, loaded = driver.get("installed") or {}, driver.get("loaded") or {}
    on_disk = {installed.get("version"), installed.get("module_version"), (driver.get("library") or {}).get("version")} - {None}
    curable = len(on_disk) == 1 and loaded.get("version") not in on_disk
    library = (driver.get("library") or {}).get("version") or "unknown"
    if curable and case.cures_driver:
        return finding(
            "nvml.mismatch_reboot",
            "info",
            found=f"loaded {loaded.get('version')}, on disk {on_disk.pop()}",
            needed="a reboot",
            message=_sentence(reason) or "The driver on disk is not the one that runs; a reboot makes them the same.",
            fix="The role's reboot policy decides.",
            source=STATES,
        )
    return finding(
        "nvml.mismatch",
        "block",
        found=f"kernel module {loaded.get('version') or 'unknown'}, library {library}, package {installed.get('version') or 'none'}",
        needed="one version everywhere",
        message=_sentence(reason) or f"The loaded kernel module ({loaded.get('version')}) and the NVML library ({library}) differ.",
        fix="Reboot the host."
        if curable
        else "Find out who replaced the library or the module (dpkg -S, rpm -qf), reinstall the driver set, reboot.",
        source="NVML error 18, " + STATES,
    )


def _sentence(text: str) -> str:
    """A reason of gpu_info as a sentence of its own."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".") if text else ""
