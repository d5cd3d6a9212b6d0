# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interpreter of an engine's venv: found on the host and checked against what the release takes. Private to the collection."""

from __future__ import annotations

import os
import re
import shutil
import stat
import typing as t

from ._errors import WorkError
from ._subprocess import PATH, run

_KNOWN = ("python3.12", "python3.11", "python3.13", "python3.10", "python3")
"""In the order in which engines are most often built and tried with them."""
_SPECIFIER = re.compile(r"(>=|<=|==|!=|<|>)\s*(\d+(?:\.\d+)*)(\.\*)?")


class Python(t.NamedTuple):
    path: str
    version: str


def find(wanted: str, requires: str) -> Python:
    """`wanted`: a path, a name such as python3.12, or empty for the first that fits `requires` (a specifier such as >=3.10,<3.14)."""
    seen = []
    for name in [wanted] if wanted else _KNOWN:
        path = name if name.startswith("/") else shutil.which(name, path=PATH)
        found = _look(path) if path else None
        if found is None:
            continue
        if satisfies(found.version, requires):
            return _reachable(found)
        seen.append(f"{found.path} is {found.version}")
    needed = f"this release takes Python {requires}" if requires else "a Python 3 is needed"
    if wanted and not seen:
        raise WorkError("no_python", f"python is {wanted}, which does not run on this host; {needed}")
    raise WorkError("no_python", f"{needed}; {'; '.join(seen) or 'the host has none'}. Name another interpreter by python")


def satisfies(version: str, requires: str) -> bool:
    """Whether 3.11.2 is within >=3.10,<3.14. What is no such specifier says nothing."""
    mine = _numbers(version)
    for operator, text, star in _SPECIFIER.findall(requires):
        other = _numbers(text)
        cut = mine[: len(other)] if star or operator in ("<=", "==", "!=") else mine
        holds = {">=": mine >= other, "<=": cut <= other, "==": cut == other, "!=": cut != other, "<": mine < other, ">": mine > other}
        if not holds[operator]:
            return False
    return True


def _look(path: str) -> t.Optional[Python]:
    result = run([path, "-I", "-c", "import sys, venv; print('%d.%d.%d' % sys.version_info[:3])"], timeout=20)
    return Python(path, result.out.strip()) if result.success else None


def _reachable(found: Python) -> Python:
    """A venv leads to its interpreter, and the engine's user is not root."""
    real = os.path.realpath(found.path)
    there = real
    while there != "/":
        there = os.path.dirname(there)
        if not os.stat(there).st_mode & stat.S_IXOTH:
            raise WorkError(
                "no_python", f"python {found.path} lies below {there}, which only its owner may enter; an engine has a user of its own"
            )
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
