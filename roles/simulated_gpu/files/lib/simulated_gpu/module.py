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
"""What comes with a load of the first: udev and NVIDIA's modprobe files do the rest on a real host."""
NEEDS = {
    "nvidia": (),
    "nvidia_uvm": ("nvidia",),
    "nvidia_modeset": ("nvidia",),
    "nvidia_drm": ("nvidia_modeset",),
    "nvidia_peermem": ("nvidia",),
}


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


def loaded_modules() -> tuple[str, ...]:
    record = loaded()
    return tuple(record.get("modules", " ".join(MODULES)).split()) if record else ()


def holders(name: str) -> tuple[str, ...]:
    """Loaded modules that need this one."""
    return tuple(other for other in loaded_modules() if name in NEEDS[other])


def load(machine: Machine, version: str | None = None, name: str = "nvidia") -> dict[str, str]:
    """What `modprobe NAME` does. A given version stands for a module from elsewhere, e.g. an old initramfs."""
    now = loaded()
    if now:
        return _load_more(machine, now, name)
    record = {"version": version, "license": "Dual MIT/GPL"} if version else installed()
    if record is None:
        raise ModuleError(f"modprobe: FATAL: Module {name} not found in directory /lib/modules/{release()}")
    if not hardware.present_gpus(machine) or nouveau_bound():
        raise ModuleError("modprobe: ERROR: could not insert 'nvidia': No such device")
    names = MODULES if name in MODULES else (*MODULES, name)
    record.update(loaded_at=f"{time.time():.0f}", modules=" ".join(names))
    state.write(paths.run("module"), record)
    proc.show(machine, record)
    show_modules(record)
    hardware.bind_driver(machine, "nvidia")
    devices.create(machine)
    return record


def _load_more(machine: Machine, now: dict[str, str], name: str) -> dict[str, str]:
    """One more module beside the loaded ones. The kernel refuses one of another build: its symbols have other versions."""
    have = loaded_modules()
    missing = [module for module in (*reversed(NEEDS[name]), name) if module not in have]
    if not missing:
        return now
    record = installed()
    if record is None:
        raise ModuleError(f"modprobe: FATAL: Module {name} not found in directory /lib/modules/{release()}")
    if record["version"] != now["version"]:
        raise ModuleError(f"modprobe: ERROR: could not insert '{missing[0]}': Invalid argument")
    now["modules"] = " ".join((*have, *missing))
    state.write(paths.run("module"), now)
    show_modules(now)
    devices.create(machine)
    return now


def show_modules(record: dict[str, str]) -> None:
    names = loaded_modules()
    hardware.show_modules(names, record, {name: holders(name) for name in names})


def unload(machine: Machine) -> bool:
    """All of them, leaves first: settings that the driver held are gone."""
    if not loaded():
        return False
    if in_use(machine) or any(devices.users(name) for name in loaded_modules()):
        raise ModuleError("rmmod: ERROR: Module nvidia is in use")
    drop(machine)
    return True


def used(machine: Machine, name: str) -> bool:
    """Whether processes use this very module: its device files are open; for nvidia also an NVML session or the process table."""
    return bool(devices.users(name)) or (name == "nvidia" and in_use(machine))


def unload_one(machine: Machine, name: str) -> None:
    """What the kernel does for rmmod once nothing holds the module."""
    left = tuple(other for other in loaded_modules() if other != name)
    if not left:
        drop(machine)
        return
    record = {**(loaded() or {}), "modules": " ".join(left)}
    state.write(paths.run("module"), record)
    hardware.hide_modules((name,))
    show_modules(record)
    devices.remove(machine, devices.OF_MODULE.get(name, ()))


def drop(machine: Machine) -> None:
    """Take the loaded module away without asking: rmmod after its checks, or a reboot."""
    for slot in range(machine.count):
        for name in ("settings", "mig"):
            state.gpu_file(machine.uuid(slot), name).unlink(missing_ok=True)
    paths.run("module").unlink(missing_ok=True)
    devices.remove(machine)
    hardware.bind_driver(machine, None)
    hardware.hide_modules(tuple(NEEDS))
    proc.hide()


def replace_loaded(machine: Machine, version: str | None) -> None:
    """Fault mismatch: the loaded module becomes another one without an unload; None: the installed one again."""
    record = {"version": version, "license": "Dual MIT/GPL"} if version else installed()
    if not loaded() or record is None:
        return
    state.write(paths.run("module"), {**record, "modules": " ".join(loaded_modules())})
    proc.show(machine, record)
    show_modules(record)


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
