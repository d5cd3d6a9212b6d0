# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's own driver installer (.run): what it installed, an installation, its removal. Private to the collection.

The installer builds and tests the kernel modules first, and only then removes the driver before it: a build that fails leaves that
one whole.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import typing as t

from ._driver_record import read_record, update_record
from ._files import read_text, remove, sha256, write_text
from ._paths import VAR_DIR
from ._runfile import RunfileError, last_words
from ._subprocess import PATH, run
from ._transient import Outcome, has_result, run_unit, wait

FOLDER = VAR_DIR + "/driver-runfile"
"""The file until it is installed."""
TMPDIR = FOLDER + "/tmp"  # noqa: S108 - ours, 0700
BACKUP_LOG = "/var/lib/nvidia/log"
"""The installer's list of what it put where; its first line names the version."""
UNINSTALLER = "/usr/bin/nvidia-uninstall"
LOG = "/var/log/nvidia-installer.log"
UNINSTALL_LOG = "/var/log/nvidia-uninstall.log"
UNIT = "gpufleet-driver-runfile.service"
REMOVAL_UNIT = "gpufleet-driver-runfile-removal.service"
REMOVAL_TIMEOUT = 900
LOADED = "/proc/driver/nvidia/version"
TOOLS = ("cc", "ld", "make", "dkms")
PERSISTENCED = "/etc/systemd/system/nvidia-persistenced.service"
PERSISTENCED_TEXT = """\
# Written by gpufleet.inference, role nvidia_driver: a .run file brings the daemon, but of its unit a sample only.
[Unit]
Description=NVIDIA Persistence Daemon
After=systemd-modules-load.service

[Service]
Type=forking
RuntimeDirectory=nvidia-persistenced
ExecStart=/usr/bin/nvidia-persistenced --verbose
Restart=on-failure

[Install]
WantedBy=multi-user.target
"""
_UNIT_FOLDERS = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")


def installed_version() -> t.Optional[str]:
    """Version that the installer's own list names; None where it installed nothing."""
    found = re.search(r"\((\d[\d.]+)\)|\b(\d{3,}\.\d+(?:\.\d+)?)\b", (read_text(BACKUP_LOG) or "").partition("\n")[0])
    return (found.group(1) or found.group(2)) if found else None


def missing_tools() -> list[str]:
    """What a build of kernel modules needs and the host lacks. Without dkms the installer ignores --dkms and says nothing."""
    return [name for name in TOOLS if shutil.which(name, path=PATH) is None]


def install(path: str, entry: t.Mapping[str, str], arguments: t.Sequence[str], tmpdir: str, timeout: int) -> None:
    """Run the installer, or wait for the one that an earlier run started, and record what is there then (`entry`)."""
    version = entry["version"]
    before, loaded = installed_version(), os.path.exists(LOADED)
    pending = read_record().get("runfile_pending") or {}
    outcome = wait(UNIT, timeout) if has_result(UNIT) else None
    if outcome is None or pending.get("version") != version:
        outcome = _start(path, entry, arguments, tmpdir, timeout)
    now = installed_version()
    if not outcome.success or now != version:
        if now == before and now != version:  # it stopped before it touched anything
            update_record({"runfile_pending": None})
            _load_again(loaded)
        raise _failed(outcome, before, now)
    update_record({"runfile": dict(entry), "source": "runfile", "runfile_pending": None, "rebooted_for": None})


def write_persistenced(check: bool = False) -> bool:
    """Our unit, where the host has none of that name."""
    others = [f"{folder}/{os.path.basename(PERSISTENCED)}" for folder in _UNIT_FOLDERS]
    if any(os.path.lexists(other) for other in others):
        return False
    if not check:
        write_text(PERSISTENCED, PERSISTENCED_TEXT)
        update_record({"runfile_unit": hashlib.sha256(PERSISTENCED_TEXT.encode()).hexdigest()})
    return True


def uninstall(check: bool = False) -> bool:
    """By the driver's own nvidia-uninstall, which knows what it put there; whether there was anything. Loaded modules stay loaded."""
    recorded = read_record()
    there = installed_version() is not None or os.path.exists(UNINSTALLER)
    if check or not (there or recorded.get("runfile") or recorded.get("runfile_unit")):
        return there or bool(recorded.get("runfile"))
    _remove_persistenced(recorded.get("runfile_unit"))
    if there:
        if not os.path.exists(UNINSTALLER):
            text = f"{BACKUP_LOG} lists a driver, but {UNINSTALLER} is gone; run the driver's .run file once more"
            raise RunfileError("uninstaller_missing", text)
        argv = [UNINSTALLER, "--silent", f"--log-file-name={UNINSTALL_LOG}", "--skip-module-unload"]
        outcome = run_unit(REMOVAL_UNIT, argv, REMOVAL_TIMEOUT, "Removal of the NVIDIA driver (.run)")
        if not outcome.success or installed_version() is not None:
            words = last_words(outcome.output, UNINSTALL_LOG)
            raise RunfileError("uninstaller_failed", f"nvidia-uninstall ended with {outcome}. {UNINSTALL_LOG}: {words}")
    update_record({"runfile": None, "runfile_pending": None, "runfile_unit": None, "rebooted_for": None, "source": None})
    return True


def _start(path: str, entry: t.Mapping[str, str], arguments: t.Sequence[str], tmpdir: str, timeout: int) -> Outcome:
    os.makedirs(tmpdir, mode=0o700, exist_ok=True)
    update_record({"runfile_pending": dict(entry)})
    title = f"Installation of NVIDIA driver {entry['version']} (.run)"
    return run_unit(UNIT, ["/bin/sh", path, *arguments], timeout, title, {"TMPDIR": tmpdir})


def _failed(outcome: Outcome, before: t.Optional[str], now: t.Optional[str]) -> RunfileError:
    if now == before:
        state = f"driver {now} is installed as before" if now else "no driver of a .run file is installed"
    else:
        state = f"driver {now} is half installed" if now else f"driver {before} is gone"
        state += ", and the next run begins anew"
    return RunfileError("installer_failed", f"the installer ended with {outcome}; {state}. {LOG}: {last_words(outcome.output, LOG)}")


def _load_again(loaded: bool) -> None:
    """The installer unloads idle modules before it builds; where the build failed, the driver before it goes on as it was."""
    for name in ("nvidia", "nvidia-uvm") if loaded and not os.path.exists(LOADED) else ():
        run(["modprobe", name], timeout=120)


def _remove_persistenced(recorded: t.Optional[str]) -> None:
    """Ours as we wrote it; one that somebody changed is theirs."""
    if recorded and sha256(PERSISTENCED) == recorded:
        run(["systemctl", "disable", "--now", os.path.basename(PERSISTENCED)], timeout=120)
        remove(PERSISTENCED)
        run(["systemctl", "daemon-reload"], timeout=120)
