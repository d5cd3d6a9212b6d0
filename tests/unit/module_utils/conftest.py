# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures: a host as files, and simulated GPUs on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _gpu_info, _nvml
from ansible_collections.gpufleet.inference.plugins.module_utils._reader import Reader

ROOT = Path(__file__).resolve().parents[3]
SIMULATOR = ROOT / "roles/simulated_gpu/files"
VERSION = "580.159.04"
VALIDATOR = jsonschema.Draft202012Validator(json.loads((ROOT / "schemas/gpu_info.schema.json").read_text()))


class Host:
    """A file system of a host, as far as a test needs it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.options = _nvml.Options(timeout=20, run_dir=str(root / "run/gpufleet"), python_dir=str(root / "opt/gpufleet/python"))
        for folder in ("sys/bus/pci/devices", "sys/module", "proc", "etc", "run"):
            (root / folder).mkdir(parents=True, exist_ok=True)

    def reader(self) -> Reader:
        return Reader(sysfs=str(self.root / "sys"), procfs=str(self.root / "proc"), rootfs=str(self.root))

    def write(self, path: str, content: str | bytes = "") -> Path:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            target.write_text(content)
        return target

    def link(self, path: str, target: str) -> None:
        link = self.root / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)

    def pci(self, address: str, device: str = "0x2330", kind: str = "0x030200", vendor: str = "0x10de", driver: str = "") -> Path:
        folder = f"sys/bus/pci/devices/{address}"
        for name, value in {
            "vendor": vendor,
            "device": device,
            "class": kind,
            "numa_node": "1",
            "subsystem_vendor": "0x10de",
            "subsystem_device": "0x16c1",
            "local_cpulist": "0-31",
        }.items():
            self.write(f"{folder}/{name}", value + "\n")
        if driver:
            self.link(f"{folder}/driver", f"../../../bus/pci/drivers/{driver}")
        return self.root / folder

    def dpkg(self, *packages: str) -> None:
        """Each `name version [status]`, status as dpkg's three words."""
        stanzas = []
        for package in packages:
            name, version, *status = package.split(" ", 2)
            stanzas.append(
                f"Package: {name}\nStatus: {status[0] if status else 'install ok installed'}\nArchitecture: amd64\nVersion: {version}\n"
                "Description: words\n Version: not this one\n"
            )
        self.write("var/lib/dpkg/status", "\n".join(stanzas))

    def collect(self, expected: int | None = None, details: bool = False, **options: Any) -> dict[str, Any]:
        """The document, checked against its schema."""
        info = _gpu_info.collect(self.reader(), self.options._replace(**options), expected, details)
        problems = [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in VALIDATOR.iter_errors(info)]
        assert not problems
        return info


class Machine(Host):
    """A host with simulated GPUs, driven by the simulator's own command."""

    def __init__(self, root: Path, profile: str, library: Path, count: int | None = None) -> None:
        super().__init__(root)
        folder = root / "usr/lib/x86_64-linux-gnu"
        folder.mkdir(parents=True)
        shutil.copy(library, folder / f"libnvidia-ml.so.{VERSION}")
        (folder / "libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{VERSION}")
        self.options = self.options._replace(library=str(folder / "libnvidia-ml.so.1"))
        self.dpkg(f"libnvidia-compute {VERSION}-1", f"nvidia-kernel-open-dkms {VERSION}-1")
        self.simulate("profile", str(SIMULATOR / f"profiles/{profile}.json"), *(["--count", str(count)] if count else []))
        self.simulate("install-module", VERSION)
        self.boot()

    def simulate(self, *argv: str) -> str:
        env = {**os.environ, "SIMULATED_GPU_ROOT": str(self.root), "SIMULATED_GPU_LIB": str(SIMULATOR / "lib")}
        command = [str(SIMULATOR / "bin/simulated-gpu"), *argv]
        result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def boot(self) -> None:
        self.simulate("boot")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "host")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    subprocess.run([str(SIMULATOR / "build.sh"), str(folder)], check=True, capture_output=True, timeout=300)
    return folder / "libnvidia-ml.so"


@pytest.fixture
def machine(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a simulated machine of a profile."""

    def make(profile: str = "h200x2", count: int | None = None, root: Path | None = None) -> Machine:
        root = root or tmp_path / "machine"
        monkeypatch.setenv("SIMULATED_GPU_ROOT", str(root))
        return Machine(root, profile, library, count)

    return make
