# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What came along with CUDA goes with it, unless somebody needs it; packages of others are never removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _cuda_record, _driver_steps
from ansible_collections.gpufleet.inference.plugins.module_utils._apt import PackageError, Simulation
from ansible_collections.gpufleet.inference.plugins.module_utils._cuda_record import read_record, update_record
from ansible_collections.gpufleet.inference.plugins.module_utils._cuda_resolve import CudaRequest, Wanted
from ansible_collections.gpufleet.inference.plugins.module_utils._cuda_transaction import change, remove

ORIGIN = "http://repo  Packages"
DEPENDS = {"cuda-toolkit-12-8": ["cuda-nvcc-12-8"], "cuda-nvcc-12-8": ["make"]}


class FakeApt:
    """A host with a package database; the toolkit's compiler needs `make`, which is not NVIDIA's."""

    def __init__(self, **there: str) -> None:
        self.there = {name.replace("_", "-"): version for name, version in there.items()}
        self.held: set[str] = set()
        self.auto = {"make"}
        self.needed: dict[str, list[str]] = {}
        """package of somebody else → what it needs"""

    def versions(self, names: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
        return {name: [("12.8.1-1", ORIGIN)] for name in names if name.startswith("cuda-")}

    def lower_bounds(self, specs: Mapping[str, str]) -> dict[str, dict[str, str]]:
        needs = {name: DEPENDS.get(name, []) + self.needed.get(name, []) for name in specs}
        return {name: {need: "12.8.1" if need.startswith("cuda-") else "" for need in found} for name, found in needs.items()}

    def simulate(self, specs: Sequence[str], downgrade: bool = False) -> Simulation:
        install = dict(spec.split("=") for spec in specs if "=" in spec)
        if "cuda-nvcc-12-8" in install and "make" not in self.there:
            install["make"] = "4.3"
        return Simulation(install, [spec[:-1] for spec in specs if spec.endswith("-")], "")

    def install(self, specs: Sequence[str], downgrade: bool) -> None:
        outcome = self.simulate(specs)
        self.there = {name: version for name, version in {**self.there, **outcome.install}.items() if name not in outcome.remove}

    def remove(self, names: Sequence[str], simulate: bool = False) -> Simulation:
        going = [*names, *(other for other, needs in self.needed.items() if set(needs) & set(names))]
        if not simulate:
            self.there = {name: version for name, version in self.there.items() if name not in going}
        return Simulation({}, going, "")

    def unneeded(self) -> list[str]:
        used = {need for name in self.there for need in DEPENDS.get(name, []) + self.needed.get(name, [])}
        return sorted(name for name in self.auto if name in self.there and name not in used)

    def installed(self) -> dict[str, tuple[str, str]]:
        return {name: (version, "installed") for name, version in self.there.items()}

    def holds(self) -> set[str]:
        return set(self.held)

    def set_holds(self, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        self.held = (self.held | set(add)) - set(remove)

    def download_size(self, specs: Sequence[str], downgrade: bool) -> int | None:
        return None

    def download(self, specs: Sequence[str], downgrade: bool) -> None: ...


@pytest.fixture(autouse=True)
def _paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cuda_record, "CUDA_RECORD", str(tmp_path / "cuda.json"))
    monkeypatch.setattr(_driver_steps, "POLICY", str(tmp_path / "policy-rc.d"))


def install(apt: Any) -> None:
    change(apt, CudaRequest((Wanted("cuda-toolkit-12-8", "12.8.1"),)), True, False)


def test_in_and_out_again() -> None:
    apt: Any = FakeApt(bash="5")
    install(apt)
    assert read_record()["dependencies"] == ["make"]
    assert apt.held == {"cuda-toolkit-12-8", "cuda-nvcc-12-8"}
    assert remove(apt, False).changed
    assert apt.there == {"bash": "5"}
    assert apt.held == set()


def test_a_dependency_that_was_there_before_stays() -> None:
    apt: Any = FakeApt(make="4.3")
    install(apt)
    remove(apt, False)
    assert apt.there == {"make": "4.3"}


def test_a_dependency_that_somebody_came_to_need_stays() -> None:
    apt: Any = FakeApt()
    install(apt)
    apt.there["kernel-builder"], apt.needed["kernel-builder"] = "1", ["make"]
    remove(apt, False)
    assert set(apt.there) == {"kernel-builder", "make"}


def test_what_would_take_a_package_of_others_along_is_refused() -> None:
    apt: Any = FakeApt()
    install(apt)
    apt.there["own-tool"], apt.needed["own-tool"] = "1", ["cuda-nvcc-12-8"]
    with pytest.raises(PackageError, match="own-tool") as caught:
        remove(apt, False)
    assert caught.value.reason == "would_remove"
    assert "cuda-nvcc-12-8" in apt.there


def test_a_hold_of_others_is_respected() -> None:
    apt: Any = FakeApt(**{"cuda-nvcc-12-8": "12.8.0-1"})
    apt.held = {"cuda-nvcc-12-8"}
    update_record({"packages": {"cuda-toolkit-12-4": "1"}})
    with pytest.raises(PackageError, match="someone else holds") as caught:
        change(apt, CudaRequest((Wanted("cuda-toolkit-12-8", "12.8.1"), Wanted("cuda-nvcc-12-8", "12.8.1"))), True, False)
    assert caught.value.reason == "foreign_hold"
    assert "cuda-toolkit-12-8" not in apt.there


def test_check_mode_changes_nothing() -> None:
    apt: Any = FakeApt(bash="5")
    assert change(apt, CudaRequest((Wanted("cuda-toolkit-12-8", "12.8.1"),)), True, True).changed
    assert apt.there == {"bash": "5"}
    assert read_record()["packages"] == {}
