# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the GPUs' fabric is ready for work that spans GPUs. Pure; private to the collection."""

from __future__ import annotations

import typing as t

from ._package_sets import upstream

_MANAGER = "nvidia-fabricmanager.service"
_IMEX = "nvidia-imex.service"
_MANAGER_PACKAGES = ("nvidia-fabricmanager", "nvidia-fabric-manager")
_IMEX_PACKAGES = ("nvidia-imex",)

Facts = t.Mapping[str, t.Any]


def fabric_facts(pci: Facts, gpus: t.Sequence[Facts], units: t.Mapping[str, Facts], installed: t.Mapping[str, str]) -> dict[str, t.Any]:
    """The part `fabric` of gpu_info."""
    imex = _service(_IMEX, _IMEX_PACKAGES, units, installed)
    kind = _kind(pci, gpus, imex)
    manager = _service(_MANAGER, _MANAGER_PACKAGES, units, installed)
    needed = kind != "none"
    ready, reason = _ready(kind, manager, imex, gpus)
    return {"needed": needed, "kind": kind, "manager": manager, "imex": imex, "ready": ready, "reason": reason}


def _kind(pci: Facts, gpus: t.Sequence[Facts], imex: t.Optional[Facts]) -> str:
    if pci["nvlink5"]:
        return "nvlink5"
    if pci["nvswitches"]:
        return "nvswitch"
    # The switches of a rack are in trays of their own; what its compute trays have is a cluster to belong to.
    member = any((gpu["fabric"] or {}).get("cluster_uuid") for gpu in gpus)
    return "imex" if imex and member else "none"


def _service(
    unit: str, packages: t.Sequence[str], units: t.Mapping[str, Facts], installed: t.Mapping[str, str]
) -> t.Optional[dict[str, t.Any]]:
    version = next((v for name, v in installed.items() if name in packages or name.startswith(tuple(p + "-" for p in packages))), None)
    known = units.get(unit)
    if version is None and known is None:
        return None
    return {"unit": unit, "installed_version": upstream(version) if version else None, "active": known["active"] if known else "not-found"}


def _ready(kind: str, manager: t.Optional[Facts], imex: t.Optional[Facts], gpus: t.Sequence[Facts]) -> tuple[t.Optional[bool], str]:
    if kind in ("nvswitch", "nvlink5"):
        if manager is None:
            return False, "this machine has NVSwitches and no fabric manager is installed"
        if manager["active"] != "active":
            return False, f"{manager['unit']} is {manager['active']}"
    if kind == "imex" and imex and imex["active"] != "active":
        return False, f"{imex['unit']} is {imex['active']}"
    alive = [gpu for gpu in gpus if gpu["state"] == "ok"]
    if not alive:
        return None, "no GPU answers"
    for gpu in alive:
        trouble = _trouble(gpu, kind)
        if trouble:
            return False, f"GPU {gpu['pci_address']}: {trouble}"
    return True, "" if kind != "none" else "no fabric needed"


def _trouble(gpu: Facts, kind: str) -> str:
    fabric, nvlink = gpu["fabric"], gpu["nvlink"]
    if fabric and fabric["state"] != "not_supported":
        if fabric["state"] != "completed":
            # A single GPU of such a board, handed to a virtual machine, never starts to join: nothing waits for it.
            return "" if kind == "none" and fabric["state"] == "not_started" else f"fabric state is {fabric['state']}"
        return "" if fabric["status"] == "SUCCESS" else f"fabric status is {fabric['status']}"
    if kind != "none" and nvlink and nvlink["active"] < nvlink["links"]:
        return f"{nvlink['active']} of {nvlink['links']} NVLinks are up"
    return ""
