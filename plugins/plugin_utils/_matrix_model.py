# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Matrix: rows by section with indexes for the questions that rules and planners ask. Pure.

Private to the collection. See _matrix.py for the list of lookups. Answers are memoised inside the object: a fleet asks the same
few questions a thousand times.
"""

from __future__ import annotations

import datetime
import re
import typing as t

from . import _matrix_driver, _matrix_os
from ._matrix_types import DriverChoice, DriverPackages, OsSupport, Row
from ._versions import key, minor_of

Sections = t.Mapping[str, t.Sequence[Row]]


class Matrix:
    """Rows of all sections, indexed once; immutable after that. `policies` holds compiled site policies."""

    def __init__(
        self, sections: Sections, policies: t.Sequence[t.Any] = (), *, version: str = "0", sha256: str = "", overlays: t.Sequence[str] = ()
    ) -> None:
        self.sections: dict[str, tuple[Row, ...]] = {name: tuple(rows) for name, rows in sections.items()}
        self.policies = tuple(policies)
        self.version = version
        self.sha256 = sha256
        self.overlays = tuple(overlays)
        self.rows: dict[str, Row] = {row["id"]: row for rows in self.sections.values() for row in rows}
        self.memo: dict[t.Any, t.Any] = {}
        self.gpu_names = [(re.compile(name), row) for row in self.section("gpus") for name in row["names"]]
        self.gpu_pci = {pci: (row, product) for row in self.section("gpus") for pci, product in (row.get("pci") or {}).items()}
        self.branches: dict[int, Row] = {row["branch"]: row for row in self.section("driver_branches")}
        self.driver_safe: dict[int, Row] = {row["branch"]: row for row in self.section("driver_safe")}
        self.bulletins = sorted(self.section("driver_bulletins"), key=lambda row: str(row["date"]))
        self.toolkits = {row["version"]: row for row in self.section("cuda_toolkits")}
        self.minors = {row["minor"]: row for row in self.section("cuda_minors")}
        self.majors: dict[int, Row] = {row["major"]: row for row in self.section("cuda_majors")}
        self.engines: dict[str, list[Row]] = {}
        for row in sorted(self.section("engine_releases"), key=lambda row: key(row["version"])):
            self.engines.setdefault(row["engine"], []).append(row)
        self.models = {hf: row for row in self.section("models") for hf in row["hf"]}
        self.stacks = {name: row for row in self.section("stacks") for name in (row["id"], row["name"], *row.get("aliases", ()))}

    def section(self, name: str) -> tuple[Row, ...]:
        return self.sections.get(name, ())

    def value(self, rule: str, name: str, default: t.Any) -> t.Any:
        """A value of a row in `rules`; the default where an overlay took the row out."""
        return ((self.rows.get(rule) or {}).get("values") or {}).get(name, default)

    def gpu(self, product: str | None = None, pci_device_id: str | None = None) -> Row | None:
        """The row of a GPU by its NVML product name, or by its PCI device id (4 hex digits, any case)."""
        question = ("gpu", product, pci_device_id)
        if question not in self.memo:
            row = next((row for name, row in self.gpu_names if name.search(product)), None) if product else None
            if row is None and pci_device_id:
                row = self.gpu_pci.get(_device(pci_device_id), (None, ""))[0]
            self.memo[question] = row
        return t.cast("Row | None", self.memo[question])

    def product(self, pci_device_id: str) -> str | None:
        """Product name of a PCI device id."""
        return self.gpu_pci.get(_device(pci_device_id), (None, None))[1]

    def branch(self, number: int) -> Row | None:
        """Keys: branch, type (lts | production | new_feature), first, latest, eol, cuda, proprietary …"""
        return self.branches.get(number)

    def os(self, facts_os: t.Mapping[str, t.Any], arch: str) -> OsSupport:
        """facts_os: host.os of gpu_info; arch: uname -m."""
        question = ("os", facts_os.get("id"), facts_os.get("version_id"), arch)
        if question not in self.memo:
            self.memo[question] = _matrix_os.os_support(self, facts_os, arch)
        return t.cast("OsSupport", self.memo[question])

    def driver_packages(
        self, os: OsSupport, branch: int, kernel_modules: str, needs: t.Iterable[str] = (), source: str = "nvidia"
    ) -> DriverPackages:
        """Package names of a branch on a system; needs: compute_only, fabric_manager, nvlink5, imex."""
        return _matrix_os.driver_packages(self, os, branch, kernel_modules, frozenset(needs), source)

    def driver_for(self, gpus: t.Iterable[str], today: datetime.date, channel: str = "lts") -> DriverChoice | None:
        """Newest driver without open advisory of a supported branch that drives all these GPUs (row ids)."""
        question = ("driver_for", frozenset(gpus), today, channel)
        if question not in self.memo:
            self.memo[question] = _matrix_driver.driver_for(self, question[1], today, channel)
        return t.cast("DriverChoice | None", self.memo[question])

    def named_stack(self, name: str) -> Row | None:
        """A row of stacks.yml by id, name or alias."""
        return self.stacks.get(name)

    def cuda_toolkit(self, version: str) -> Row | None:
        """The row of an exact toolkit, or the newest one of a minor (13.0)."""
        if version in self.toolkits:
            return self.toolkits[version]
        if minor_of(version) != version:
            return None
        same = [row for row in self.toolkits.values() if minor_of(row["version"]) == version]
        return max(same, key=lambda row: key(row["version"]), default=None)


def _device(pci_device_id: str) -> str:
    return pci_device_id.lower().removeprefix("0x").upper()
