# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which exact packages: over a small repository that has NVIDIA's relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._apt import PackageError, Simulation
from ansible_collections.gpufleet.inference.plugins.module_utils._cuda_resolve import CudaRequest, Wanted, needed_by_others, resolve_cuda

ORIGIN = "http://repo/debian12/x86_64  Packages"
# name → {version: {dependency: lower bound}}, newest first
REPOSITORY: dict[str, dict[str, dict[str, str]]] = {
    "cuda-toolkit-12-8": {"12.8.1-1": {"cuda-compiler-12-8": "12.8.1"}, "12.8.0-1": {"cuda-compiler-12-8": "12.8.0"}},
    "cuda-compiler-12-8": {"12.8.1-1": {"cuda-nvcc-12-8": "12.8.93"}, "12.8.0-1": {"cuda-nvcc-12-8": "12.8.61"}},
    "cuda-nvcc-12-8": {
        "12.8.93-1": {"cuda-toolkit-config-common": "12.8.90", "libc6": "2.17"},
        "12.8.61-1": {"cuda-toolkit-config-common": "12.8.57", "libc6": "2.17"},
    },
    "cuda-toolkit-12-4": {"12.4.1-1": {"cuda-nvcc-12-4": "12.4.131"}},
    "cuda-nvcc-12-4": {"12.4.131-1": {"cuda-toolkit-config-common": "12.4.127"}},
    "cuda-toolkit-config-common": {"13.2.75-1": {}, "12.8.90-1": {}, "12.8.57-1": {}, "12.4.127-1": {}},
    "cuda-runtime-12-8": {"12.8.1-1": {"cuda-drivers": "570"}},
    "libnccl2": {"2.29.7-1+cuda13.0": {}, "2.29.7-1+cuda12.9": {}},
    "libc6": {"2.36-9": {}},
    "cuda-drivers": {"595-1": {}},
}


class Fake:
    """Answers as apt would; a simulation takes what is named, and the newest of what is only depended on."""

    def __init__(self, installed: Mapping[str, str] | None = None) -> None:
        self.there = dict(installed or {})
        self.asked: list[str] = []

    def versions(self, names: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
        return {name: [(version, ORIGIN) for version in REPOSITORY[name]] for name in names if name in REPOSITORY}

    def lower_bounds(self, specs: Mapping[str, str]) -> dict[str, dict[str, str]]:
        return {name: REPOSITORY[name][version] for name, version in specs.items() if version in REPOSITORY.get(name, {})}

    def simulate(self, specs: Sequence[str], downgrade: bool = False) -> Simulation:
        self.asked = list(specs)
        named = dict(spec.split("=") for spec in specs if "=" in spec)
        install, queue = dict(named), list(named.items())
        while queue:
            name, version = queue.pop()
            for wanted in REPOSITORY[name][version]:
                if wanted not in install and wanted not in self.there:
                    install[wanted] = next(iter(REPOSITORY[wanted]))
                    queue.append((wanted, install[wanted]))
        return Simulation(install, [spec[:-1] for spec in specs if spec.endswith("-")], "")

    def installed(self) -> dict[str, tuple[str, str]]:
        return {name: (version, "installed") for name, version in self.there.items()}


def resolve(fake: Fake, *wanted: Wanted, recorded: Sequence[str] = (), downgrade: bool = False) -> dict[str, str]:
    return resolve_cuda(CudaRequest(wanted, frozenset(recorded), "http://repo", downgrade), fake, fake.installed()).packages


def test_an_older_release_gets_its_own_parts() -> None:
    found = resolve(Fake(), Wanted("cuda-toolkit-12-8", "12.8.0"))
    assert found["cuda-nvcc-12-8"] == "12.8.61-1"
    assert found["cuda-compiler-12-8"] == "12.8.0-1"
    assert "libc6" not in found


def test_parts_that_toolkits_share_serve_the_newest() -> None:
    found = resolve(Fake(), Wanted("cuda-toolkit-12-8", "12.8.1"), Wanted("cuda-toolkit-12-4", "12.4.1"))
    assert found["cuda-toolkit-config-common"] == "12.8.90-1"
    have = Fake({"cuda-toolkit-config-common": "13.2.75-1"})
    resolve(have, Wanted("cuda-toolkit-12-8", "12.8.1"))
    assert not [spec for spec in have.asked if "config-common" in spec]


def test_what_is_right_already_asks_for_nothing() -> None:
    have = {"cuda-toolkit-12-4": "12.4.1-1", "cuda-nvcc-12-4": "12.4.131-1", "cuda-toolkit-config-common": "12.4.127-1"}
    fake = Fake(have)
    assert resolve(fake, Wanted("cuda-toolkit-12-4", "12.4.1"), recorded=list(have)) == have
    assert fake.asked == []


def test_packages_of_others_are_not_recorded_as_ours() -> None:
    fake = Fake({"cuda-toolkit-config-common": "12.8.90-1", "libc6": "2.36-9"})
    assert "cuda-toolkit-config-common" not in resolve(fake, Wanted("cuda-toolkit-12-8", "12.8.1"))


@pytest.mark.parametrize(("downgrade", "nvcc"), [(True, "12.8.61-1"), (False, "12.8.93-1")])
def test_parts_move_down_only_where_that_is_allowed(downgrade: bool, nvcc: str) -> None:
    have = Fake({"cuda-toolkit-12-8": "12.8.1-1", "cuda-compiler-12-8": "12.8.1-1", "cuda-nvcc-12-8": "12.8.93-1"})
    found = resolve(have, Wanted("cuda-toolkit-12-8", "12.8.0"), recorded=list(have.there), downgrade=downgrade)
    assert found["cuda-nvcc-12-8"] == nvcc


def test_what_would_bring_a_driver_is_refused() -> None:
    with pytest.raises(PackageError, match="cuda-drivers") as caught:
        resolve(Fake(), Wanted("cuda-toolkit-12-8", "12.8.1"), Wanted("cuda-runtime-12-8", ""))
    assert caught.value.reason == "would_install_driver"


def test_a_build_for_the_asked_major() -> None:
    assert resolve(Fake(), Wanted("libnccl2", "2.29.7", 12)) == {"libnccl2": "2.29.7-1+cuda12.9"}
    have = Fake({"libnccl2": "2.29.7-1+cuda13.0"})
    assert resolve(have, Wanted("libnccl2", "2.29.7", 12), recorded=["libnccl2"]) == {"libnccl2": "2.29.7-1+cuda12.9"}


def test_what_is_not_on_offer_is_named_with_what_is() -> None:
    with pytest.raises(PackageError, match=r"12\.8\.2 is not offered; on offer are 12\.8\.1-1, 12\.8\.0-1") as caught:
        resolve(Fake(), Wanted("cuda-toolkit-12-8", "12.8.2"))
    assert caught.value.reason == "not_available"
    with pytest.raises(PackageError, match="no repository of this host offers cuda-toolkit-11-8"):
        resolve(Fake(), Wanted("cuda-toolkit-11-8", "11.8.0"))


def test_another_repository_does_not_count() -> None:
    fake = Fake()
    with pytest.raises(PackageError):
        resolve_cuda(CudaRequest((Wanted("libnccl2", "2.29.7"),), frozenset(), "http://other"), fake, {})


def test_what_is_not_wanted_goes_with_its_parts_unless_someone_needs_them() -> None:
    fake = Fake({name: next(iter(REPOSITORY[name])) for name in ("cuda-toolkit-12-8", "cuda-compiler-12-8", "cuda-nvcc-12-8")})
    fake.there.update({"cuda-toolkit-12-4": "12.4.1-1", "cuda-nvcc-12-4": "12.4.131-1", "cuda-toolkit-config-common": "12.8.90-1"})
    ours = ["cuda-toolkit-12-8", "cuda-compiler-12-8", "cuda-nvcc-12-8", "cuda-toolkit-config-common"]
    assert needed_by_others(set(ours), fake.installed(), fake) == {"cuda-toolkit-config-common"}
    resolve(fake, recorded=ours)
    assert [spec for spec in fake.asked if spec.endswith("-")] == ["cuda-compiler-12-8-", "cuda-nvcc-12-8-", "cuda-toolkit-12-8-"]
