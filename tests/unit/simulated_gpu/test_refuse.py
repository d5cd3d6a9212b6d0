# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role's look for real hardware: names what is real, and never takes the simulation's own work for it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from .conftest import FILES, Sim


def found(root: Path) -> list[str]:
    command = [str(FILES / "find-real-gpu.sh"), str(root)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()


def pci(root: Path, address: str, klass: str, vendor: str = "0x10de") -> None:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    for name, value in (("vendor", vendor), ("class", klass), ("device", "0x2330")):
        (folder / name).write_text(value + "\n", encoding="ascii")


def test_an_empty_host_has_nothing(tmp_path: Path) -> None:
    pci(tmp_path, "0000:00:1f.3", "0x040300")
    pci(tmp_path, "0000:01:00.1", "0x040300", "0x10de")  # sound of a graphics board is no GPU
    pci(tmp_path, "0000:02:00.0", "0x030000", "0x1002")
    assert found(tmp_path) == []


def test_real_gpu_switch_and_module_are_named(tmp_path: Path) -> None:
    pci(tmp_path, "0000:1b:00.0", "0x030200")
    pci(tmp_path, "0000:05:00.0", "0x068000")
    module = tmp_path / "sys/module/nvidia"
    module.mkdir(parents=True)
    (module / "version").write_text("580.159.04\n", encoding="ascii")
    assert found(tmp_path) == [
        "PCI device 0000:05:00.0 (class 0x068000, device 0x2330)",
        "PCI device 0000:1b:00.0 (class 0x030200, device 0x2330)",
        "kernel module nvidia 580.159.04",
    ]


def test_the_simulation_does_not_refuse_itself(make: Any) -> None:
    sim: Sim = make("h100-sxm")
    assert found(sim.root) == []
    pci(sim.root, "0000:fe:00.0", "0x030200")
    assert found(sim.root) == ["PCI device 0000:fe:00.0 (class 0x030200, device 0x2330)"]
