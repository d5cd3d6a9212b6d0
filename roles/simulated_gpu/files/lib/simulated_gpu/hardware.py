# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hardware as the kernel shows it before any driver exists: PCI devices (GPUs, NVSwitches, NVLink 5 bridges), module folders in sysfs."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import mounts, paths, state
from .profile import Machine

PCI = "/sys/bus/pci/devices"
SPEED = {"3": "8.0 GT/s PCIe", "4": "16.0 GT/s PCIe", "5": "32.0 GT/s PCIe"}
MODULE_LAYER = "/sys/module"
INFINIBAND = "/sys/class/infiniband"


def present_gpus(machine: Machine) -> list[int]:
    """Slots whose GPU the bus sees: a GPU with the fault `missing` has fallen off it, `no_device` takes all."""
    if "no_device" in state.read(paths.run("faults")):
        return []
    return [slot for slot in range(machine.count) if "missing" not in state.read(state.gpu_file(machine.uuid(slot), "faults"))]


def config_space(
    vendor: int, device: int, klass: int, revision: int, subsystem_vendor: int, subsystem: int, bars: Sequence[int] = ()
) -> bytes:
    """A 256 byte type 0 header with power management, MSI and PCI Express capabilities, enough for lspci -v."""
    space = bytearray(256)
    struct.pack_into("<HHHH", space, 0x00, vendor, device, 0x0546, 0x0010)
    space[0x08] = revision
    space[0x09:0x0C] = klass.to_bytes(3, "little")
    for index, base in enumerate(bars[:6]):
        struct.pack_into("<I", space, 0x10 + 4 * index, base)
    struct.pack_into("<HH", space, 0x2C, subsystem_vendor, subsystem)
    space[0x34] = 0x40
    space[0x3C], space[0x3D] = 0xFF, 0x01
    struct.pack_into("<BBHI", space, 0x40, 0x01, 0x48, 0x0013, 8)  # power management -> 0x48
    struct.pack_into("<BBH", space, 0x48, 0x05, 0x60, 0x0388)  # MSI -> 0x60
    struct.pack_into("<BBHII", space, 0x60, 0x10, 0x00, 0x0002, 0x112C8021, 0x00005134)  # PCI Express endpoint
    struct.pack_into("<IHH", space, 0x6C, 0x00457905, 0x0000, 0x1105)  # link: gen 5, x16
    return bytes(space)


def _write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.write_text(content + "\n", encoding="utf-8")
        os.chmod(path, 0o444)


def _device(address: str, ids: dict[str, str], extra: dict[str, str]) -> Path:
    folder = paths.at(PCI) / address
    if folder.is_symlink():  # a device of the machine itself at that address: in our layer, the simulated one stands before it
        folder.unlink()
    vendor, device, klass = int(ids["vendor"], 16), int(ids["device"], 16), int(ids["class"], 16)
    sub_vendor, sub_device = int(ids["subsystem_vendor"], 16), int(ids["subsystem_device"], 16)
    alias = (
        f"pci:v{vendor:08X}d{device:08X}sv{sub_vendor:08X}sd{sub_device:08X}bc{klass >> 16:02X}sc{klass >> 8 & 0xFF:02X}i{klass & 0xFF:02X}"
    )
    node = extra.get("numa_node", "-1")
    _write(
        folder,
        {
            **{name: ids[name] for name in ("vendor", "device", "class", "subsystem_vendor", "subsystem_device", "revision")},
            "irq": extra.get("irq", "0"),
            "enable": "1",
            "numa_node": node,
            "modalias": alias,
            "power_state": "D0",
            "reset_method": "flr bus",
            "d3cold_allowed": "1",
            "local_cpulist": "0",
            "driver_override": "(null)",
            "current_link_speed": extra.get("speed", "16.0 GT/s PCIe"),
            "max_link_speed": extra.get("speed", "16.0 GT/s PCIe"),
            "current_link_width": extra.get("width", "16"),
            "max_link_width": extra.get("width", "16"),
            "resource": "\n".join(["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 7),
            "uevent": f"PCI_CLASS={klass:X}\nPCI_ID={vendor:04X}:{device:04X}\nPCI_SUBSYS_ID={sub_vendor:04X}:{sub_device:04X}\n"
            f"PCI_SLOT_NAME={address}\nMODALIAS={alias}",
        },
    )
    config = folder / "config"
    config.write_bytes(config_space(vendor, device, klass, int(ids["revision"], 16), sub_vendor, sub_device))
    return folder


def gpu_ids(machine: Machine, slot: int) -> dict[str, str]:
    device, subsystem = int(machine.get(slot, "pci.device_id"), 16), int(machine.get(slot, "pci.subsystem_id"), 16)
    sub = int(machine.get(slot, "pci.sub_class", "2"))
    return {
        "vendor": "0x10de",
        "device": f"0x{device >> 16:04x}",
        "class": f"0x03{sub:02x}00",
        "revision": machine.get(slot, "pci.revision", "0xa1"),
        "subsystem_vendor": f"0x{subsystem & 0xFFFF:04x}",
        "subsystem_device": f"0x{subsystem >> 16:04x}",
    }


def apply(machine: Machine) -> bool:
    """Make the hardware of the profile visible; devices of GPUs with the fault `missing` are left out. Safe to call again."""
    if not mounts.overlay(PCI):
        return False
    wanted = {}
    for slot in present_gpus(machine):
        generation = machine.get(slot, "pcie.max_generation")
        wanted[machine.get(slot, "pci.address")] = (
            gpu_ids(machine, slot),
            {
                "numa_node": machine.get(slot, "pci.numa_node", "-1"),
                "irq": machine.get(slot, "irq", "0"),
                "speed": SPEED.get(generation, "16.0 GT/s PCIe"),
                "width": machine.get(slot, "pcie.max_width", "16"),
            },
        )
    for device in machine.pci_devices():
        wanted[device["address"]] = (device, {"numa_node": device.get("numa_node", "-1")})
    before = set(state.read(paths.run("pci")))
    for address in before - set(wanted):
        mounts.remove_tree(paths.at(PCI) / address)
    for address, (ids, extra) in wanted.items():
        folder = _device(address, ids, extra)
        if ids.get("vpd"):
            (folder / "vpd").write_bytes(vpd(ids["vpd"]))
        if ids.get("infiniband"):
            _infiniband(ids["infiniband"], folder)
    state.write(paths.run("pci"), {address: ids["device"] for address, (ids, _extra) in wanted.items()})
    return True


def vpd(text: str) -> bytes:
    """Vital product data: an identifier string and an end tag."""
    body = text.encode()
    return b"\x82" + struct.pack("<H", len(body)) + body + b"\x78"


def _infiniband(name: str, pci: Path) -> None:
    """NVLink 5 shows as InfiniBand functions; the kernel has the class folder only with ib_core, so it may have to be made."""
    if not paths.relocated() and not os.path.isdir(INFINIBAND) and not mounts.overlay("/sys/class"):
        return
    if not paths.relocated() and os.path.isdir(INFINIBAND) and not mounts.active("/sys/class") and not mounts.overlay(INFINIBAND):
        return
    folder = paths.at(INFINIBAND) / name
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "device"
    if not link.is_symlink():
        link.symlink_to(pci)


def bind_driver(machine: Machine, driver: str | None) -> None:
    """The driver line in uevent and the driver link of each GPU and NVSwitch.

    Ours are folders; a link is a device of the machine itself that happens to have an address of the profile.
    """
    targets = {machine.get(slot, "pci.address"): driver for slot in range(machine.count)}
    targets.update(
        {device["address"]: device.get("driver") if driver else None for device in machine.pci_devices() if device["vendor"] == "0x10de"}
    )
    for address, name in targets.items():
        folder = paths.at(PCI) / address
        link, uevent = folder / "driver", folder / "uevent"
        if folder.is_symlink() or not folder.is_dir():
            continue
        if link.is_symlink():
            link.unlink()
        lines = [line for line in uevent.read_text(encoding="utf-8").splitlines() if not line.startswith("DRIVER=")]
        if name:
            link.symlink_to(f"/sys/bus/pci/drivers/{name}")
            lines.insert(0, f"DRIVER={name}")
        os.chmod(uevent, 0o644)
        uevent.write_text("\n".join(lines) + "\n", encoding="utf-8")


def show_modules(names: Sequence[str], record: dict[str, str], holders: Mapping[str, Sequence[str]] | None = None) -> None:
    """`refcnt` counts the modules that hold one; processes come and go without telling, rmmod looks at them itself."""
    if not mounts.overlay(MODULE_LAYER):
        return
    for name in names:
        held_by = (holders or {}).get(name, ())
        folder = paths.at(MODULE_LAYER) / name / "holders"
        mounts.remove_tree(folder)
        folder.mkdir(parents=True)
        for holder in held_by:
            (folder / holder).mkdir()
        _write(
            paths.at(MODULE_LAYER) / name,
            {
                "version": record["version"],
                "refcnt": str(len(held_by)),
                "initstate": "live",
                "taint": "OE" if "GPL" in record["license"] else "POE",
                "coresize": "100000",
                "srcversion": "SIMULATED0000000000000000"[:24],
            },
        )
    (paths.at(MODULE_LAYER) / names[0] / "parameters").mkdir(exist_ok=True)
    if "nvidia_drm" in names:
        _write(paths.at(MODULE_LAYER) / "nvidia_drm" / "parameters", {"modeset": "N", "fbdev": "N"})


def hide_modules(names: Sequence[str]) -> None:
    for name in names:
        mounts.remove_tree(paths.at(MODULE_LAYER) / name)


def remove(machine: Machine) -> None:
    """Take everything away again: the mounts on a host, the made folders below a relocated root."""
    for address in state.read(paths.run("pci")):
        mounts.remove_tree(paths.at(PCI) / address)
    for device in machine.pci_devices():
        if device.get("infiniband"):
            mounts.remove_tree(paths.at(INFINIBAND) / device["infiniband"])
    paths.run("pci").unlink(missing_ok=True)
    for target in (PCI, MODULE_LAYER, INFINIBAND, "/sys/class"):
        mounts.undo(target)
