# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI devices of NVIDIA, and InfiniBand devices with NVLink5's signature, from sysfs: true before any driver exists.

Private to the collection.
"""

from __future__ import annotations

import os
import typing as t

from ._bounded import bounded
from ._reader import Reader

_NVIDIA = "0x10de"
_VPD_TIMEOUT = 3.0
"""Reading VPD goes to the device; a broken one may not answer."""
_SIGNATURE = b"SW_MNG"


def read_pci(reader: Reader) -> dict[str, t.Any]:
    """The part `pci` of gpu_info."""
    gpus, switches = [], []
    root = reader.sys("bus/pci/devices")
    for address in reader.names(root):
        folder = f"{root}/{address}"
        if reader.text(f"{folder}/vendor") != _NVIDIA:
            continue
        kind = (reader.text(f"{folder}/class") or "")[2:]
        if kind[:4] in ("0300", "0302") and not os.path.lexists(f"{folder}/physfn"):  # virtual functions are not GPUs of their own
            gpus.append(_device(reader, folder, address, kind))
        elif kind[:4] == "0680":
            switches.append(_device(reader, folder, address, kind))
    infiniband = _infiniband(reader)
    return {
        "gpus": gpus,
        "nvswitches": switches,
        "nvlink5": any(device["sw_mng"] for device in infiniband),
        "infiniband": infiniband,
        "ib_umad": os.path.isdir(reader.sys("module/ib_umad")),
        "mlx5_core": os.path.isdir(reader.sys("module/mlx5_core")),
    }


def _device(reader: Reader, folder: str, address: str, kind: str) -> dict[str, t.Any]:
    def short(name: str) -> str:
        return (reader.text(f"{folder}/{name}") or "")[2:]

    node = reader.number(f"{folder}/numa_node")
    subsystem = (short("subsystem_vendor"), short("subsystem_device"))
    return {
        "address": address.lower(),
        "vendor_id": short("vendor"),
        "device_id": short("device").lower(),
        "class": kind,
        "driver": reader.link(f"{folder}/driver"),
        "numa_node": None if node is None or node < 0 else node,
        "iommu_group": reader.link(f"{folder}/iommu_group"),
        "subsystem_id": ":".join(subsystem).lower() if all(subsystem) else None,
        "cpu_affinity": reader.text(f"{folder}/local_cpulist") or None,
    }


def _infiniband(reader: Reader) -> list[dict[str, t.Any]]:
    root = reader.sys("class/infiniband")
    return [
        {"name": name, "driver": reader.link(f"{root}/{name}/device/driver"), "sw_mng": _signed(reader, name, f"{root}/{name}/device/vpd")}
        for name in reader.names(root)
    ]


def _signed(reader: Reader, name: str, path: str) -> bool:
    if not os.path.exists(path):
        return False
    part = f"pci.infiniband.{name}.sw_mng"
    if not os.access(path, os.R_OK):
        reader.note(part, f"{path}: permission denied", needs_root=True)
        return False

    def look(_slot: t.Any) -> bool:
        return _SIGNATURE in (reader.data(path) or b"")

    answer = bounded(look, _VPD_TIMEOUT)
    if answer.status != "ok":
        reader.note(part, f"{path}: {answer.text}")
    return bool(answer.data)
