# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices before any driver exists."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.inference.plugins.module_utils import _pci


def test_gpus_switches_and_everything_else(host: Any) -> None:
    host.pci("0000:1b:00.0", driver="nvidia")
    host.pci("0000:43:00.0", device="0x2684", kind="0x030000")
    host.pci("0000:43:00.1", device="0x22ba", kind="0x040300")  # its sound
    host.pci("0000:05:00.0", device="0x22a3", kind="0x068000")
    host.pci("0000:00:02.0", device="0x1111", kind="0x030000", vendor="0x1234")
    virtual = host.pci("0000:1b:00.4", device="0x2330")
    (virtual / "physfn").symlink_to("../0000:1b:00.0")
    found = _pci.read_pci(host.reader())
    assert [gpu["address"] for gpu in found["gpus"]] == ["0000:1b:00.0", "0000:43:00.0"]
    assert found["gpus"][0] == {
        "address": "0000:1b:00.0",
        "vendor_id": "10de",
        "device_id": "2330",
        "class": "030200",
        "driver": "nvidia",
        "numa_node": 1,
        "iommu_group": None,
        "subsystem_id": "10de:16c1",
        "cpu_affinity": "0-31",
    }
    assert [switch["device_id"] for switch in found["nvswitches"]] == ["22a3"]
    assert found["nvlink5"] is found["ib_umad"] is found["mlx5_core"] is False


def test_no_numa_is_null(host: Any) -> None:
    (host.pci("0000:1b:00.0") / "numa_node").write_text("-1\n")
    assert _pci.read_pci(host.reader())["gpus"][0]["numa_node"] is None


def test_nvlink5_signature(host: Any) -> None:
    host.write("sys/class/infiniband/mlx5_0/device/vpd", b"\x82\x10\x00ConnectX-7\x90\x20\x00")
    host.write("sys/class/infiniband/mlx5_4/device/vpd", b"\x82\x10\x00....V3\x07SW_MNG\x78")
    host.link("sys/class/infiniband/mlx5_4/device/driver", "../../drivers/mlx5_core")
    host.write("sys/class/infiniband/mlx5_9/name")
    for module in ("ib_umad", "mlx5_core"):
        (host.root / "sys/module" / module).mkdir()
    found = _pci.read_pci(host.reader())
    assert found["infiniband"] == [
        {"name": "mlx5_0", "driver": None, "sw_mng": False},
        {"name": "mlx5_4", "driver": "mlx5_core", "sw_mng": True},
        {"name": "mlx5_9", "driver": None, "sw_mng": False},
    ]
    assert found["nvlink5"] is found["ib_umad"] is found["mlx5_core"] is True
