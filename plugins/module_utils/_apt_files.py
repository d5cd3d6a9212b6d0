# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""apt with package files instead of repositories, and apart from automatic upgrades. Private to the collection."""

from __future__ import annotations

import os
import re
import shutil
import typing as t

from ._files import remove, sha256, write_text
from ._package_answers import PackageError
from ._subprocess import Result

ARCHIVES = "/var/cache/apt/archives"
AUTOMATIC = "/etc/apt/apt.conf.d/51gpufleet-nvidia"
HEADROOM = 256 * 1024 * 1024
"""Bytes that stay free beside package files: a full /var would stop much more than a rollback."""

# With no source at all apt must do with the files that it is given, as where there is no route to a repository.
NO_SOURCES = ("-o", "Dir::Etc::sourcelist=/dev/null", "-o", "Dir::Etc::sourceparts=/dev/null", "-o", "APT::Get::List-Cleanup=0")

_URI = re.compile(r"^'[^']*' (\S+) (\d+)(?: (\w+):([0-9a-fA-F]+))?", re.MULTILINE)


class File(t.NamedTuple):
    """A package file that a repository offers."""

    name: str
    file: str
    size: int
    sha256: str
    """Empty where the repository names another kind of hash only."""


def parse_uris(text: str) -> list[File]:
    """The answer to --print-uris; a file's name begins with its package's."""
    return [File(m[0].partition("_")[0], m[0], int(m[1]), m[3].lower() if m[2] == "SHA256" else "") for m in _URI.findall(text)]


def automatic_text(names: t.Iterable[str]) -> str:
    """unattended-upgrades takes each entry as a regular expression that a package's name begins with."""
    entries = "".join(f'  "^{name.replace("+", "[+]")}$";\n' for name in sorted(names))
    return (
        "// Written by gpufleet.inference, role nvidia_driver; changes here are overwritten.\n"
        f"Unattended-Upgrade::Package-Blacklist {{\n{entries}}};\n"
    )


def exclude(names: t.Iterable[str]) -> bool:
    """Keep unattended-upgrades away from these packages, and from no others on our account."""
    names = sorted(names)
    return (write_text(AUTOMATIC, automatic_text(names)) if names else remove(AUTOMATIC)).changed


def room_for(size: int, folder: str) -> None:
    """PackageError where the file system cannot take that much and keep some room."""
    there = folder
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    free = shutil.disk_usage(there).free
    if free < size + HEADROOM:
        wanted = f"{size >> 20} MiB and {HEADROOM >> 20} MiB of headroom"
        raise PackageError("disk_full", f"{folder} has {free >> 20} MiB free, package files need {wanted}")


def from_archives(files: t.Iterable[File], folder: str) -> list[File]:
    """Copy what apt downloaded a moment ago; the files that it does not have."""
    missing = []
    for one in files:
        kept, cached = f"{folder}/{one.file}", f"{ARCHIVES}/{one.file}"
        if one.sha256 and sha256(kept) == one.sha256:
            continue
        if one.sha256 and sha256(cached) == one.sha256:
            shutil.copyfile(cached, kept)
        else:
            missing.append(one)
    return missing


def names_of(result: Result, specs: t.Mapping[str, str]) -> list[File]:
    """The files of --print-uris; PackageError where one of the packages has none."""
    files = parse_uris(result.out)
    absent = sorted(set(specs) - {one.name for one in files})
    if absent:
        shown = ", ".join(f"{name} {specs[name]}" for name in absent)
        raise PackageError("not_available", f"no repository of this host has the file of {shown}")
    return files
