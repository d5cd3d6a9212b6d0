# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each command of simulated-gpu does."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from . import boot, converge, devices, driver, faults, hardware, module, mounts, paths, processes, profile, state

# readings people set, in their own words -> key of the profile, and how to make the value
SETTABLE: dict[str, Any] = {
    "temperature": ("temperature.gpu", int, "degrees C"),
    "memory_temperature": ("temperature.memory", int, "degrees C"),
    "power": ("power.draw", lambda v: round(float(v) * 1000), "W"),
    "memory_used": ("memory.used", lambda v: int(v) << 20, "MiB besides what processes use"),
    "utilization": ("utilization.gpu", int, "%"),
    "memory_utilization": ("utilization.memory", int, "%"),
    "throttle": ("event_reasons", lambda v: int(v, 0), "bit mask of clock event reasons"),
    "graphics_clock": ("clock.0", int, "MHz"),
    "pstate": ("pstate", int, "0…15"),
    "pcie_generation": ("pcie.generation", int, ""),
    "pcie_width": ("pcie.width", int, ""),
    "pcie_replays": ("pcie.replays", int, ""),
    "fabric_state": ("fabric.state", int, "0…3"),
    "fabric_status": ("fabric.status", int, "an NVML code"),
    "energy": ("energy", int, "mJ"),
    "remapped_corrected": ("remap.corrected", int, ""),
    "remapped_uncorrected": ("remap.uncorrected", int, ""),
    "remap_pending": ("remap.pending", int, "0/1"),
    "remap_failure": ("remap.failure", int, "0/1"),
    "ecc_corrected": ("ecc.corrected.volatile.dram", int, ""),
    "ecc_uncorrected": ("ecc.uncorrected.volatile.dram", int, ""),
    "recovery_action": ("field.230", int, "0…5"),
}
EVENT_XID = 8


def machine() -> profile.Machine:
    path = paths.etc("profile.conf")
    if not path.exists():
        raise profile.ProfileError(f"{path} does not exist: no machine is configured here (`simulated-gpu profile NAME`)")
    return profile.Machine(path)


def slots(args: argparse.Namespace, here: profile.Machine) -> list[int] | None:
    return None if args.gpu is None else here.find(args.gpu)


def report(changed: bool) -> int:
    print("changed" if changed else "unchanged")
    return 0


def do_profile(args: argparse.Namespace) -> int:
    wanted = {"profile": args.name, "count": args.count, "seed": args.seed}
    return report(converge.machine(wanted, False))


def do_status(args: argparse.Namespace) -> int:
    here = machine()
    out = {
        "gpus": [
            {
                "slot": n,
                "uuid": here.uuid(n),
                "name": here.get(n, "name"),
                "pci": here.get(n, "pci.address"),
                "present": n in hardware.present_gpus(here),
                "settings": state.read(state.gpu_file(here.uuid(n), "settings")),
                "readings": state.read(state.gpu_file(here.uuid(n), "readings")),
                "persistent": state.read(state.gpu_file(here.uuid(n), "persistent", persistent=True)),
                "processes": processes.listed(here.uuid(n)),
            }
            for n in range(here.count)
        ],
        "module": {"installed": module.installed(), "loaded": module.loaded()},
        "hardware": sorted(state.read(paths.run("pci"))),
        "faults": faults.active(here),
        "notes": paths.run("notes").read_text(encoding="utf-8").splitlines() if paths.run("notes").exists() else [],
    }
    print(json.dumps(out, indent=2))
    return 0


def do_boot(args: argparse.Namespace) -> int:
    converge.reboot(machine())
    return 0


def do_converge(args: argparse.Namespace) -> int:
    """For the role: JSON on standard input, JSON as the answer."""
    changes = converge.converge(json.load(sys.stdin), args.check, _module_follows)
    print(json.dumps({"changes": changes}))
    return 0


def do_driver(args: argparse.Namespace) -> int:
    wanted = {"driver": args.version, "library": args.library, "proprietary": args.proprietary}
    return report(converge.installed_driver(wanted, False))


def do_faults(args: argparse.Namespace) -> int:
    """Make the persistent faults exactly these."""
    here = machine()
    return report(
        faults.persist_exactly(here, json.loads(args.wanted), args.check, lambda name, off, value: _module_follows(here, name, off, value))
    )


def do_purge(args: argparse.Namespace) -> int:
    if paths.etc("profile.conf").exists():
        boot.tear_down(machine())
    driver.uninstall()
    for folder in (paths.etc(""), paths.run("")):
        mounts.remove_tree(folder)
    for entry in paths.lib("").iterdir() if paths.lib("").is_dir() else []:
        if entry.name != "modules":  # what is left there now belongs to packages
            mounts.remove(entry)
    for folder in (paths.lib("modules/nvidia"), paths.lib("modules"), paths.lib("")):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return report(True)


def do_load(args: argparse.Namespace) -> int:
    print(module.load(machine(), args.version)["version"])
    return 0


def do_unload(args: argparse.Namespace) -> int:
    return report(module.unload(machine()))


def do_reset(args: argparse.Namespace) -> int:
    here = machine()
    chosen = slots(args, here)
    boot.reset(here, list(range(here.count)) if chosen is None else chosen)
    return 0


def do_install(args: argparse.Namespace) -> int:
    return report(module.install(args.version, not args.proprietary) if args.version else module.uninstall())


def do_hardware(args: argparse.Namespace) -> int:
    here = machine()
    if args.action == "remove":
        module.drop(here)
        hardware.remove(here)
    else:
        hardware.apply(here)
        if module.loaded():
            hardware.bind_driver(here, "nvidia")
    return 0


def do_fault(args: argparse.Namespace) -> int:
    if args.name == "list":
        for name, spec in faults.FAULTS.items():
            scopes = f"{'machine' if 'm' in spec.scopes else '':7} {'gpu' if 'g' in spec.scopes else '':3}"
            print(f"{name:18} {scopes}  {spec.value:28} {spec.meaning}")
        return 0
    here = machine()
    if args.name == "none":
        changed = False
        for where, found in faults.active(here).items():
            for name in found:
                changed |= faults.switch(here, name, None, None if where == "machine" else [int(where.split()[1])], True, False)
                _module_follows(here, name, True, None)
        return report(changed)
    changed = faults.switch(here, args.name, args.value, slots(args, here), args.off, args.persistent)
    _module_follows(here, args.name, args.off, args.value)
    return report(changed)


def _module_follows(here: profile.Machine, name: str, off: bool, value: str | None) -> None:
    """Faults that are also seen outside of NVML."""
    if name == "mismatch":
        module.replace_loaded(here, None if off else (value or faults.FAULTS[name].value))
    if name in ("missing", "no_device") and paths.run("pci").exists():
        hardware.apply(here)
        if module.loaded():
            hardware.bind_driver(here, "nvidia")


def do_set(args: argparse.Namespace) -> int:
    here = machine()
    chosen = slots(args, here)
    chosen = list(range(here.count)) if chosen is None else chosen
    if args.key == "xid":
        for slot in chosen:
            path = state.gpu_file(here.uuid(slot), "events")
            old = path.read_text(encoding="utf-8") if path.exists() else ""
            state.replace(path, f"{old}{EVENT_XID} {int(args.value)}\n")
        return report(True)
    key, convert = (SETTABLE[args.key][0], SETTABLE[args.key][1]) if args.key in SETTABLE else (args.key, str)
    if args.key not in SETTABLE and "." not in args.key:
        raise profile.ProfileError(
            f"nothing named {args.key!r} to set; there are: xid, {', '.join(SETTABLE)}, or any key of the profile (they have a dot)"
        )
    try:
        value = None if args.value == "default" else convert(args.value)
    except ValueError:
        raise profile.ProfileError(
            f"{args.key}: {args.value!r} is not a value for it; expected: {SETTABLE[args.key][2] or 'a number'}, or default"
        ) from None
    changes = [state.update(state.gpu_file(here.uuid(slot), "readings"), {key: value}) for slot in chosen]
    return report(any(changes))


def do_process(args: argparse.Namespace) -> int:
    here = machine()
    chosen = slots(args, here) or [0]
    if args.action == "remove":
        changes = [processes.remove(here.uuid(slot), args.pid or "all") for slot in chosen]
        return report(any(changes))
    if args.action == "run" and not args.command:
        raise profile.ProfileError("process run: give the command after --")
    pid = os.getpid() if args.action == "run" else int(args.pid or 0)
    for slot in chosen:
        processes.add(
            here.uuid(slot), pid, args.memory, args.kind, args.name or (args.command[0] if args.command else "process"), args.foreign
        )
    if args.action == "run":
        devices.hold()
        os.execvp(args.command[0], args.command)
    return report(True)
