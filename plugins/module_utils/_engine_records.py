# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is recorded of an engine instance on its host. Private to the collection.

/var/lib/gpufleet/engine_records/NAME/current.json    the definition in force, secrets and all: 0600, in a folder 0700
/var/lib/gpufleet/engine_records/NAME/previous.json   the one before it
/var/lib/gpufleet/engine_records/NAME/switch.json     a switch that is not over: how far it is
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import typing as t

from ._errors import HostError
from ._files import remove
from ._paths import VAR_DIR
from ._state import read_state, write_state

FOLDER = VAR_DIR + "/engine_records"
UNIT_DIR = "/etc/systemd/system"
Definition = dict[str, t.Any]


class Records:
    """The records of one instance."""

    def __init__(self, name: str, folder: str = FOLDER) -> None:
        self.folder = f"{folder}/{name}"

    def current(self) -> t.Optional[dict[str, t.Any]]:
        """{definition, state: ok | failed, proven, published, since, failure}; `proven`: it answered once."""
        return self._read("current", "engine_record")

    def previous(self) -> t.Optional[dict[str, t.Any]]:
        return self._read("previous", "engine_record")

    def switch(self) -> t.Optional[dict[str, t.Any]]:
        """{action, phase, target, began, boot_id, candidate} of a switch that is not over."""
        return self._read("switch", "engine_switch")

    def put_current(self, record: t.Mapping[str, t.Any]) -> None:
        self._write("current", "engine_record", record)

    def put_previous(self, record: t.Mapping[str, t.Any]) -> None:
        self._write("previous", "engine_record", record)

    def put_switch(self, switch: t.Mapping[str, t.Any]) -> None:
        self._write("switch", "engine_switch", switch)

    def end_switch(self) -> None:
        remove(f"{self.folder}/switch.json")

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self, name: str, kind: str) -> t.Optional[dict[str, t.Any]]:
        return read_state(f"{self.folder}/{name}.json", kind)

    def _write(self, name: str, kind: str, state: t.Mapping[str, t.Any]) -> None:
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        write_state(f"{self.folder}/{name}.json", kind, {key: value for key, value in state.items() if key != "schema"}, mode=0o600)


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def paths(definition: t.Mapping[str, t.Any]) -> dict[str, tuple[str, int]]:
    """Path → (text, mode) of all that the definition puts on the host, units last: they speak of the others."""
    out = {path: (file["text"], int(file["mode"], 8)) for path, file in (definition.get("files") or {}).items()}
    out.update({f"{UNIT_DIR}/{name}": (text, 0o644) for name, text in (definition.get("units") or {}).items()})
    return out


def public(definition: t.Mapping[str, t.Any]) -> Definition:
    """The definition without its secrets: the SHA-256 of each stands for it."""
    files = {}
    for path, file in (definition.get("files") or {}).items():
        files[path] = {key: value for key, value in file.items() if key != "text"} if file.get("secret") else dict(file)
        if file.get("secret"):
            files[path]["sha256"] = file.get("sha256") or hashlib.sha256(str(file["text"]).encode()).hexdigest()
    return {**definition, "files": files}


def with_secrets(definition: t.Mapping[str, t.Any], texts: t.Mapping[str, str]) -> Definition:
    """The whole definition again; HostError where a text is not the one that was meant."""
    files = {}
    for path, file in (definition.get("files") or {}).items():
        files[path] = dict(file)
        if file.get("secret"):
            text = texts.get(path)
            if text is None or hashlib.sha256(text.encode()).hexdigest() != file["sha256"]:
                raise HostError(f"definition.files: the secret text of {path} is not there")
            files[path]["text"] = text
    return {**definition, "files": files}


def digest(definition: t.Mapping[str, t.Any]) -> str:
    """SHA-256 of all of a definition but `sha256` itself; a secret stands in it by its own."""
    content = {key: value for key, value in public(definition).items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
