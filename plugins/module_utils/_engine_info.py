# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Engine instances of a host: what is recorded, what lies there, what runs. Private to the collection.

Never fails for an odd state: what cannot be read is an entry of `errors`. Holds no secret: of a file that has one, its SHA-256.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import stat
import typing as t

from ._carried import LIB
from ._engine_job import KIND
from ._engine_records import FOLDER, UNIT_DIR, Records, paths, public
from ._engine_units import PREFIX, show
from ._engines_host import docker_info
from ._errors import HostError
from ._files import read_text, sha256
from ._ports import listening
from ._reader import Reader
from ._subprocess import PATH, run

SETTINGS = "/etc/gpufleet/engines"
_COPIED = ("engine", "version", "model", "served_name", "gpus", "host", "port", "user", "runtime", "program")
_RUNS = ("active", "activating", "reloading", "deactivating")


def collect(folder: str = FOLDER, reader: t.Optional[Reader] = None) -> dict[str, t.Any]:
    """The answer of module engine_info."""
    reader = reader or Reader()
    errors: dict[str, str] = {}
    kept = {name: _read(Records(name, folder), errors) for name in reader.names(folder) if os.path.isdir(f"{folder}/{name}")}
    definitions = {name: (record[0] or {}).get("definition") or {} for name, record in kept.items()}
    on_disk = [os.path.basename(path) for path in glob.glob(f"{UNIT_DIR}/{PREFIX}*")]
    named = [unit for definition in definitions.values() for unit in definition.get("units") or ()]
    units, trouble = show([*on_disk, *named, f"{PREFIX}*", f"{KIND.prefix}-*"])
    if trouble:
        errors["systemd"] = trouble
    jobs = _jobs(units, folder)
    files = _files([*glob.glob(f"{SETTINGS}/*/*"), *(f"{UNIT_DIR}/{unit}" for unit in on_disk)], definitions.values(), errors)
    return {
        "records": {name: _record(*kept[name]) for name in kept if any(kept[name])},
        "units": {name: unit for name, unit in units.items() if name.startswith(PREFIX)},
        "files": files,
        "started_with": {
            name: _started_with(record, units, files) for name, (record, _switch) in kept.items() if record and _main(record, units)
        },
        "ports": listening(reader),
        "users": [line.partition(":")[0] for line in (reader.text(reader.fs("/etc/passwd")) or "").splitlines() if ":" in line],
        "systemd": _systemd(),
        "docker": _docker(),
        "podman": _podman(),
        "jobs": jobs,
        "gate": {"sha256": read_text(f"{LIB}/{KIND.package}/.sha256"), "present": os.path.exists(f"{LIB}/engine_gate.py")},
        "errors": {**errors, **{note["part"]: note["reason"] for note in reader.unread}},
    }


def _read(records: Records, errors: dict[str, str]) -> tuple[t.Optional[dict[str, t.Any]], t.Optional[dict[str, t.Any]]]:
    out: list[t.Optional[dict[str, t.Any]]] = []
    for read in (records.current, records.switch):
        try:
            out.append(read())
        except HostError as exc:
            errors[records.folder] = str(exc)
            out.append(None)
    return out[0], out[1]


def _record(record: t.Optional[dict[str, t.Any]], switch: t.Optional[dict[str, t.Any]]) -> dict[str, t.Any]:
    definition = (record or {}).get("definition") or {}
    shown = public(definition) if definition else {}
    return {
        "definition_sha256": definition.get("sha256", ""),
        **{key: definition[key] for key in _COPIED if key in definition},
        "state": "switching" if switch else (record or {}).get("state", "unknown"),
        "since": (switch or {}).get("began") or (record or {}).get("since"),
        "failure": (record or {}).get("failure"),
        "switch": {key: switch.get(key) for key in ("action", "phase", "target", "began")} if switch else None,
        "definition": shown,
    }


def _main(record: t.Mapping[str, t.Any], units: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[t.Mapping[str, t.Any]]:
    """Services of the definition that have a main process."""
    started = [units.get(name) or {} for name in record["definition"].get("start") or () if name.endswith(".service")]
    return [unit for unit in started if unit.get("main_pid") and unit.get("active_state") in _RUNS]


def _started_with(
    record: t.Mapping[str, t.Any], units: t.Mapping[str, t.Mapping[str, t.Any]], files: t.Mapping[str, t.Mapping[str, t.Any]]
) -> str:
    """The recorded definition if every file of it was there, as recorded, before each process began; empty: it began with another."""
    definition = record["definition"]
    began = min(unit["started"] or 0 for unit in _main(record, units))
    for path in paths(definition):
        there, meant = files.get(path) or {}, (definition.get("files") or {}).get(path)
        if meant and there.get("sha256") != meant["sha256"]:
            return ""
        if not there or there["mtime"] > began:
            return ""
    return str(definition.get("sha256", "")) if began >= record.get("published", 0) else ""


def _files(found: t.Iterable[str], definitions: t.Iterable[t.Mapping[str, t.Any]], errors: dict[str, str]) -> dict[str, dict[str, t.Any]]:
    out = {}
    for path in sorted({*found, *(path for definition in definitions for path in paths(definition))}):
        try:
            state = os.lstat(path)
            if stat.S_ISREG(state.st_mode):
                mode = f"{stat.S_IMODE(state.st_mode):04o}"
                out[path] = {"sha256": sha256(path), "mode": mode, "uid": state.st_uid, "mtime": round(state.st_mtime, 3)}
                if path.startswith(UNIT_DIR):
                    out[path]["text"] = read_text(path)
        except FileNotFoundError:
            continue
        except (OSError, HostError) as exc:
            errors[path] = exc.strerror or str(exc) if isinstance(exc, OSError) else str(exc)
    return out


def _jobs(units: t.Mapping[str, t.Mapping[str, t.Any]], folder: str) -> dict[str, dict[str, t.Any]]:
    """Instance → the switch that goes on."""
    out = {}
    for unit, state in units.items():
        if unit.startswith(f"{KIND.prefix}-") and state["active_state"] in _RUNS:
            name = unit[len(KIND.prefix) + 1 :].rpartition(".")[0]
            try:
                switch = Records(name, folder).switch() or {}
            except HostError:
                switch = {}
            out[name] = {"unit": unit, "started": state["started"], "action": switch.get("action"), "target": switch.get("target")}
    return out


def _systemd() -> t.Optional[int]:
    found = re.match(r"systemd (\d+)", run(["systemctl", "--version"]).out)
    return int(found.group(1)) if found else None


def _docker() -> t.Optional[dict[str, t.Any]]:
    """`cdi`: whether the daemon takes CDI names; null where it does not answer."""
    program = shutil.which("docker", path=PATH)
    if not program and not os.path.exists("/run/docker.sock"):
        return None
    info = docker_info(timeout=5)
    return {"program": program, "version": (info or {}).get("ServerVersion"), "cdi": bool(info.get("CDISpecDirs")) if info else None}


def _podman() -> t.Optional[dict[str, t.Any]]:
    program = shutil.which("podman", path=PATH)
    if not program:
        return None
    found = re.search(r"\d+(\.\d+)+", run([program, "--version"]).out)
    return {"program": program, "version": found.group(0) if found else None}
