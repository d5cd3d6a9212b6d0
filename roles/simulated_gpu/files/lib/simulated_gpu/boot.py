# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reboot does: volatile state goes, pending modes come into force, hardware appears, the driver is loaded."""

from __future__ import annotations

import shutil

from . import faults, hardware, module, mounts, paths, state
from .profile import Machine

KEPT_OVER_BOOT = ("lock", "mounts", "layers")


def config() -> dict[str, str]:
    return state.read(paths.etc("host.conf"))


def clear_volatile() -> None:
    """On a real reboot /run is empty already; in a container that was only restarted, or when called by hand, it is not."""
    folder = paths.run("")
    for entry in folder.iterdir() if folder.is_dir() else []:
        if entry.name.startswith(KEPT_OVER_BOOT):
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def latch_pending(machine: Machine) -> None:
    """Modes kept on the board come into force: ECC, MIG mode on Ampere."""
    for slot in range(machine.count):
        path = state.gpu_file(machine.uuid(slot), "persistent", persistent=True)
        kept = state.read(path)
        changes = {f"{mode}.current": kept[f"{mode}.pending"] for mode in ("ecc", "mig") if f"{mode}.pending" in kept}
        if changes:
            state.update(path, changes)


def reset(machine: Machine, slots: list[int]) -> None:
    """nvidia-smi --gpu-reset: pending modes come into force, settings and injected errors of this GPU go."""
    for slot in slots:
        uuid = machine.uuid(slot)
        if module.loaded() and (module.processes_on(uuid) or module.clients()):
            raise module.ModuleError(f"GPU {machine.get(slot, 'pci.address')} is in use and can't be reset")
        path = state.gpu_file(uuid, "persistent", persistent=True)
        kept = state.read(path)
        state.update(path, {f"{mode}.current": kept[f"{mode}.pending"] for mode in ("ecc", "mig") if f"{mode}.pending" in kept})
        for name in ("settings", "readings", "mig"):
            state.gpu_file(uuid, name).unlink(missing_ok=True)


def tear_down(machine: Machine) -> None:
    """Whatever is shown now goes: needed where a "reboot" keeps the mount namespace."""
    module.drop(machine)
    hardware.remove(machine)


def boot(machine: Machine) -> None:
    tear_down(machine)
    clear_volatile()
    latch_pending(machine)
    paths.run("").mkdir(parents=True, exist_ok=True)
    paths.run("clients").touch()
    faults.restore(machine)
    hardware.apply(machine)
    nouveau = config().get("nouveau") == "1" and not _blacklisted("nouveau")
    if nouveau:
        hardware.show_modules(("nouveau",), {"version": "", "license": "GPL"})
        hardware.bind_driver(machine, "nouveau")
        state.write(paths.run("nouveau"), {"bound": "1"})
    if config().get("autoload", "1") != "1" or _blacklisted("nvidia"):
        return
    stale = state.read(paths.run("faults")).get("mismatch")
    try:
        module.load(machine, stale)
    except module.ModuleError as exc:
        mounts.note(f"boot: {exc}")


def _blacklisted(name: str) -> bool:
    """`blacklist NAME` in a modprobe.d file, as udev's autoloading respects it."""
    for folder in ("/etc/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"):
        for path in sorted(paths.at(folder).glob("*.conf")):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                words = line.split()
                if words[:2] == ["blacklist", name] or (words[:2] == ["install", name] and words[2:3] and words[2].endswith("/false")):
                    return True
    return False
