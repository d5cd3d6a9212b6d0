# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reload of the driver asks of a host: units, modules, device files, holders, its own record. Private to the collection.

Every command is bounded; answers are texts that say what went wrong, empty where nothing did.
"""

from __future__ import annotations

import os
import re
import time
import typing as t

from ._driver_facts import read_loaded
from ._driver_holders import module_tree, read_holders
from ._files import remove
from ._hung import read_mark
from ._paths import DRIVER_RELOAD, RUN_DIR
from ._reader import Reader
from ._state import read_state, write_state
from ._subprocess import Result, run
from ._wait import boot_id

KIND = "driver_reload"
_SHOW = "Id,LoadState,ActiveState,Transient,RequiredBy,RequisiteOf,BoundBy,ConsistsOf"
_ALONG = ("RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf")
_UP = ("active", "activating", "reloading")


class Host:
    """This host. Tests give another with the same methods."""

    def __init__(self, timeout: float, reader: t.Optional[Reader] = None) -> None:
        self._timeout = timeout
        self._reader = reader or Reader()

    def record(self) -> dict[str, t.Any]:
        """What an earlier reload of this boot left: units that are to run again, why it failed."""
        state = read_state(DRIVER_RELOAD, KIND) or {}
        return state if state.get("boot_id") == boot_id() else {}

    def write_record(self, state: t.Mapping[str, t.Any]) -> None:
        write_state(DRIVER_RELOAD, KIND, {"boot_id": boot_id(), **state})

    def remove_record(self) -> None:
        remove(DRIVER_RELOAD)

    def hung(self) -> str:
        mark = read_mark(RUN_DIR)
        return f"pid {mark['pid']} hangs in the driver since {mark['since']}" if mark else ""

    def loaded_version(self) -> str:
        return str((read_loaded(self._reader) or {}).get("version") or "")

    def modules(self) -> list[dict[str, t.Any]]:
        return module_tree(self._reader)

    def holders(self) -> dict[str, t.Any]:
        return read_holders(self._reader)

    def units(self, names: t.Sequence[str]) -> dict[str, dict[str, t.Any]]:
        """name → active, gone after a stop (transient), the units that systemd would stop along; without those that do not exist."""
        result = run(["systemctl", "show", "--property=" + _SHOW, "--", *names], timeout=15)
        found = {}
        for block in result.out.split("\n\n"):
            fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
            if fields.get("LoadState") == "not-found":
                continue
            along = {unit for key in _ALONG for unit in fields.get(key, "").split()}
            found[fields.get("Id", "")] = {
                "active": fields.get("ActiveState") in _UP,
                "transient": fields.get("Transient") == "yes",
                "along": sorted(along),
            }
        return {name: found[name] for name in names if name in found}

    def stop(self, unit: str) -> str:
        return _why(run(["systemctl", "stop", unit], timeout=self._timeout))

    def start(self, unit: str) -> str:
        # What it did before does not count: with several attempts behind it systemd would refuse another one.
        run(["systemctl", "reset-failed", unit], timeout=15)
        return _why(run(["systemctl", "start", unit], timeout=self._timeout))

    def unload(self, module: str) -> str:
        return _why(run(["rmmod", module], timeout=self._timeout))

    def load(self, module: str) -> str:
        why = _why(run(["modprobe", module], timeout=self._timeout))
        if "not found in directory" in why and module.startswith("nvidia"):
            # Debian's file names by kind, where the package with their aliases is missing.
            names = (own + module[len("nvidia") :].replace("_", "-") for own in ("nvidia-current", "nvidia-current-open"))
            why = "" if any(run(["modprobe", name], timeout=self._timeout).success for name in names) else why
        return why

    def device_files(self) -> str:
        """nvidia-modprobe makes what is missing; without it (and without udev rules) the first client with rights does."""
        tool = next((path for path in ("/usr/bin/nvidia-modprobe", "/usr/sbin/nvidia-modprobe") if os.access(path, os.X_OK)), None)
        if not tool:
            return ""
        gpus = self._reader.names(self._reader.proc("driver/nvidia/gpus"))
        texts = (self._reader.text(self._reader.proc(f"driver/nvidia/gpus/{gpu}/information")) or "" for gpu in gpus)
        minors = [match.group(1) for match in (re.search(r"Device Minor:\s*(\d+)", text) for text in texts) if match]
        options = [word for minor in ("255", *minors) for word in ("-c", minor)]
        return _why(run([tool, *options, "-u"], timeout=self._timeout))

    def wait(self) -> None:
        time.sleep(0.5)

    def now(self) -> float:
        return time.monotonic()


def _why(result: Result) -> str:
    if result.success:
        return ""
    if result.state in ("timeout", "hung"):
        return "no answer in time" if result.state == "timeout" else "hangs and cannot be killed"
    return " ".join((result.err or result.out).split()) or f"exit status {result.rc}"
