# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One host and its target stack, digested once for all rules. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ._contracts import Context, Severity
from ._matrix_types import DriverChoice, OsSupport, Row
from ._versions import branch_of

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

Facts = t.Mapping[str, t.Any]
CONTAINER_RUNTIMES = ("docker", "podman", "containerd", "crio")


@dataclass(frozen=True)
class GpuGroup:
    """GPUs of one host that are the same product."""

    row: Row | None
    product: str
    count: int
    architecture: str | None
    compute_capability: str | None
    subject: str

    @property
    def label(self) -> str:
        return f"{self.count}x {self.product}" if self.count > 1 else self.product


class Case:
    """What rules ask about a host. `*_asked` tells the target stack's word from what was merely found."""

    def __init__(self, matrix: Matrix, facts: Facts, stack: Facts, policy: Context) -> None:
        self.matrix, self.facts, self.policy = matrix, facts, policy
        self.stack_row = matrix.named_stack(str(stack["name"])) if stack.get("name") else None
        self.stack = _with_named(stack, self.stack_row)
        self.host: Facts = facts.get("host") or {}
        self.gpus: list[Facts] = facts.get("gpus") or []
        self.groups = _groups(matrix, self.gpus)
        self.os: OsSupport = matrix.os(self.host.get("os") or {}, str(self.host.get("machine_arch") or ""))
        self._driver()
        cuda = self.stack.get("cuda") or {}
        self.toolkits_asked = bool(cuda.get("toolkits"))
        self.toolkits: list[str] = [str(version) for version in cuda.get("toolkits") or ()] or _found(facts, "toolkits")
        self.compat_asked = bool(cuda.get("compat"))
        toolkit = self.stack.get("container_toolkit") or {}
        self.container_toolkit_asked = bool(toolkit.get("version"))
        self.containers: Facts = facts.get("containers") or {}
        found = (self.containers.get("toolkit") or {}).get("version")
        self.container_toolkit: str | None = str(toolkit["version"]) if toolkit.get("version") else found
        self.engines: list[Facts] = list(self.stack.get("engines") or ())

    def _driver(self) -> None:
        driver = self.facts.get("driver") or {}
        asked = self.stack.get("driver") or {}
        installed, loaded = driver.get("installed") or {}, driver.get("loaded") or {}
        self.driver_found: str | None = (
            loaded.get("version") or installed.get("version") or (self.facts.get("nvml") or {}).get("driver_version")
        )
        self.driver_asked = bool(asked.get("branch") or asked.get("version") or asked.get("kernel_modules"))
        self.modules_asked = asked.get("kernel_modules") in ("open", "proprietary")
        self.driver_source = str(asked.get("source") or "nvidia")
        version, branch = asked.get("version"), asked.get("branch")
        if not version and branch:
            row = self.matrix.branch(_number(branch) or 0) or {}
            version = row.get("latest")
        elif not version:
            version = self.driver_found
        self.driver: str | None = str(version) if version else None
        self.branch: int | None = _number(branch) or (branch_of(self.driver) if self.driver else None)
        found = loaded.get("kernel_modules") or installed.get("kernel_modules")
        self.kernel_modules: str | None = asked["kernel_modules"] if self.modules_asked else None if self.driver_asked else found

    def severity(self, *asked: bool) -> Severity:
        """Blocks when the target asks for a side of the relation, warns about what was merely found."""
        return "block" if any(asked) else "warn"

    @property
    def cures_driver(self) -> bool:
        """Whether the run that asks is one that repairs the driver: broken driver states then are work, not obstacles."""
        component = self.stack.get("component")
        return bool(component == "driver" if component else self.driver_asked)

    @property
    def driver_moves(self) -> bool:
        """Whether the target's driver is another than the host's."""
        return self.driver_asked and self.driver != self.driver_found

    @property
    def forward_groups(self) -> list[GpuGroup]:
        """GPUs of a class that CUDA forward compatibility supports."""
        classes = self.matrix.value("rule.cuda.forward", "classes", ["datacenter"])
        return [group for group in self.groups if group.row is not None and group.row["class"] in classes]

    @property
    def datacenter(self) -> bool:
        """Whether CUDA forward compatibility is possible on all GPUs of the host."""
        return bool(self.groups) and len(self.forward_groups) == len(self.groups)

    @property
    def geforce(self) -> bool:
        return any(group.row is not None and group.row["class"] == "geforce" for group in self.groups)

    def best_driver(self) -> DriverChoice | None:
        """The driver to offer: newest long-term branch without open advisory that drives all known GPUs of the host."""
        return self.matrix.driver_for([group.row["id"] for group in self.groups if group.row], self.policy.today)

    def nearest_driver(self) -> str | None:
        """best_driver() as text."""
        best = self.best_driver()
        return f"{best.version} (branch {best.branch}, {best.kernel_modules} kernel modules)" if best else None

    def driver_fix(self) -> str:
        """What to set so that the nearest driver is used."""
        best = self.best_driver()
        if best is None:
            return "No supported driver works for all GPUs of this host: separate them, or ask for other hardware."
        return f"Set nvidia_driver_branch: {best.branch} and nvidia_driver_version: '{best.version}'."


def _with_named(stack: Facts, row: Row | None) -> dict[str, t.Any]:
    """The stack with a named stack's parts under the site's own words."""
    out = dict(stack)
    if row:
        for part in ("driver", "cuda", "container_toolkit"):
            if row.get(part):
                out[part] = {**row[part], **{name: value for name, value in (stack.get(part) or {}).items() if value}}
        for engine in out.get("engines") or ():
            if not engine.get("version") and engine.get("engine") in (row.get("engines") or {}):
                out["engines"] = [_versioned(item, row["engines"]) for item in out["engines"]]
                break
    return out


def _versioned(engine: Facts, versions: Facts) -> dict[str, t.Any]:
    return {**engine, "version": engine.get("version") or versions.get(str(engine.get("engine")))}


def _groups(matrix: Matrix, gpus: t.Iterable[Facts]) -> list[GpuGroup]:
    same: dict[tuple[t.Any, t.Any], list[Facts]] = {}
    for gpu in gpus:
        if gpu.get("driver_bound") != "vfio-pci":
            same.setdefault((gpu.get("product"), gpu.get("pci_device_id")), []).append(gpu)
    return [_group(matrix, product, pci, members) for (product, pci), members in same.items()]


def _group(matrix: Matrix, product: str | None, pci: str | None, members: list[Facts]) -> GpuGroup:
    row = matrix.gpu(product=product, pci_device_id=pci)
    first = members[0]
    label = product or (matrix.product(pci) if pci else None) or f"PCI device 10de:{pci}"
    return GpuGroup(
        row=row,
        product=label,
        count=len(members),
        architecture=row["architecture"] if row else first.get("architecture"),
        compute_capability=row["compute_capability"] if row else first.get("compute_capability"),
        subject=label,
    )


def _found(facts: Facts, what: str) -> list[str]:
    return [str(item["version"]) for item in (facts.get("cuda") or {}).get(what) or () if item.get("version")]


def _number(branch: t.Any) -> int | None:
    try:
        return int(branch) if branch is not None else None
    except (TypeError, ValueError):
        return None
