# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the driver planner reads of a gpu_info document, with a name for each thing and an answer for each gap.

Private to the collection, pure. Odd or partial facts give None or empty values, never an exception.
"""

from __future__ import annotations

import typing as t

from ..module_utils._module_info import UNREAD
from ._matrix_model import Matrix

MODPROBE_CONF = "/etc/modprobe.d/gpufleet-nvidia.conf"
NOUVEAU_CONF = "/etc/modprobe.d/gpufleet-nouveau.conf"
DRACUT_CONF = "/etc/dracut.conf.d/gpufleet-nouveau.conf"
MODULES_LOAD_CONF = "/etc/modules-load.d/gpufleet-nvidia.conf"
PERSISTENCED = "nvidia-persistenced.service"
FABRIC_MANAGER = "nvidia-fabricmanager.service"
IMEX = "nvidia-imex.service"


def _dict(value: t.Any) -> dict[str, t.Any]:
    return dict(value) if isinstance(value, t.Mapping) else {}


class HostDriver:
    """One host as the driver planner sees it."""

    def __init__(self, facts: t.Mapping[str, t.Any]) -> None:
        self.facts = facts
        host = _dict(facts.get("host"))
        driver = _dict(facts.get("driver"))
        installed = _dict(driver.get("installed"))
        loaded = _dict(driver.get("loaded"))
        packages = _dict(facts.get("packages"))
        record = _dict(_dict(facts.get("state_files")).get("driver"))

        self.os = _dict(host.get("os"))
        self.arch = str(host.get("machine_arch") or "")
        self.root = bool(host.get("root"))
        self.boot_id = host.get("boot_id")
        self.kernel = _dict(host.get("kernel"))
        self.compilers = _dict(self.kernel.get("compilers"))
        self.secure_boot = _dict(host.get("secure_boot"))
        self.container = _dict(host.get("virtualization")).get("container")

        self.version: str | None = installed.get("version")
        self.origin: str | None = installed.get("origin")
        self.kernel_modules: str | None = installed.get("kernel_modules")
        self.module_version: str | None = installed.get("module_version")
        self.modules: dict[str, dict[str, t.Any] | None] = _dict(installed.get("modules"))
        self.unread = {str(_dict(entry).get("part")) for entry in facts.get("unread") or []}
        self.dkms: list[dict[str, t.Any]] = [_dict(entry) for entry in installed.get("dkms") or []]
        self.packages: dict[str, dict[str, t.Any]] = {name: _dict(entry) for name, entry in _dict(installed.get("packages")).items()}

        self.loaded_version: str | None = loaded.get("version")
        self.loaded_kind: str | None = loaded.get("kernel_modules")
        self.loaded_modules: list[str] = list(loaded.get("modules") or [])
        self.loaded_parameters: dict[str, str] = _dict(loaded.get("parameters"))
        self.library_version: str | None = _dict(driver.get("library")).get("version")

        self.holders = _dict(driver.get("holders"))
        self.reload_record = _dict(_dict(facts.get("state_files")).get("driver_reload"))
        if self.reload_record.get("boot_id") != self.boot_id:
            self.reload_record = {}

        nouveau = _dict(driver.get("nouveau"))
        self.nouveau_active = bool(nouveau.get("loaded") or nouveau.get("bound"))
        self.nouveau_blacklisted = bool(nouveau.get("blacklisted"))
        self.modprobe_conf: dict[str, str] = _dict(driver.get("modprobe_conf"))
        repository = _dict(driver.get("repository"))
        self.repository_url: str | None = repository.get("url")
        self.repository_file: str | None = repository.get("file")
        self.repository_owned = bool(repository.get("owned"))

        self.manager = str(packages.get("manager") or "unknown")
        self.holds: set[str] = set(packages.get("holds") or [])
        self.broken: list[str] = sorted(packages.get("broken") or [])
        self.package_set: dict[str, str] = _dict(packages.get("set"))
        self.streams: dict[str, str] = _dict(packages.get("streams"))

        self.record_packages: dict[str, str] = _dict(record.get("packages"))
        self.record_holds: set[str] = set(record.get("holds") or [])
        self.record_source: str | None = record.get("source")
        self.record_stream: str | None = record.get("module_stream")
        self.record_pending: dict[str, str] = _dict(record.get("pending"))
        self.record_runfile: dict[str, str] = _dict(record.get("runfile"))
        self.record_runfile_pending: dict[str, str] = _dict(record.get("runfile_pending"))
        self.record_initramfs: dict[str, str] = _dict(record.get("initramfs"))
        self.rebooted_for: dict[str, str] = _dict(record.get("rebooted_for"))
        self.record_previous: dict[str, t.Any] = _dict(record.get("previous"))
        self.previous_stream = str(_dict(self.record_previous.get("module_stream")).get("enabled") or "")
        """MODULE:STREAM that was enabled before the last change of the driver; MODULE: for none, empty where it did not change."""
        self.rolled_back: dict[str, t.Any] = _dict(record.get("rolled_back"))
        cuda = _dict(_dict(facts.get("state_files")).get("cuda"))
        self.cuda_recorded = bool(cuda.get("packages") or cuda.get("pending") or cuda.get("repository"))
        self.record_mok: dict[str, t.Any] = _dict(record.get("mok"))
        self.record = record
        self.recorded = bool(record)
        self.reboot_required = _dict(_dict(facts.get("state_files")).get("reboot_required"))
        self.files: dict[str, str | None] = _dict(_dict(facts.get("state_files")).get("files"))

        pci = _dict(facts.get("pci"))
        self.gpus: list[dict[str, t.Any]] = [_dict(gpu) for gpu in pci.get("gpus") or []]
        self.fabric = _dict(facts.get("fabric"))
        self.fabric_kind = str(self.fabric.get("kind") or "none")
        self.units: dict[str, dict[str, t.Any]] = {name: _dict(unit) for name, unit in _dict(facts.get("units")).items()}
        self.managers: list[dict[str, t.Any]] = [_dict(manager) for manager in facts.get("managers") or []]
        self.state = str(facts.get("state") or "")

    @property
    def hung(self) -> bool:
        return self.state == "hung"

    @property
    def next_kernel(self) -> str | None:
        return self.kernel.get("next_boot")

    @property
    def kernels(self) -> list[str]:
        """Running, next."""
        return list(dict.fromkeys(str(self.kernel[key]) for key in ("release", "next_boot") if self.kernel.get(key)))

    @property
    def module_unknown(self) -> bool:
        """Whether modinfo gave no answer about the running kernel, and DKMS, where it has the module, says that it is installed there."""
        release = self.kernel.get("release")
        if self.module_version or UNREAD not in self.unread or release in self.modules:
            return False
        return not self.dkms or any(entry.get("kernel") == release and entry.get("state") == "installed" for entry in self.dkms)

    def is_installed(self, name: str) -> bool:
        entry = self.packages.get(name)
        return (entry is not None and entry.get("status") == "installed") or (entry is None and name in self.package_set)

    def is_held(self, name: str) -> bool:
        return name in self.holds or bool(self.packages.get(name, {}).get("held"))

    def unit(self, name: str) -> dict[str, t.Any]:
        return self.units.get(name, {})

    def file_hash(self, path: str) -> str | None:
        """Hash of a file of ours on the host; None when it is not there."""
        return self.files[path] if path in self.files else self.modprobe_conf.get(path)

    def module_demands(self, matrix: Matrix) -> list[tuple[str, str]]:
        """(product, required | supported | unsupported: the open modules) of each GPU that the matrix knows."""
        rows = [matrix.gpu(pci_device_id=str(gpu.get("device_id") or "")) for gpu in self.gpus]
        return [(str(row.get("name") or row.get("id")), str(row["open_modules"])) for row in rows if row and row.get("open_modules")]

    def gpu_rows(self, matrix: Matrix) -> list[str]:
        """Ids of the matrix rows of this host's GPUs."""
        rows = [matrix.gpu(pci_device_id=str(gpu.get("device_id") or "")) for gpu in self.gpus]
        return sorted({str(row["id"]) for row in rows if row})

    def gpu_names(self) -> list[str]:
        """The GPUs for people: product where known, else PCI id."""
        known = {gpu.get("pci_address"): gpu.get("product") for gpu in self.facts.get("gpus") or []}
        return sorted({str(known.get(gpu.get("address")) or f"PCI device 10de:{gpu.get('device_id')}") for gpu in self.gpus})
