# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs as one list: what PCI knows and what NVML knows, merged by PCI address. Pure; private to the collection."""

from __future__ import annotations

import typing as t

_EMPTY: dict[str, t.Any] = {
    "index": None,
    "uuid": None,
    "pci_address": "",
    "pci_device_id": "",
    "pci_subsystem_id": None,
    "product": None,
    "state": "unavailable",
    "minor": None,
    "serial": None,
    "board_part_number": None,
    "vbios": None,
    "inforom": None,
    "gsp_firmware": None,
    "architecture": None,
    "compute_capability": None,
    "memory_bytes": None,
    "bar1_bytes": None,
    "power": None,
    "temperature_c": None,
    "persistence": None,
    "compute_mode": None,
    "ecc": None,
    "row_remap": None,
    "retired_pages": None,
    "mig": None,
    "clocks_mhz": None,
    "throttle_reasons": [],
    "pstate": None,
    "pcie": None,
    "nvlink": None,
    "fabric": None,
    "recovery_action": None,
    "numa_node": None,
    "cpu_affinity": None,
    "processes": [],
    "driver_bound": None,
    "errors": {},
}


def merge_gpus(pci: t.Sequence[t.Mapping[str, t.Any]], nvml: t.Optional[t.Sequence[t.Mapping[str, t.Any]]]) -> list[dict[str, t.Any]]:
    """One entry a GPU, in PCI order. `nvml` is None where NVML did not answer at all.

    A GPU that has fallen off the bus may not even tell NVML its address: such an answer goes to a GPU which the
    nvidia driver holds and which nobody else spoke for.
    """
    answered = {gpu["pci_address"]: gpu for gpu in nvml or () if gpu.get("pci_address")}
    nameless = [gpu for gpu in nvml or () if not gpu.get("pci_address")]
    gpus = []
    for device in pci:
        answer: t.Mapping[str, t.Any] = answered.pop(device["address"], {})
        silent = nvml is not None and not answer and device["driver"] == "nvidia"
        if silent:
            answer = nameless.pop(0) if nameless else {"state": "lost", "errors": {"device": "NOT_ENUMERATED"}}
        gpus.append({**_EMPTY, **_from_pci(device), **answer})
    gpus += [{**_EMPTY, **gpu} for gpu in answered.values()]  # no sysfs: a container, or WSL
    return sorted(gpus, key=lambda gpu: gpu["pci_address"])


def _from_pci(device: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {
        "pci_address": device["address"],
        "pci_device_id": device["device_id"],
        "pci_subsystem_id": device.get("subsystem_id"),
        "numa_node": device["numa_node"],
        "cpu_affinity": device.get("cpu_affinity"),
        "driver_bound": device["driver"],
    }
