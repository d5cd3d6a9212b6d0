# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the CUDA planner reads of a gpu_info document, with an answer for each gap.

Private to the collection, pure. Odd or partial facts give None or empty values, never an exception.
"""

from __future__ import annotations

import typing as t

from ..module_utils._package_sets import upstream
from ._matrix_model import Matrix
from ._matrix_types import Row
from ._versions import major_of, minor_of


def _dict(value: t.Any) -> dict[str, t.Any]:
    return dict(value) if isinstance(value, t.Mapping) else {}


class HostCuda:
    """One host as the CUDA planner sees it."""

    def __init__(self, facts: t.Mapping[str, t.Any]) -> None:
        host, cuda, driver = _dict(facts.get("host")), _dict(facts.get("cuda")), _dict(facts.get("driver"))
        packages, states = _dict(facts.get("packages")), _dict(facts.get("state_files"))
        record = _dict(states.get("cuda"))
        self.os = _dict(host.get("os"))
        self.arch = str(host.get("machine_arch") or "")
        self.toolkits = {str(one.get("path")): _dict(one) for one in cuda.get("toolkits") or []}
        self.compat = {str(one.get("path")): str(one.get("version") or "") for one in cuda.get("compat") or []}
        self.cudnn: list[dict[str, t.Any]] = list(cuda.get("cudnn") or [])
        self.nccl: list[dict[str, t.Any]] = list(cuda.get("nccl") or [])
        self.link = {"mode": "absent", "target": None, "alternatives": [], **_dict(cuda.get("link"))}

        self.manager = str(packages.get("manager") or "unknown")
        self.packages: dict[str, str] = _dict(packages.get("set"))
        self.holds: set[str] = set(packages.get("holds") or [])
        self.broken: list[str] = sorted(packages.get("broken") or [])

        self.recorded = bool(record)
        self.ours: dict[str, str] = _dict(record.get("packages"))
        self.pending: dict[str, str] = _dict(record.get("pending"))
        self.our_holds: set[str] = set(record.get("holds") or [])
        self.our_runfiles: dict[str, dict[str, t.Any]] = _dict(record.get("runfiles"))
        self.runfile_pending: str | None = _dict(record.get("runfile_pending")).get("version")
        others = _dict(states.get("driver"))
        self.driver_recorded = bool(others.get("packages") or others.get("pending"))
        self.files: dict[str, str | None] = _dict(states.get("files"))

        repository = _dict(driver.get("repository"))
        self.repository_url: str | None = repository.get("url")
        self.repository_owned = bool(repository.get("owned"))
        installed, loaded = _dict(driver.get("installed")), _dict(driver.get("loaded"))
        self.driver: str | None = installed.get("version") or loaded.get("version") or _dict(driver.get("library")).get("version")
        """The driver that will run: what is installed comes into effect with the next boot."""

        self.gpus = [_dict(gpu) for gpu in facts.get("gpus") or []]
        self.pci = [_dict(gpu) for gpu in _dict(facts.get("pci")).get("gpus") or []]

    def at(self, path: str) -> dict[str, t.Any]:
        """The toolkit in a folder; empty if there is none."""
        return self.toolkits.get(path, {})

    def has_elsewise(self, version: str, package: str) -> bool:
        """Whether somebody put this very toolkit there without its package (a runfile, a copy); then it is as asked for."""
        there = self.at(folder(version)).get("version") == version
        return there and package not in self.packages and package not in self.pending and version not in self.our_runfiles

    def version_of(self, name: str) -> str | None:
        """Version of an installed package, without epoch and packaging revision."""
        return upstream(self.packages[name]) if name in self.packages else None

    def majors(self) -> set[int]:
        """CUDA majors of the toolkits that are there."""
        return {major for one in self.toolkits.values() if (major := major_of(str(one.get("version"))))}

    def gpu_rows(self, matrix: Matrix) -> list[tuple[str, Row | None]]:
        """(name for people, matrix row or None) of each GPU."""
        if self.gpus:
            asked = [(gpu.get("product"), gpu.get("pci_device_id")) for gpu in self.gpus]
        else:
            asked = [(None, str(gpu.get("device_id") or "") or None) for gpu in self.pci]
        rows = [(product, device, matrix.gpu(product=product, pci_device_id=device)) for product, device in asked]
        return [(str(product or (row or {}).get("name") or f"PCI device 10de:{device}"), row) for product, device, row in rows]


def folder(version: str) -> str:
    """Where every toolkit of a minor lives."""
    return f"/usr/local/cuda-{minor_of(version)}"
