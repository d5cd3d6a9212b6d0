# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A toolkit from NVIDIA's runfile, and back out again. Private to the collection.

An installer tells nobody what it puts where. So the places that it writes to are listed before and after: what is new and has a name
that the installer gives is its work, is recorded, and is what removal takes away. An interrupted installation leaves the list from before
in the record; the next one starts there.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import typing as t

from ._cuda_record import read_record, update_record
from ._runfile import RunfileError, discard, last_words
from ._subprocess import run

ARGUMENTS = ("--silent", "--toolkit")
"""The toolkit alone: no driver, no samples, no questions."""
PLACES: dict[str, str] = {
    "/usr/local": r"cuda-{minor}",
    "/etc/ld.so.conf.d": r".*cuda.*\.conf",
    "/etc/profile.d": r".*cuda.*",
    "/opt/nvidia": r"nsight-.+",
    "/opt/nvidia/nsight-compute": r"\d.*",
    "/opt/nvidia/nsight-systems": r"\d.*",
    "/usr/lib/pkgconfig": r".+-{minor}\.pc",
    "/usr/lib64/pkgconfig": r".+-{minor}\.pc",
    "/usr/share/pkgconfig": r".+-{minor}\.pc",
    "/usr/share/applications": r"(nsight|nvidia-nsight|ncu|nsys|nvvp).*\.desktop",
}
"""Place → names that the installer gives. These folders are everybody's: what else appears in them meanwhile is somebody else's work."""
LINKS = ("/usr/local/cuda",)
"""Of the alternatives system, not of one toolkit."""
LOG = "/var/log/cuda-installer.log"
_FOLDER = re.compile(r"/usr/local/cuda-\d+\.\d+$")
SPACE = 3
"""Times the file's size that must be free below /usr/local: the toolkit unpacked, and the installer's own copy."""


def install(path: str, version: str, folder: str, sha256: str, timeout: float) -> None:
    """Run the installer, and record what it put where."""
    pending = read_record().get("runfile_pending") or {}
    before = pending["before"] if pending.get("version") == version else listing(folder)
    _take_away(_new_since(before, folder), version)  # ours, half done; nothing on a first try
    taken = [path for path in listing(folder).get(folder, ()) if not _packaged(path)]
    if taken:
        raise RunfileError("folder_taken", f"{folder} holds {os.path.basename(taken[0])}, which was not put there by this role")
    update_record({"runfile_pending": {"version": version, "before": before}})
    result = run(["sh", path, *ARGUMENTS], timeout=timeout)
    if not result.success or not os.path.isdir(folder):
        _take_away(_new_since(before, folder), version)
        update_record({"runfile_pending": None})
        why = f"rc {result.rc}" if result.state == "ok" else result.state
        words = last_words(result.out + result.err, LOG)
        raise RunfileError("installer_failed", f"the runfile ended with {why}; what it wrote was removed. {words}")
    paths = _new_since(before, folder)
    runfiles = {**(read_record().get("runfiles") or {}), version: {"sha256": sha256.lower(), "paths": paths}}
    update_record({"runfiles": runfiles, "runfile_pending": None})


def uninstall(version: str) -> bool:
    """Remove what the installer of this version put there; whether there was anything."""
    runfiles = dict(read_record().get("runfiles") or {})
    entry = runfiles.pop(version, None)
    if entry is None:
        return False
    shared = {path for other in runfiles.values() for path in other["paths"]}
    _take_away([path for path in entry["paths"] if path not in shared], version)
    update_record({"runfiles": runfiles or None})
    return True


def listing(folder: str) -> dict[str, list[str]]:
    """Place → full paths of what is in it. A toolkit's folder may be there before it: cuda-compat lives in it."""
    out = {}
    for place in (*PLACES, folder):
        with contextlib.suppress(OSError):
            out[place] = sorted(f"{place}/{name}" for name in os.listdir(place))
    return out


def _new_since(before: t.Mapping[str, t.Sequence[str]], folder: str) -> list[str]:
    """New entries of the installer's that no package brought, without those below another new one."""
    known = {path for paths in before.values() for path in paths}
    minor = folder.rpartition("-")[2]
    new = sorted(path for paths in listing(folder).values() for path in paths if path not in known and _installers(path, minor))
    new = [path for path in new if not _packaged(path)]
    return [path for path in new if not any(path.startswith(other + "/") for other in new)]


def _installers(path: str, minor: str) -> bool:
    """Whether the installer gives such a name; also asked of a record, which must not name anything else."""
    parent, name = os.path.split(path)
    if path in LINKS or path in PLACES:
        return False
    if _FOLDER.match(parent):
        return parent.endswith(f"-{minor}")
    return bool(parent in PLACES and re.fullmatch(PLACES[parent].replace("{minor}", re.escape(minor)), name))


def _packaged(path: str) -> bool:
    """Whether a package brought it: after an interruption packages may have come in between."""
    return run(["dpkg-query", "-S", path]).success or run(["rpm", "-qf", path]).success


def _take_away(paths: t.Iterable[str], version: str) -> None:
    minor = ".".join(version.split(".")[:2])
    for path in paths:
        parent = os.path.dirname(path)
        if not _installers(path, minor):
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            discard(path)
        while _FOLDER.match(parent) or parent.startswith("/opt/nvidia"):
            try:
                os.rmdir(parent)  # when the last is gone
            except OSError:
                break
            parent = os.path.dirname(parent)
