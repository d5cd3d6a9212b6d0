# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the driver shows in /proc/driver/nvidia, in the words of a 580 driver."""

from __future__ import annotations

from . import mounts, paths, state
from .profile import Machine

PARAMS = (
    ("ResmanDebugLevel", "4294967295"),
    ("RmLogonRC", "1"),
    ("ModifyDeviceFiles", "1"),
    ("DeviceFileUID", "0"),
    ("DeviceFileGID", "0"),
    ("DeviceFileMode", "438"),
    ("InitializeSystemMemoryAllocations", "1"),
    ("UsePageAttributeTable", "4294967295"),
    ("EnableMSI", "1"),
    ("EnablePCIeGen3", "0"),
    ("MemoryPoolSize", "0"),
    ("KMallocHeapMaxSize", "0"),
    ("VMallocHeapMaxSize", "0"),
    ("IgnoreMMIOCheck", "0"),
    ("EnableStreamMemOPs", "0"),
    ("EnableUserNUMAManagement", "1"),
    ("NvLinkDisable", "0"),
    ("RmProfilingAdminOnly", "1"),
    ("PreserveVideoMemoryAllocations", "0"),
    ("EnableS0ixPowerManagement", "0"),
    ("S0ixPowerManagementVideoMemoryThreshold", "256"),
    ("DynamicPowerManagement", "3"),
    ("DynamicPowerManagementVideoMemoryThreshold", "200"),
    ("RegisterPCIDriver", "1"),
    ("EnablePCIERelaxedOrderingMode", "0"),
    ("EnableResizableBar", "0"),
    ("EnableGpuFirmware", "18"),
    ("EnableGpuFirmwareLogs", "2"),
    ("RmNvlinkBandwidthLinkCount", "0"),
    ("EnableDbgBreakpoint", "0"),
    ("OpenRmEnableUnsupportedGpus", "1"),
    ("DmaRemapPeerMmio", "1"),
    ("ImexChannelCount", "2048"),
    ("CreateImexChannel0", "0"),
    ("GrdmaPciTopoCheckOverride", "0"),
    ("CoherentGPUMemoryMode", '""'),
    ("RegistryDwords", '""'),
    ("RegistryDwordsPerDevice", '""'),
    ("RmMsg", '""'),
    ("GpuBlacklist", '""'),
    ("TemporaryFilePath", '""'),
    ("ExcludedGpus", '""'),
)


def version_text(record: dict[str, str]) -> str:
    kind = "Open Kernel Module for x86_64" if "GPL" in record["license"] else "x86_64 Kernel Module"
    compiler = "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14+deb12u1) \n"
    return f"NVRM version: NVIDIA UNIX {kind}  {record['version']}  Release Build  (root@simulated)  \n{compiler}"


def information(machine: Machine, slot: int, record: dict[str, str]) -> str:
    firmware = record["version"] if machine.get(slot, "gsp.enabled") == "1" else "N/A"
    return (
        f"Model: \t\t {machine.get(slot, 'name')}\nIRQ:   \t\t {machine.get(slot, 'irq')}\nGPU UUID: \t {machine.uuid(slot)}\n"
        f"Video BIOS: \t {machine.get(slot, 'vbios').lower()}\nBus Type: \t PCIe\nDMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\n"
        f"Bus Location: \t {machine.get(slot, 'pci.address')}\nDevice Minor: \t {machine.get(slot, 'minor')}\n"
        f"GPU Firmware: \t {firmware}\nGPU Excluded:\t No\n"
    )


def options() -> dict[str, str]:
    """`options nvidia NVreg_…=…` of modprobe.d, as modprobe hands them to a module that it loads."""
    found = {}
    for folder in ("/usr/lib/modprobe.d", "/lib/modprobe.d", "/etc/modprobe.d"):
        for path in sorted(paths.at(folder).glob("*.conf")):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                words = line.split()
                if words[:2] == ["options", "nvidia"]:
                    found.update(word[6:].split("=", 1) for word in words[2:] if word.startswith("NVreg_") and "=" in word)
    return found


def show(machine: Machine, record: dict[str, str]) -> None:
    from . import hardware

    if not mounts.tmpfs("/proc/driver"):
        return
    base = paths.at("/proc/driver/nvidia")
    base.mkdir(parents=True, exist_ok=True)
    state.replace(base / "version", version_text(record), 0o444)
    values = {**dict(PARAMS), **options()}
    state.replace(base / "params", "".join(f"{name}: {values[name]}\n" for name, _value in PARAMS), 0o444)
    state.replace(base / "registry", 'Binary: ""\n', 0o444)
    for slot in hardware.present_gpus(machine):
        gpu = base / "gpus" / machine.get(slot, "pci.address")
        state.replace(gpu / "information", information(machine, slot, record), 0o444)
        state.replace(gpu / "registry", 'Binary: ""\n', 0o444)
    caps = paths.at("/proc/driver/nvidia-caps")
    state.replace(caps / "mig-minors", "config 1\nmonitor 2\n", 0o444)
    mig = base / "capabilities" / "mig"
    for name, minor, mode in (("config", 1, 256), ("monitor", 2, 292)):
        state.replace(mig / name, f"DeviceFileMinor: {minor}\nDeviceFileMode: {mode}\nDeviceFileModify: 1\n", 0o444)


def hide() -> None:
    for name in ("nvidia", "nvidia-caps"):
        mounts.remove_tree(paths.at("/proc/driver") / name)
    mounts.undo("/proc/driver")
