"""`tests/vm/vm VERB …`"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time

from . import image, inventory
from .machine import FIRMWARES, Machine
from .settings import Settings, VmError, load


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vm", description="Test machines with a kernel of their own (docs/testing_vm.md).")
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="make a machine if it is not there, start it, wait for ssh")
    up.add_argument("name")
    up.add_argument("--image", default="plain", help="a section of tests/vm/images.ini")
    up.add_argument("--firmware", choices=FIRMWARES, default="direct")
    up.add_argument("--memory", type=int, default=1024, help="MiB")
    ssh = verbs.add_parser("ssh", help="a shell or a command, as ops (who has sudo)")
    ssh.add_argument("name")
    ssh.add_argument("command", nargs=argparse.REMAINDER)
    for verb, text in (("snapshot", "keep the whole state under a name"), ("restore", "back to that state")):
        one = verbs.add_parser(verb, help=text)
        one.add_argument("name")
        one.add_argument("snapshot")
    verbs.add_parser("reboot", help="reboot, wait until it is back").add_argument("name")
    verbs.add_parser("console", help="the console's log").add_argument("name")
    verbs.add_parser("down", help="remove machines (all, if none is named)").add_argument("names", nargs="*")
    verbs.add_parser("clean", help="remove all machines of this checkout, and the disk images that all checkouts share")
    verbs.add_parser("status", help="the machines")
    verbs.add_parser("image", help="make a disk image, print its folder").add_argument("image", nargs="?", default="plain")
    return parser


def names(settings: Settings) -> list[str]:
    return sorted(path.parent.name for path in settings.state.glob("*/spec.json"))


def up(settings: Settings, name: str, image_name: str, firmware: str, memory: int) -> Machine:
    machine = Machine(settings, name)
    if not (machine.folder / "spec.json").exists():
        machine.down()
        machine.make(image_name, firmware, memory)
    machine.start()
    machine.wait()
    return machine


def _clean(settings: Settings) -> None:
    """Images with their key, which is in the disks."""
    for name in names(settings):
        Machine(settings, name).down()
    for path in settings.cache.glob("vm-*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def run(options: argparse.Namespace) -> int:
    settings = load()
    if options.verb == "down":
        for name in options.names or names(settings):
            Machine(settings, name).down()
    elif options.verb == "clean":
        _clean(settings)
        return 0
    elif options.verb == "status":
        for name in names(settings):
            machine = Machine(settings, name)
            print(name, machine.spec["image"], machine.spec["firmware"], "running" if machine.pid else "off")
    elif options.verb == "image":
        print(image.ensure(settings, options.image))
    elif options.verb == "up":
        started = time.monotonic()
        up(settings, options.name, options.image, options.firmware, options.memory)
        path = inventory.write(settings)
        print(json.dumps({"seconds": round(time.monotonic() - started, 1), "inventory": path}))
    else:
        return _one(Machine(settings, options.name), options)
    inventory.write(settings)
    return 0


def _one(machine: Machine, options: argparse.Namespace) -> int:
    if options.verb == "ssh":
        command = [*machine.ssh_command(), *options.command]
        os.execvp(command[0], command)
    elif options.verb == "console":
        sys.stdout.write(machine.log.read_text(errors="replace"))
    elif options.verb == "reboot":
        print(machine.reboot())
    else:
        getattr(machine, options.verb)(options.snapshot)
    return 0


def main(arguments: list[str]) -> int:
    try:
        return run(_parser().parse_args(arguments))
    except VmError as error:
        print(f"vm: {error}", file=sys.stderr)
        return 1
