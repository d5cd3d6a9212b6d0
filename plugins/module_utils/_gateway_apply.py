# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put a gateway's files in place so that it never stands without a working set. Private to the collection.

Validated beside the old ones, the old ones kept, then replaced, then taken by HAProxy; where the new process does not come up, the old
files come back and HAProxy is told again.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import typing as t
from dataclasses import dataclass

from ._errors import HostError
from ._files import read_text, remove, write_text
from ._subprocess import run

Files = t.Mapping[str, tuple[str, int]]
"""Path → text and mode."""
_POLL = 0.1


@dataclass(frozen=True)
class Control:
    """How HAProxy is told, and what it says."""

    binary: str
    config: str
    previous: str
    """Folder for the files before the change."""
    take: t.Callable[[], None]
    """Make HAProxy use the files that are there now: reload it where it runs, start it where not."""
    loaded: t.Callable[[], t.Optional[str]]
    """Identity of the files that the running process was made with."""
    log: t.Callable[[], str]
    """Its last lines."""
    patience: float = 20.0
    """Seconds in which a new process has to answer."""


def validate(files: Files, control: Control) -> None:
    """HostError with HAProxy's own words where it would refuse these files; nothing that is in use is touched."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-gateway-") as folder:
        text = files[control.config][0]
        for number, (path, (content, _mode)) in enumerate(sorted(files.items())):
            if path != control.config:
                staged = os.path.join(folder, f"{number}.map")
                write_text(staged, content, mode=0o600)
                text = text.replace(path, staged)
        config = os.path.join(folder, "haproxy.cfg")
        write_text(config, text, mode=0o600)
        result = run([control.binary, "-c", "-f", config], timeout=60)
    if not result.success:
        words = [
            line.partition(") : ")[2].rstrip(".") for line in result.err.splitlines() if "ALERT" in line and "rrors found in" not in line
        ]
        why = "; ".join(words[:4]) or result.err.strip() or result.state
        raise HostError(f"HAProxy refuses the new configuration: {why}. Nothing was changed.")


def apply(files: Files, identity: str, control: Control) -> list[str]:
    """What was done, as text; empty where all files are in place and in use. Of files that `validate` found right."""
    changed = [path for path, (text, mode) in files.items() if write_text(path, text, mode, check=True).changed]
    if not changed and control.loaded() == identity:
        return []
    before = {path: _kept(path) for path in files}
    _keep(before, control.previous)
    try:
        # The configuration last: the maps that it names are there by then.
        for path in sorted(changed, key=lambda name: name == control.config):
            write_text(path, files[path][0], files[path][1], dir_mode=0o700 if path != control.config else 0o755)
        why = _taken(control, identity)
    except HostError as exc:
        why = str(exc)
    if why is None:
        return [f"wrote {path}" for path in changed] + ["haproxy took the new files"]
    raise HostError(_back(before, control, why))


def _taken(control: Control, identity: str) -> t.Optional[str]:
    """None when the new process answers, else why it does not."""
    try:
        control.take()
    except HostError as exc:
        return str(exc)
    deadline = time.monotonic() + control.patience
    while time.monotonic() < deadline:
        if control.loaded() == identity:
            return None
        time.sleep(_POLL)
    return f"no process with the new files answers within {control.patience:.0f} seconds"


def _back(before: t.Mapping[str, t.Optional[tuple[str, int]]], control: Control, why: str) -> str:
    """Put the old files back; the message for a person."""
    log = control.log().strip()
    for path, old in sorted(before.items(), key=lambda item: item[0] == control.config):
        if old is None:
            remove(path)
        else:
            write_text(path, *old)
    try:
        if before[control.config] is not None:
            control.take()
        after = "The files before the change are back and in use."
    except HostError as exc:
        after = f"The files before the change are back, but HAProxy does not take them either: {exc}"
    return f"The new configuration did not come up: {why}. {after}" + (f" Last lines of haproxy:\n{log}" if log else "")


def _kept(path: str) -> t.Optional[tuple[str, int]]:
    text = read_text(path)
    return None if text is None else (text, os.stat(path).st_mode & 0o7777)


def _keep(before: t.Mapping[str, t.Optional[tuple[str, int]]], folder: str) -> None:
    """A person may look at what was there; root alone, since engine keys are among it."""
    shutil.rmtree(folder, ignore_errors=True)
    for path, old in before.items():
        if old is not None:
            write_text(os.path.join(folder, os.path.basename(path)), old[0], mode=0o600, dir_mode=0o700)
