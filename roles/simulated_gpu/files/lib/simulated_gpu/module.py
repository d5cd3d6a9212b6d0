# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules: which are installed, which are loaded, and what a loaded one shows in /proc, /sys and /dev."""

from __future__ import annotations

import fcntl
import os
import re
import time

from . import devices, hardware, paths, proc, processes, state
from .profile import Machine

MODULES = ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm")


class ModuleError(RuntimeError):
    """What modprobe would say, with its exit status 1."""


def _version_key(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def installed() -> dict[str, str] | None:
    """The installed module's record: of several the highest version."""
    folder = paths.lib("modules/nvidia")
    names = sorted((p.name for p in folder.iterdir() if not p.name.startswith(".")), key=_version_key) if folder.is_dir() else []
    if not names:
        return None
    record = state.read(folder / names[-1])
    return {"version": names[-1], "license": "Dual MIT/GPL", **record}


def install(version: str, open_modules: bool) -> bool:
    """What a driver package's payload does; True if something changed."""
    folder = paths.lib("modules/nvidia")
    record = {"version": version, "license": "Dual MIT/GPL" if open_modules else "NVIDIA"}
    others = [p for p in folder.iterdir() if p.name != version] if folder.is_dir() else []
    for other in others:
        other.unlink()
    if state.read(folder / version) == record and not others:
        return False
    state.write(folder / version, record)
    return True


def uninstall() -> bool:
    folder = paths.lib("modules/nvidia")
    records = list(folder.iterdir()) if folder.is_dir() else []
    for record in records:
        record.unlink()
    return bool(records)


def loaded() -> dict[str, str] | None:
    return state.read(paths.run("module")) or None


def nouveau_bound() -> bool:
    return bool(state.read(paths.run("nouveau")))


def release() -> str:
    return os.uname().release


def load(machine: Machine, version: str | None = None) -> dict[str, str]:
    """What `modprobe nvidia` does. A given version stands for a module from elsewhere, e.g. an old initramfs."""
    now = loaded()
    if now:
        return now
    record = {"version": version, "license": "Dual MIT/GPL"} if version else installed()
    if record is None:
        raise ModuleError(f"modprobe: FATAL: Module nvidia not found in directory /lib/modules/{release()}")
    if not hardware.present_gpus(machine) or nouveau_bound():
        raise ModuleError("modprobe: ERROR: could not insert 'nvidia': No such device")
    record["loaded_at"] = f"{time.time():.0f}"
    state.write(paths.run("module"), record)
    proc.show(machine, record)
    hardware.show_modules(MODULES, record)
    hardware.bind_driver(machine, "nvidia")
    devices.create(machine)
    return record


def unload(machine: Machine) -> bool:
    """What `rmmod nvidia` does: settings that the driver held are gone."""
    if not loaded():
        return False
    if in_use(machine):
        raise ModuleError("rmmod: ERROR: Module nvidia is in use")
    drop(machine)
    return True


def drop(machine: Machine) -> None:
    """Take the loaded module away without asking: rmmod after its checks, or a reboot."""
    for slot in range(machine.count):
        for name in ("settings", "mig"):
            state.gpu_file(machine.uuid(slot), name).unlink(missing_ok=True)
    paths.run("module").unlink(missing_ok=True)
    devices.remove(machine)
    hardware.bind_driver(machine, None)
    hardware.hide_modules(MODULES)
    proc.hide()


def replace_loaded(machine: Machine, version: str | None) -> None:
    """Fault mismatch: the loaded module becomes another one without an unload; None: the installed one again."""
    record = {"version": version, "license": "Dual MIT/GPL"} if version else installed()
    if not loaded() or record is None:
        return
    state.write(paths.run("module"), record)
    proc.show(machine, record)
    hardware.show_modules(MODULES, record)


def processes_on(uuid: str) -> bool:
    return bool(processes.listed(uuid))


def in_use(machine: Machine) -> bool:
    return any(processes_on(machine.uuid(slot)) for slot in range(machine.count)) or clients()


def clients() -> bool:
    """Does a process hold an NVML session? (the library's clients hold a shared lock)"""
    try:
        with open(paths.run("clients"), encoding="utf-8") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    except FileNotFoundError:
        pass
    return False
