# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Package files of a set, kept on the host so that the way back needs no repository. Private to the collection.

One folder a version, with a list of what must be in it; a folder without its list is half a folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import typing as t

from ._errors import HostError
from ._files import sha256
from ._package_answers import PackageError
from ._paths import DRIVER_PACKAGES as ROOT
from ._state import read_state, write_state

KIND = "package_files"
LIST = "files.json"


class Fetcher(t.Protocol):
    """A package manager that can fetch exact files."""

    def fetch_files(self, specs: t.Mapping[str, str], folder: str) -> dict[str, str]: ...


def keep(source: Fetcher, packages: t.Mapping[str, str], version: str) -> str:
    """Make the version's folder hold exactly these packages' files, or more; returns the folder. PackageError where it cannot be."""
    folder = f"{ROOT}/{version}"
    known = _listed(folder)
    missing = {name: exact for name, exact in packages.items() if not _is_whole(folder, known.get(name), exact)}
    if missing:
        try:
            for name, path in source.fetch_files(missing, folder).items():
                known[name] = {"version": missing[name], "file": os.path.basename(path), "sha256": sha256(path) or ""}
            write_state(f"{folder}/{LIST}", KIND, {"packages": known})
        except PackageError:
            raise
        except (OSError, HostError) as exc:
            raise PackageError("disk_full", f"package files cannot be kept in {folder}: {exc}") from exc
    return folder


def kept(packages: t.Mapping[str, str], version: str) -> dict[str, str]:
    """name → path of every package, each file as it was when it was kept; PackageError names what is missing or changed."""
    folder = f"{ROOT}/{version}"
    known = _listed(folder)
    lost = sorted(name for name, exact in packages.items() if not _is_whole(folder, known.get(name), exact))
    if lost:
        raise PackageError("rollback_unavailable", f"{folder} does not hold the files of {', '.join(lost)} as they were kept")
    return {name: f"{folder}/{known[name]['file']}" for name in packages}


def forget(but: t.Iterable[str] = ()) -> None:
    """Remove the folders of all versions but these: the present set and the one before are enough."""
    stay = set(but)
    for version in os.listdir(ROOT) if os.path.isdir(ROOT) else ():
        if version not in stay:
            shutil.rmtree(f"{ROOT}/{version}", ignore_errors=True)
    if not stay:
        shutil.rmtree(ROOT, ignore_errors=True)


def _listed(folder: str) -> dict[str, dict[str, str]]:
    """What is noted of the folder. A list that cannot be read notes nothing: its files are fetched anew."""
    with contextlib.suppress(HostError):
        listed = (read_state(f"{folder}/{LIST}", KIND) or {}).get("packages")
        if isinstance(listed, dict):
            return {
                name: entry for name, entry in listed.items() if isinstance(entry, dict) and {"version", "file", "sha256"} <= set(entry)
            }
    return {}


def _is_whole(folder: str, entry: t.Optional[t.Mapping[str, str]], version: str) -> bool:
    return entry is not None and entry["version"] == version and sha256(f"{folder}/{entry['file']}") == entry["sha256"]
