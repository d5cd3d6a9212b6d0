# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a machine that nobody has read: from a short description to what the evaluator asks for. Pure.

Private to the collection.
"""

from __future__ import annotations

import difflib
import typing as t

from ._matrix_model import Matrix
from ._matrix_types import Row

KEYS = ("gpus", "os", "arch", "kernel", "python", "driver", "kernel_modules", "container_engines")


class BadDescription(ValueError):
    """A description that cannot be understood; the text names key, value and the nearest thing that works."""


def facts_of(matrix: Matrix, machine: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """A gpu_info document as it is, or a short description: {gpus: [products or row ids], os: debian12, arch: x86_64, …}."""
    if "schema" in machine and "host" in machine:
        return dict(machine)
    for name in machine:
        if name not in KEYS:
            raise BadDescription(f"{name!r} is no key of a machine description{_near(name, KEYS)} (known: {', '.join(KEYS)})")
    gpus = machine.get("gpus") or []
    if isinstance(gpus, (str, t.Mapping)) or not gpus:
        raise BadDescription(f"gpus is {gpus!r}; expected a list of product names or ids of matrix/gpus.yml, one a GPU")
    system = _system(matrix, machine.get("os"))
    driver = machine.get("driver")
    loaded = {"version": str(driver), "kernel_modules": machine.get("kernel_modules")} if driver else None
    return {
        "host": {
            "machine_arch": str(machine.get("arch") or "x86_64"),
            "os": {"id": system["ids"][0], "version_id": system["versions"][0], "pretty_name": system["name"]} if system else {},
            "kernel": {"release": str(machine.get("kernel") or "")},
            "python": str(machine.get("python") or ""),
        },
        "gpus": [_gpu(matrix, str(product)) for product in gpus],
        "driver": {"loaded": loaded, "installed": loaded},
        "containers": {"engines": {name: {"version": str(value)} for name, value in (machine.get("container_engines") or {}).items()}},
    }


def _system(matrix: Matrix, name: t.Any) -> Row | None:
    if not name:
        return None
    rows = {row["id"].removeprefix("os."): row for row in matrix.section("systems")}
    row = rows.get(str(name).removeprefix("os."))
    if row is None:
        raise BadDescription(f"os is {name!r}{_near(str(name), rows)} (known: {', '.join(sorted(rows))})")
    return row


def _gpu(matrix: Matrix, product: str) -> dict[str, t.Any]:
    row = matrix.rows.get(product) or {}
    if "names" not in row:
        return {"product": product}
    pci, name = next(iter((row.get("pci") or {}).items()), (None, product))
    return {"product": name, "pci_device_id": pci}


def _near(word: str, known: t.Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
