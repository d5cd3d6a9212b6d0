# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-persistenced: while it runs, all GPUs are in persistence mode.

Options, PID file and messages follow the real daemon as far as units and people meet them.
"""

from __future__ import annotations

import argparse
import os
import pwd
import signal
import sys
import syslog
from pathlib import Path

from . import devices, paths
from .nvml import LIBRARY, MISMATCH, Nvml, NvmlError, library_version

RUN = "/var/run/nvidia-persistenced"
NO_DEVICE = (
    "Failed to query NVIDIA devices. Please ensure that the NVIDIA device files (/dev/nvidia*) exist, and that user {uid} has "
    "read and write permissions "
    "for those files."
)


def log(text: str, bad: bool = False) -> None:
    syslog.openlog("nvidia-persistenced", syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_ERR if bad else syslog.LOG_NOTICE, text)
    if bad:
        print(f"nvidia-persistenced failed to initialize. Check syslog for more details.\n{text}", file=sys.stderr)


def set_all(mode: int) -> bool:
    """True if every GPU took the mode. Runs as root, also with --user: the real daemon changes its user only for what comes later."""
    try:
        nvml = Nvml(LIBRARY)
    except NvmlError as exc:
        log(
            "Failed to initialize: version mismatch between the daemon and the kernel module"
            if exc.code == MISMATCH
            else NO_DEVICE.format(uid=os.geteuid()),
            bad=True,
        )
        return False
    count = nvml.number("nvmlDeviceGetCount_v2")
    if mode and not count:
        log(NO_DEVICE.format(uid=os.geteuid()), bad=True)
        return False
    done = True
    for index in range(count):
        try:
            nvml.call("nvmlDeviceSetPersistenceMode", nvml.device(index), mode)
        except NvmlError as exc:
            log(f"device {index} - failed to set persistence mode: error {exc.code}", bad=bool(mode))
            done = False
    nvml.close()
    return done or not mode


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nvidia-persistenced", description="A tool for maintaining persistent driver state.")
    parser.add_argument("-v", "--version", action="store_true")
    parser.add_argument("-V", "--verbose", action="store_true")
    parser.add_argument("-u", "--user")
    parser.add_argument("-g", "--group")
    parser.add_argument("--persistence-mode", dest="mode", action="store_true", default=True)
    parser.add_argument("--no-persistence-mode", dest="mode", action="store_false")
    parser.add_argument("--uvm-persistence-mode", action="store_true")
    parser.add_argument("--no-uvm-persistence-mode", action="store_true")
    parser.add_argument("--nvidia-cfg-path")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = arguments(argv)
    if args.version:
        print(f"\nnvidia-persistenced:  version {library_version(LIBRARY)}\n\n  The NVIDIA Persistence Daemon (simulated).\n")
        return 0
    if args.user:
        try:
            pwd.getpwnam(args.user)
        except KeyError:
            log(f"Failed to get user information for user '{args.user}'", bad=True)
            return 1
    folder = paths.at(RUN)
    pid_file = folder / "nvidia-persistenced.pid"
    if pid_file.exists() and Path(f"/proc/{pid_file.read_text(encoding='ascii').strip()}").exists():
        log("nvidia-persistenced is already running", bad=True)
        return 1
    if not set_all(int(args.mode)):
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    if os.fork():
        return 0
    return serve(pid_file)


def serve(pid_file: Path) -> int:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    stop = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    devices.hold(("nvidiactl", "nvidia[0-9]*"))
    pid_file.write_text(f"{os.getpid()}\n", encoding="ascii")
    signal.sigwait(stop)
    set_all(0)
    pid_file.unlink(missing_ok=True)
    os._exit(0)
