# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a DKMS build failed, in the compiler's words. Private to the collection.

dpkg says only that a maintainer script ended with 10; state and reason are in DKMS's own tree.
"""

from __future__ import annotations

import glob
import os
import re

_TAIL = 1 << 18
_ERROR = re.compile(r"\berror:|\bError \d|^make.*\*\*\*.*(?:No rule|Error)")
_MAX_LINES = 4


def failed_builds(tree: str = "/var/lib/dkms", prefix: str = "nvidia") -> str:
    """One clause for each module that was added and never built; empty where there is none."""
    out = []
    for log in sorted(glob.glob(f"{tree}/{prefix}*/*/build/make.log")):
        folder = os.path.dirname(os.path.dirname(log))
        name = os.path.relpath(folder, tree)
        out.append(f"{name}: added, not built ({log}: {' | '.join(_errors(log)) or 'no error line'})")
    return "; ".join(out)


def _errors(path: str) -> list[str]:
    """The first error lines of the log's end, where what follows from them comes after."""
    try:
        with open(path, "rb") as source:
            source.seek(max(0, os.path.getsize(path) - _TAIL))
            lines = source.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    found = [line.strip()[-240:] for line in lines if _ERROR.search(line)]
    return found[:_MAX_LINES]
