# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the venvs of an engine lie, which are whole, and which may go. Private to the collection.

ROOT/ENGINE/builds/VERSION-ID/   a venv. It is made in its own place and never moved (its scripts name their interpreter by path);
                                 it counts as soon as its stamp is there, which is written last
ROOT/ENGINE/VERSION              symbolic link to the build of that version in use
ROOT/ENGINE/cache-VERSION/       what an installer has fetched for a build that is not done

A running engine keeps the build that it was started from when the link moves: its first line is `#!…/builds/VERSION-ID/bin/python`.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import typing as t

from ._errors import HostError, WorkError
from ._files import read_text
from ._state import read_state, write_state

ROOT = "/opt/gpufleet/engines"
STAMP = "gpufleet.json"
KIND = "engine_runtime"
USERS = ("/var/lib/gpufleet/engine_records/*/*.json", "/etc/systemd/system/gpufleet-engine-*.service")
"""Files that name the runtime of an instance."""


class Layout:
    """Paths of one version of an engine; `identity` tells builds of it apart."""

    def __init__(self, root: str, engine: str, version: str, identity: str) -> None:
        self.engine = os.path.join(root, engine)
        self.link = os.path.join(self.engine, version)
        self.builds = os.path.join(self.engine, "builds")
        self.build = os.path.join(self.builds, f"{version}-{identity[:12]}")
        self.cache = os.path.join(self.engine, f"cache-{version}")

    def in_use(self) -> str:
        """Build that the link leads to; empty where there is none."""
        try:
            return os.path.normpath(os.path.join(self.engine, os.readlink(self.link)))
        except OSError:
            return ""

    def switch(self) -> None:
        """Let the link lead to the build, at once."""
        if os.path.lexists(self.link) and not os.path.islink(self.link):
            raise WorkError("taken", f"{self.link} is there and is no symbolic link of this module; move it away")
        temporary = self.link + ".new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        os.symlink(os.path.relpath(self.build, self.engine), temporary)
        os.replace(temporary, self.link)


def stamp(build: str) -> t.Optional[dict[str, t.Any]]:
    """What is recorded of a build; None if it is not whole: no stamp, or its interpreter has gone with a system upgrade."""
    known = read_state(os.path.join(build, STAMP), KIND)
    if known is None or not os.access(os.path.join(build, "bin", "python"), os.X_OK):
        return None
    return known


def write_stamp(build: str, content: t.Mapping[str, t.Any]) -> None:
    write_state(os.path.join(build, STAMP), KIND, content)


def versions(engine: str) -> dict[str, str]:
    """Build → version of all stamped builds, the newest first."""
    found = []
    for path in glob.glob(os.path.join(engine, "builds", "*", STAMP)):
        with contextlib.suppress(HostError):  # another collection's version wrote it: not ours to judge
            known = read_state(path, KIND) or {}
            found.append((known["built"], os.path.dirname(path), known["version"]))
    return {build: version for _when, build, version in sorted(found, reverse=True)}


def user_of(*names: str, files: t.Sequence[str] = USERS) -> str:
    """The first file of an instance that names one of these paths or images; empty if nobody does."""
    for pattern in files:
        for path in sorted(glob.glob(pattern)):
            text = read_text(path) or ""
            if any(name and _named(name, text) for name in names):
                return path
    return ""


def prune(layout: Layout, keep: int, files: t.Sequence[str] = USERS) -> list[str]:
    """Remove all but the build in place, the `keep` newest others, and those that an instance names. Returns what went."""
    gone = []
    mine = layout.in_use()
    others = [(build, version) for build, version in versions(layout.engine).items() if build != mine]
    for build, version in others[keep:]:
        link = os.path.join(layout.engine, version)
        leads_here = os.path.normpath(os.path.join(layout.engine, os.readlink(link))) == build if os.path.islink(link) else False
        if user_of(build, *([link] if leads_here else []), files=files):
            continue
        if leads_here:
            os.unlink(link)
        remove(build)
        gone.append(build)
    return gone


def remove(build: str) -> None:
    """The stamp goes first: half a venv never counts."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(build, STAMP))
    shutil.rmtree(build, ignore_errors=True)


def _named(name: str, text: str) -> bool:
    """As a whole: .../0.3 is not named by .../0.32."""
    place = text.find(name)
    while place >= 0:
        after = text[place + len(name) : place + len(name) + 1]
        if not (after.isalnum() or (after in (".", "-", "+", "_") and after)):
            return True
        place = text.find(name, place + 1)
    return False
