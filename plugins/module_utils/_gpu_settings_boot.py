# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gpufleet-* units run: python3 -m gpufleet_host apply | govern | restore. Private to the collection."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
import time
import typing as t

from ._errors import HostError
from ._gpu_settings_apply import GOOD, Request
from ._gpu_settings_governor import govern, restore
from ._gpu_settings_records import missing
from ._gpu_settings_session import Config, Paths, governor_runs, read_config, settle
from ._gpu_settings_values import number
from ._nvml import Options
from ._pci import read_pci
from ._reader import Reader
from ._state import read_state

POLL = 2.0
Sleep = t.Callable[[float], None]


def apply_at_boot(paths: Paths, options: Options, wait: float, log: t.Callable[[str, int], None], sleep: Sleep = time.sleep) -> int:
    """Apply the desired state to the GPUs that answer, at once; wait up to `wait` seconds for the others. 0: all have it."""
    config = read_config(paths)
    if config is None:
        log(f"{paths.config} does not exist: nothing to apply", 4)
        return 0
    deadline = time.monotonic() + wait
    told: dict[tuple[str, str], str] = {}
    while True:
        outcome = settle(Request(rules=config.rules, governed=_governed(config, paths)), paths, options, "boot unit")
        gpus = outcome.data["gpus"] if outcome.state == "ok" else []
        bad = _tell(gpus, told, log)
        absent, final = _missing(paths, gpus)
        if outcome.state == "ok" and not absent:
            break
        # What waiting cannot cure: a driver that hangs, and a GPU that is not even on the bus.
        if outcome.state == "hung" or time.monotonic() >= deadline:
            if outcome.state != "ok":
                log(f"{outcome.state}: {outcome.reason}", 3)
            break
        sleep(POLL)
    for text in (*absent, *final):
        log(f"missing: {text}", 3)
    good = outcome.state == "ok" and not (absent or final or bad)
    answer = sum(gpu["state"] == "ok" for gpu in gpus)
    log(f"{answer} GPUs answer; {'all' if good else 'NOT all'} as configured", 6 if good else 3)
    return 0 if good else 1


def _governed(config: Config, paths: Paths) -> bool:
    return config.governor is not None and governor_runs(paths)


def _missing(paths: Paths, gpus: list[dict[str, t.Any]]) -> tuple[list[str], list[str]]:
    """GPUs on the bus that do not answer (they may come), and GPUs that were here and are gone."""
    answering = {gpu["pci_address"] for gpu in gpus if gpu["state"] == "ok"}
    bus = [gpu for gpu in read_pci(Reader(sysfs=paths.sysfs))["gpus"] if gpu["driver"] in (None, "nvidia")]
    silent = [f"GPU at {gpu['address']} does not answer" for gpu in bus if gpu["address"] not in answering]
    gone = missing(read_state(paths.recorded, "gpu_settings_recorded"), gpus, [gpu["address"] for gpu in bus])
    return silent, [f"{text} is not on the PCI bus" for text in gone.values()]


def _tell(gpus: list[dict[str, t.Any]], told: dict[tuple[str, str], str], log: t.Callable[[str, int], None]) -> int:
    """A line for each GPU and setting whose status is news; returns how many are not as they should be."""
    bad = 0
    for gpu in gpus:
        for key, setting in gpu["settings"].items():
            status = setting["status"]
            bad += status not in GOOD
            previous = told.get((gpu["uuid"], key))
            if previous is None or status not in (previous, "unchanged"):
                log(f"{gpu['uuid']} ({gpu['product']} at {gpu['pci_address']}): {_line(key, setting)}", 6 if status in GOOD else 3)
            told[(gpu["uuid"], key)] = status
    return bad


def _line(key: str, setting: dict[str, t.Any]) -> str:
    def show(value: t.Any) -> str:
        return f"{number(value / 1000)} W" if key == "power_limit" and isinstance(value, (int, float)) else str(value)

    text = f"{key} {show(setting['wanted']) if 'wanted' in setting else ''} {setting['status']}".replace("  ", " ")
    if setting["status"] == "set":
        text += f" (was {show(setting['before'])})"
    return text + (f": {setting['error']}" if setting.get("error") else "")


def _log(text: str, level: int = 6) -> None:
    """One line to the journal, with its priority in systemd's notation."""
    sys.stdout.write(f"<{level}>{text}\n")  # the journal
    sys.stdout.flush()


def _notify(state: str) -> None:
    """sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as target:
        try:
            target.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
        except OSError as exc:
            _log(f"cannot notify systemd: {exc}", 4)


def main(argv: t.Optional[list[str]] = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="gpufleet_host")
    parser.add_argument("command", choices=["apply", "govern", "restore"])
    parser.add_argument("--wait", type=float, default=60.0, help="seconds to wait for GPUs that do not answer yet")
    parser.add_argument("--nvml-timeout", type=float, default=10.0)
    parser.add_argument("--nvml-library")
    args = parser.parse_args(argv)
    options = Options(timeout=args.nvml_timeout, library=args.nvml_library)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    try:
        if args.command == "apply":
            return apply_at_boot(Paths(), options, args.wait, _log)
        if args.command == "restore":
            return restore(Paths(), options, _log)
        return govern(Paths(), options, stop.wait, _log, lambda: _notify("READY=1"))
    except HostError as exc:
        _log(str(exc), 3)
        return 1
    finally:
        sys.stdout.flush()
