# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command simulated-gpu: its arguments and its exit statuses."""

from __future__ import annotations

import argparse
import sys
from typing import Callable

from . import commands, module, processes


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="simulated-gpu", description="A simulated GPU machine: state, faults, hardware. See docs/simulated_gpu.md."
    )
    verbs = top.add_subparsers(dest="command_name", required=True, metavar="COMMAND")

    def command(name: str, function: Callable[[argparse.Namespace], int], text: str, gpu: bool = False) -> argparse.ArgumentParser:
        one = verbs.add_parser(name, help=text, description=text)
        one.set_defaults(function=function)
        if gpu:
            one.add_argument(
                "--gpu", help="number, UUID, PCI address or all; default: all, or the machine where the fault is one of the machine"
            )
        return one

    command("status", commands.do_status, "everything as JSON")
    command("boot", commands.do_boot, "what a reboot does: volatile state goes, hardware appears, the installed module is loaded")
    one = command("load", commands.do_load, "what modprobe nvidia does")
    one.add_argument("version", nargs="?", help="load this version instead of the installed one (an old initramfs)")
    one = command("converge", commands.do_converge, "what the role calls: everything as JSON on standard input says")
    one.add_argument("--check", action="store_true", help="only say what would change")
    one = command("driver", commands.do_driver, "install a driver as packages would: library, tools, module record; `none` removes it")
    one.add_argument("version")
    one.add_argument("--library", help="another libnvidia-ml than ours")
    one.add_argument("--proprietary", action="store_true")
    one = command("faults", commands.do_faults, "make the persistent faults exactly these")
    one.add_argument("wanted", help='JSON: [{"name": …, "value": …, "gpu": …}]')
    one.add_argument("--check", action="store_true")
    command("purge", commands.do_purge, "take everything away but the program itself")
    command("unload", commands.do_unload, "what rmmod nvidia does")
    command("reset", commands.do_reset, "what nvidia-smi --gpu-reset does", gpu=True)
    one = command(
        "install-module",
        commands.do_install,
        "record an installed kernel module, as a driver package's payload does; without version: remove it",
    )
    one.add_argument("version", nargs="?")
    one.add_argument("--proprietary", action="store_true")
    one = command("profile", commands.do_profile, "make a profile the machine of this host (takes effect at the next boot)")
    one.add_argument("name", help="name in the profile folder, or path of a JSON file")
    one.add_argument("--count", type=int, help="number of GPUs")
    one.add_argument("--seed", default="simulated", help="UUIDs and serial numbers follow from it; default: the same on every host")
    one = command("hardware", commands.do_hardware, "show or take away PCI devices")
    one.add_argument("action", choices=["apply", "remove"])
    one = command("fault", commands.do_fault, "switch a fault on or off; `fault list` names them, `fault none` ends all", gpu=True)
    one.add_argument("name")
    one.add_argument("value", nargs="?")
    one.add_argument("--off", action="store_true")
    one.add_argument("--persistent", action="store_true", help="survives a reboot")
    one = command(
        "set",
        commands.do_set,
        "change a reading: " + ", ".join(commands.SETTABLE) + ", xid, or any key of the profile; value `default` ends it",
        gpu=True,
    )
    one.add_argument("key")
    one.add_argument("value")
    one = command("process", commands.do_process, "the process table", gpu=True)
    one.add_argument("action", choices=["add", "remove", "run"])
    one.add_argument("--pid")
    one.add_argument("--memory", type=int, default=512, help="MiB")
    one.add_argument("--kind", choices=list(processes.TYPES), default="compute")
    one.add_argument("--name")
    one.add_argument("--foreign", action="store_true", help="a process this system can't see")
    one.epilog = "process run … -- COMMAND: becomes that command, which keeps the PID in the table"
    return top


def main(argv: list[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    cut = words.index("--") if "--" in words else len(words)
    args = parser().parse_args(words[:cut])
    args.command = words[cut + 1 :]
    try:
        return int(args.function(args))
    except module.ModuleError as exc:
        print(exc, file=sys.stderr)
        return 1
    except PermissionError as exc:
        print(f"simulated-gpu: {exc.strerror}: {exc.filename} (root is needed)", file=sys.stderr)
        return 4
    except ValueError as exc:
        print(f"simulated-gpu: {exc}", file=sys.stderr)
        return 2
