# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of the GPU stack as a whole, from its evidence. Pure; private to the collection. docs/states.md explains each."""

from __future__ import annotations

import typing as t

Facts = t.Mapping[str, t.Any]


def stack_state(driver: Facts, nvml: Facts, gpus: t.Sequence[Facts], counts: Facts) -> tuple[str, str]:
    """(state, reason): the first that holds, from what is missing at the bottom to what is wrong on top."""
    for check in (_no_gpu, _hung, _no_driver, _not_loaded, _mismatch, _nvml, _lost):
        found = check(driver, nvml, gpus, counts)
        if found:
            return found
    return "ok", ""


Found = t.Optional[tuple[str, str]]


def _no_gpu(driver: Facts, nvml: Facts, gpus: t.Sequence[Facts], counts: Facts) -> Found:
    if gpus:
        return None
    expected = counts["expected"]
    return "no_gpu", "no NVIDIA GPU on the PCI bus" + (f", {expected} expected" if expected else "")


def _hung(driver: Facts, nvml: Facts, gpus: t.Sequence[Facts], counts: Facts) -> Found:
    return ("hung", nvml["reason"]) if nvml["state"] == "hung" else None


def _no_driver(driver: Facts, nvml: Facts, gpus: t.Sequence[Facts], counts: Facts) -> Found:
    if driver["installed"] or driver["loaded"] or driver["library"] or nvml["state"] == "ok":
        return None
    nouveau = ", nouveau holds the GPUs" if driver["nouveau"]["bound"] else ""
    return "no_driver", "no NVIDIA driver is installed" + nouveau


def _not_loaded(driver: Facts, nvml: Facts, gpus: t.Sequence[Facts], counts: Facts) -> Found:
    if driver["loaded"] or nvml["state"] == "ok":
        return None
    if nvml["state"] not in ("module_not_loaded", "no_library", "no_pynvml", "impostor_pynvml"):
        return None  # NVML got further than the absence of /proc/driver/nvidia suggests: its own word counts
    installed = driver["installed"] or {}
    if not installed.get("module_version"):
        return "module_not_loaded", "a driver is installed, but no nvidia module to load was found for the running kernel"
    blocked = ", nouveau is loaded instead" if driver["nouveau"]["loaded"] else ""
    return "module_not_loaded", f"the nvidia kernel module {installed['module_version']} is not loaded{blocked}"


def _mismatch(driver: Facts, nvml: Facts, gpus: t.Sequence[Facts], counts: Facts) -> Found:
    loaded, library = driver["loaded"], driver["library"]
    differ = loaded and library and library["version"] and loaded["version"] != library["version"]
    if nvml["state"] == "mismatch" or (differ and nvml["state"] != "ok"):
        versions = f"{library['version'] if library else '?'}, the loaded module {loaded['version'] if loaded else '?'}"
        return "mismatch", f"libnvidia-ml.so.1 is version {versions}"
    return None


def _nvml(driver: Facts, nvml: Facts, gpus: t.Sequence[Facts], counts: Facts) -> Found:
    if nvml["state"] in ("ok", "lost"):
        return None
    if nvml["state"] in ("no_library", "no_pynvml", "impostor_pynvml"):
        return nvml["state"], nvml["reason"]
    return "error", nvml["reason"]


def _lost(driver: Facts, nvml: Facts, gpus: t.Sequence[Facts], counts: Facts) -> Found:
    lost = [gpu["pci_address"] for gpu in gpus if gpu["state"] == "lost"]
    if lost:
        return "lost", f"{len(lost)} of {len(gpus)} GPUs do not answer: {', '.join(lost)}"
    if nvml["state"] == "lost":
        return "lost", nvml["reason"]
    expected = counts["expected"]
    if expected and len(gpus) < expected:
        return "lost", f"{len(gpus)} GPUs are on the PCI bus, {expected} expected"
    return None
