# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of an instance's arguments and environment: what a release no longer has, or no release ever had. Pure.

Private to the collection. Only boundaries that the matrix names; whole flag tables are a matter of the engine roles.
"""

from __future__ import annotations

import typing as t

from . import _matrix_engines as engines
from ._contracts import Finding
from ._matrix_case import Case, Facts
from ._matrix_findings import finding
from ._matrix_types import Row
from ._versions import key


def rules(case: Case) -> t.Iterator[Finding]:
    rows = [row for row in case.matrix.section("engine_boundaries") if row["kind"] in ("removed", "never")]
    for spec in case.engines if rows else ():
        words = _words(spec)
        image = engines.image(case.matrix, str(spec["image"])) if spec.get("image") else None
        version = spec.get("version") or (image.version if image else None)
        for row in rows:
            if row["engine"] == spec.get("engine") and row["item"] in words and _gone(row, version):
                yield _finding(case, spec, row, version)


def _words(spec: Facts) -> list[str]:
    """Arguments as words --flag, --flag value, and environment as NAME."""
    args = spec.get("args") or ()
    if isinstance(args, t.Mapping):
        flags = {f"--{str(name).lstrip('-').replace('_', '-')}": value for name, value in args.items()}
        words = [word for flag, value in flags.items() for word in (flag, f"{flag} {value}")]
    else:
        flat = " ".join(str(word) for word in ([args] if isinstance(args, str) else args)).replace("=", " ").split()
        words = [*flat, *(f"{flag} {value}" for flag, value in zip(flat, flat[1:]) if flag.startswith("--"))]
    return [*words, *(str(name) for name in spec.get("env") or ())]


def _gone(row: Row, version: t.Any) -> bool:
    if row["kind"] == "never":
        return True
    return bool(version) and "removed_in" in row and key(str(version)) >= key(row["removed_in"])


def _finding(case: Case, spec: Facts, row: Row, version: t.Any) -> Finding:
    title = engines.TITLE[row["engine"]]
    name = str(spec.get("name") or spec.get("engine"))
    flag = row["item"].startswith("--")
    when = f"was removed in {row['removed_in']}" if row["kind"] == "removed" else "is in no release"
    after = str(row.get("after") or "")
    instead = after if row["kind"] == "never" else (after.partition("use ")[2] or None)
    return finding(
        "engine.argument_gone",
        "block" if flag else "warn",
        row=row,
        subject=name,
        found=f"{row['item']} with {title} {version or 'of any version'}",
        needed=f"arguments that {title} {version or ''} knows".replace("  ", " "),
        nearest=instead,
        message=f"{row['item']} {when} of {title}" + ("; an unknown flag stops the server." if flag else "; it has no effect."),
        fix=f"Remove it from {'args' if flag else 'env'} of {name}." + (f" Instead: {instead}." if instead else ""),
    )
