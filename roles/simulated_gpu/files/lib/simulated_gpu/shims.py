# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""modprobe, rmmod, lsmod and modinfo for nvidia* and nouveau; every other call goes to the real program."""

from __future__ import annotations

import os
import signal
import sys

from . import commands, devices, module, paths, state

REAL = ("/usr/sbin", "/sbin", "/usr/bin", "/bin")
OURS = ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem", "nouveau")
FIELDS = ("filename", "version", "license", "firmware", "srcversion", "vermagic", "description", "author", "signer", "depends")
SIZES = {"nvidia": 14446592, "nvidia_uvm": 2072576, "nvidia_modeset": 1556480, "nvidia_drm": 135168, "nvidia_peermem": 16384}
WITH_VALUE = {
    "-C",
    "--config",
    "-d",
    "--dirname",
    "-S",
    "--set-version",
    "-F",
    "--field",
    "-k",
    "--set-kernel",
    "-b",
    "--basedir",
    "-w",
    "--wait",
}


def canonical(word: str) -> str:
    name = word.replace("-", "_")
    return {"nvidia_current": "nvidia", "nvidia_current_uvm": "nvidia_uvm"}.get(name, name)


def plain_words(arguments: list[str]) -> list[str]:
    """Arguments that are neither options nor an option's value."""
    words, skip = [], False
    for word in arguments:
        if skip:
            skip = False
        elif word in WITH_VALUE:
            skip = True
        elif not word.startswith("-"):
            words.append(word)
    return words


def real(tool: str, arguments: list[str]) -> int:
    for folder in REAL:
        path = os.path.join(folder, tool)
        if os.path.exists(path):
            os.execv(path, [tool, *arguments])
    print(f"{tool}: not installed, and only nvidia and nouveau are simulated", file=sys.stderr)
    return 127


def modprobe(arguments: list[str]) -> int:
    words = plain_words(arguments)
    remove = any(word in ("-r", "--remove") for word in arguments)
    if "--dry-run" in arguments or "-n" in arguments:
        return 0 if module.installed() or canonical(words[0]) == "nouveau" else missing(words[0])
    name = canonical(words[0])
    if name == "nouveau":
        return 0 if remove or module.nouveau_bound() else no_device(name)
    if remove:
        return max(modprobe_remove(canonical(word)) for word in words)
    quiet = "-q" in arguments or "--quiet" in arguments
    if module.installed() is None and not module.loaded():
        return 1 if quiet else missing(words[0])
    module.load(commands.machine(), name=name)
    return 0


def modprobe_remove(name: str) -> int:
    """As kmod does: the module if nothing uses it, then what it needed, as far as nothing else uses that."""
    if name not in module.loaded_modules():
        return 0
    if in_use(name):
        print(f"modprobe: FATAL: Module {name} is in use.", file=sys.stderr)
        return 1
    module.unload_one(commands.machine(), name)
    for needed in module.NEEDS[name]:
        if not in_use(needed):
            modprobe_remove(needed)
    return 0


def in_use(name: str) -> bool:
    return bool(module.holders(name)) or module.used(commands.machine(), name)


def missing(name: str) -> int:
    print(f"modprobe: FATAL: Module {name} not found in directory /lib/modules/{module.release()}", file=sys.stderr)
    return 1


def no_device(name: str) -> int:
    print(f"modprobe: ERROR: could not insert '{name}': No such device", file=sys.stderr)
    return 1


def rmmod(arguments: list[str]) -> int:
    return max(rmmod_one(canonical(word)) for word in plain_words(arguments))


def rmmod_one(name: str) -> int:
    held_by = module.holders(name)
    if name not in module.loaded_modules():
        print(f"rmmod: ERROR: Module {name} is not currently loaded", file=sys.stderr)
    elif held_by:
        print(f"rmmod: ERROR: Module {name} is in use by: {' '.join(held_by)}", file=sys.stderr)
    elif module.used(commands.machine(), name):
        print(f"rmmod: ERROR: Module {name} is in use", file=sys.stderr)
    else:
        module.unload_one(commands.machine(), name)
        return 0
    return 1


def lsmod(arguments: list[str]) -> int:
    print(f"{'Module':23} {'Size':>5}  Used by")
    try:
        with open("/proc/modules", encoding="utf-8") as handle:
            for line in handle:
                name, size, used, by = line.split()[:4]
                print(f"{name:19} {size:>9}  {used} {by.rstrip(',') if by != '-' else ''}".rstrip())
    except OSError:
        pass
    for name in reversed(module.loaded_modules()):
        held_by = module.holders(name)
        users = len(held_by) + len(devices.users(name))
        print(f"{name:19} {SIZES[name]:>9}  {users} {','.join(held_by)}".rstrip())
    if module.nouveau_bound():
        print(f"{'nouveau':19} {3248128:>9}  0")
    return 0


def module_fields(name: str) -> dict[str, str] | None:
    release = module.release()
    if name == "nouveau":
        return (
            {
                "filename": f"/lib/modules/{release}/kernel/drivers/gpu/drm/nouveau/nouveau.ko",
                "license": "GPL and additional rights",
                "vermagic": f"{release} SMP",
            }
            if state.read(paths.etc("host.conf")).get("nouveau") == "1"
            else None
        )
    record = module.installed()
    if record is None:
        return None
    file = name.replace("_", "-")
    return {
        "filename": f"/lib/modules/{release}/updates/dkms/{file}.ko",
        "version": record["version"],
        "license": record["license"],
        "srcversion": "SIMULATED000000000000000",
        "vermagic": f"{release} SMP preempt mod_unload modversions",
        "firmware": f"nvidia/{record['version']}/gsp_ga10x.bin",
        "depends": "" if name == "nvidia" else "nvidia",
    }


def modinfo(arguments: list[str]) -> int:
    words = plain_words(arguments)
    fields = module_fields(canonical(words[0]))
    kernel = next((arguments[i + 1] for i, word in enumerate(arguments[:-1]) if word in ("-k", "--set-kernel")), module.release())
    built_for = (module.installed() or {}).get("kernels", kernel).split()
    if fields is not None and canonical(words[0]) != "nouveau" and kernel not in built_for:
        fields = None
    if fields is None:
        print(f"modinfo: ERROR: Module {words[0]} not found.", file=sys.stderr)
        return 1
    wanted = ""
    for index, word in enumerate(arguments):
        if word in ("-F", "--field") and index + 1 < len(arguments):
            wanted = arguments[index + 1]
        elif word in ("-n", "--filename"):
            wanted = "filename"
        elif word.startswith("-F") and len(word) > 2:
            wanted = word[2:]
    if wanted:
        if fields.get(wanted):
            print(fields[wanted])
        return 0
    for name, value in fields.items():
        print(f"{name + ':':15} {value}")
    return 0


TOOLS = {"modprobe": modprobe, "rmmod": rmmod, "lsmod": lsmod, "modinfo": modinfo}


def main(tool: str, arguments: list[str]) -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `… | head` ends us quietly, as it does the real tools
    words = [canonical(word) for word in plain_words(arguments)]
    if tool != "lsmod" and (not words or words[0] not in OURS):
        return real(tool, arguments)
    try:
        return TOOLS[tool](arguments)
    except module.ModuleError as exc:
        print(exc, file=sys.stderr)
        return 1
