# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A package manager that does what it is told and writes down what it is asked; the real one runs in the molecule scenarios."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import (
    _dnf_streams,
    _driver_rollback,
    _driver_steps,
    _driver_transaction,
    _package_files,
)
from ansible_collections.gpufleet.inference.plugins.module_utils._driver_record import read_record, update_record
from ansible_collections.gpufleet.inference.plugins.module_utils._driver_resolve import Request
from ansible_collections.gpufleet.inference.plugins.module_utils._driver_steps import Done
from ansible_collections.gpufleet.inference.plugins.module_utils._package_answers import PackageError, Simulation

REQUEST = Request(("nvidia-a",), ("nvidia-a",), ("nvidia-*",), (), 580, "")


class FakeApt:
    """Installs what it is told; writes down what it is asked."""

    def __init__(self, installed: dict[str, str] | None = None) -> None:
        self.packages = {name: (version, "installed") for name, version in (installed or {}).items()}
        self.held: set[str] = set()
        self.asked: list[str] = []
        self.offers = {"nvidia-a": [("580.1.1-1", "mirror")]}
        self.removes: list[str] = []
        self.stale_downloads = 0
        self.during: t.Callable[[], None] = lambda: None
        self.excluded: list[str] = []
        self.unfit = ""
        """Why kept files cannot be installed."""
        self.lost: set[str] = set()
        """Packages whose files no repository has any more."""

    def versions(self, names: t.Sequence[str]) -> dict[str, list[tuple[str, str]]]:
        return {name: self.offers[name] for name in names if name in self.offers}

    def depends(self, specs: t.Mapping[str, str]) -> dict[str, list[list[str]]]:
        return {}

    def installed(self) -> dict[str, tuple[str, str]]:
        return dict(self.packages)

    def holds(self) -> set[str]:
        return set(self.held)

    def set_holds(self, add: t.Iterable[str] = (), remove: t.Iterable[str] = ()) -> None:
        self.held = (self.held | set(add)) - set(remove)

    def simulate(self, specs: t.Sequence[str], downgrade: bool = False) -> Simulation:
        wanted = dict(spec.split("=") for spec in specs if "=" in spec)
        moves = {name: version for name, version in wanted.items() if self.packages.get(name, ("",))[0] != version}
        return Simulation(moves, [*self.removes, *(spec[:-1] for spec in specs if spec.endswith("-"))], "")

    def update(self, parts: str | None = None) -> None:
        self.asked.append("update")

    def download(self, specs: t.Sequence[str], downgrade: bool) -> None:
        self.asked.append("download")
        if self.stale_downloads:
            self.stale_downloads -= 1
            raise PackageError("repository_unreachable", "404")

    def install(self, specs: t.Sequence[str], downgrade: bool) -> None:
        self.asked.append("install")
        self.during()
        self.packages.update({spec.split("=")[0]: (spec.split("=")[1], "installed") for spec in specs if "=" in spec})
        self.packages = {name: entry for name, entry in self.packages.items() if f"{name}-" not in specs}

    def download_size(self, specs: t.Sequence[str], downgrade: bool) -> int | None:
        return 1000

    def exclude(self, names: t.Iterable[str]) -> bool:
        before, self.excluded = self.excluded, sorted(names)
        return before != self.excluded

    def fetch_files(self, specs: t.Mapping[str, str], folder: str) -> dict[str, str]:
        self.asked.append("fetch files")
        if self.lost & set(specs):
            raise PackageError("not_available", f"no repository has {', '.join(sorted(self.lost & set(specs)))}")
        Path(folder).mkdir(parents=True, exist_ok=True)
        paths = {name: f"{folder}/{name}_{version}.deb" for name, version in specs.items()}
        for path in paths.values():
            Path(path).write_text(path)
        return paths

    def install_files(self, paths: t.Sequence[str], downgrade: bool, remove: t.Sequence[str] = (), simulate: bool = False) -> Simulation:
        new = dict(Path(path).name[: -len(".deb")].split("_") for path in paths)
        moves = {name: version for name, version in new.items() if self.packages.get(name) != (version, "installed")}
        outcome = Simulation(moves, [*remove, *self.removes], self.unfit)
        if simulate:
            return outcome
        self.asked.append("install files")
        self.during()
        self.packages.update({name: (version, "installed") for name, version in new.items()})
        self.packages = {name: entry for name, entry in self.packages.items() if name not in remove}
        return outcome

    def remove(self, names: t.Sequence[str], simulate: bool = False) -> Simulation:
        self.asked.append("simulate removal" if simulate else "remove")
        if not simulate:
            self.packages = {name: entry for name, entry in self.packages.items() if name not in names}
        return Simulation({}, [*names, *self.removes], "")

    def unneeded(self) -> list[str]:
        return [name for name in ("dkms", "old-kernel") if name in self.packages]

    def configure(self) -> str:
        self.asked.append("configure")
        self.packages = {name: (version, "installed") for name, (version, _status) in self.packages.items()}
        return ""


def change(apt: FakeApt, hold: bool = True, check: bool = False, request: Request = REQUEST, rollback: str = "best_effort") -> Done:
    return _driver_transaction.change_packages(apt, request, "nvidia", hold, check, rollback=rollback)  # type: ignore[arg-type]


@pytest.fixture(name="record")
def record_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "driver.json"
    monkeypatch.setattr(_driver_transaction, "read_record", lambda: read_record(str(path)))
    monkeypatch.setattr(_driver_transaction, "update_record", lambda changes: update_record(changes, str(path)))
    monkeypatch.setattr(_driver_rollback, "read_record", lambda: read_record(str(path)))
    monkeypatch.setattr(_driver_rollback, "update_record", lambda changes: update_record(changes, str(path)))
    monkeypatch.setattr(_driver_steps, "POLICY", str(tmp_path / "policy-rc.d"))
    monkeypatch.setattr(_dnf_streams, "FOLDER", str(tmp_path / "modules.d"))
    monkeypatch.setattr(_package_files, "ROOT", str(tmp_path / "packages"))
    return path
