# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unpack a pure-Python wheel into a directory of its own, all or nothing. Private to the collection.

A wheel is a zip whose RECORD names the sha256 of each file (packaging.python.org, binary distribution format).
The new tree is made beside the old one and takes its place by rename, so a reader sees one or the other.
"""

from __future__ import annotations

import base64
import compileall
import csv
import hashlib
import io
import os
import shutil
import tempfile
import typing as t
import zipfile

from ._errors import HostError

_EVERYONE_READS = 0o755
"""mkdtemp makes a private directory; any user on the host may import nvidia-ml-py."""


def wheel_identity(path: str) -> tuple[str, str]:
    """(distribution, version) as the wheel's METADATA says."""
    with _open(path) as wheel:
        metadata = wheel.read(_member(wheel, "/METADATA")).decode("utf-8")
    fields = dict(line.split(": ", 1) for line in metadata.partition("\n\n")[0].splitlines() if ": " in line)
    return fields["Name"], fields["Version"]


def installed_version(directory: str, distribution: str) -> t.Optional[str]:
    """Version unpacked in `directory`, None if there is none or it is not whole."""
    prefix = distribution.replace("-", "_") + "-"
    try:
        names = os.listdir(directory)
    except OSError:
        return None
    for name in names:
        if name.startswith(prefix) and name.endswith(".dist-info"):
            return name[len(prefix) : -len(".dist-info")]
    return None


def unpack(path: str, directory: str) -> None:
    """Replace `directory` with the content of the wheel; every file is checked against RECORD first."""
    parent = os.path.dirname(directory)
    try:
        os.makedirs(parent, mode=0o755, exist_ok=True)
        fresh = tempfile.mkdtemp(prefix=".wheel.", dir=parent)
    except OSError as exc:
        raise HostError(f"cannot write under {parent}: {exc.strerror}; nothing was changed") from exc
    try:
        with _open(path) as wheel:
            for name, digest in _record(wheel):
                _extract(wheel, name, digest, fresh)
        os.chmod(fresh, _EVERYONE_READS)
        compileall.compile_dir(fresh, quiet=2)
        remove(directory)
        os.rename(fresh, directory)
    except OSError as exc:
        raise HostError(f"cannot unpack {path} to {directory}: {exc.strerror}") from exc
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def remove(directory: str) -> None:
    """Take the directory out of sight by one rename, then delete it."""
    if os.path.isdir(directory):
        grave = tempfile.mkdtemp(prefix=".old.", dir=os.path.dirname(directory))
        os.rename(directory, os.path.join(grave, "old"))
        shutil.rmtree(grave, ignore_errors=True)


def _open(path: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError as exc:
        raise HostError(f"the wheel {path} does not exist") from exc
    except zipfile.BadZipFile as exc:
        raise HostError(f"{path} is not a wheel: {exc}") from exc


def _member(wheel: zipfile.ZipFile, suffix: str) -> str:
    for name in wheel.namelist():
        if name.endswith(".dist-info" + suffix):
            return name
    raise HostError(f"{wheel.filename} is not a wheel: it has no {suffix.strip('/')}")


def _record(wheel: zipfile.ZipFile) -> list[tuple[str, str]]:
    """(name, digest) of every file; RECORD itself has none."""
    listed = {row[0]: row[1] for row in csv.reader(io.StringIO(wheel.read(_member(wheel, "/RECORD")).decode("utf-8"))) if row}
    files = [name for name in wheel.namelist() if not name.endswith("/")]
    strangers = sorted(set(files) - set(listed))
    if strangers:
        raise HostError(f"{wheel.filename} has a file that its RECORD does not name: {strangers[0]}")
    return [(name, listed[name]) for name in files]


def _extract(wheel: zipfile.ZipFile, name: str, digest: str, directory: str) -> None:
    target = os.path.normpath(os.path.join(directory, name))
    if not target.startswith(directory + os.sep):
        raise HostError(f"{wheel.filename} wants to write outside its directory: {name}")
    data = wheel.read(name)
    if digest:
        found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        if digest != f"sha256={found}":
            raise HostError(f"{name} in {wheel.filename} is damaged: its checksum differs from RECORD")
    elif not name.endswith(".dist-info/RECORD"):
        raise HostError(f"{wheel.filename} has a file without checksum: {name}")
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    with open(target, "wb") as out:
        out.write(data)
    os.chmod(target, 0o644)
