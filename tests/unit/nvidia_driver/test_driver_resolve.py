# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact packages of a driver set: one version for all, or a named refusal. The package manager is a table here."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._apt import PackageError, Simulation
from ansible_collections.gpufleet.inference.plugins.module_utils._driver_resolve import Request, pick_version, resolve

NVIDIA, DEBIAN = "http://mirror/cuda/repos/debian12/x86_64  Packages", "http://deb.debian.org/debian bookworm/non-free amd64 Packages"


class Table:
    """Offers and dependencies as data; the simulation installs what is named and, unnamed, the newest of what that needs."""

    def __init__(self, offers: dict[str, list[tuple[str, str]]], depends: dict[str, list[list[str]]] | None = None) -> None:
        self.offers, self.needs = offers, depends or {}
        self.simulated: list[list[str]] = []

    def versions(self, names: t.Sequence[str]) -> dict[str, list[tuple[str, str]]]:
        return {name: self.offers[name] for name in names if name in self.offers}

    def depends(self, specs: t.Mapping[str, str]) -> dict[str, list[list[str]]]:
        return {name: self.needs.get(name, []) for name in specs}

    def simulate(self, specs: t.Sequence[str], downgrade: bool = False) -> Simulation:
        self.simulated.append(list(specs))
        named = dict(spec.partition("=")[::2] for spec in specs if not spec.endswith("-"))
        install = {name: version or self.offers[name][0][0] for name, version in named.items()}
        for name in list(install):
            for group in self.needs.get(name, []):
                if not set(group) & set(install) and group[0] in self.offers:
                    install[group[0]] = self.offers[group[0]][0][0]
        return Simulation(install, [spec[:-1] for spec in specs if spec.endswith("-")], "")


def table(*versions: str, revision: str = "-1") -> Table:
    offered = [(version + revision, NVIDIA) for version in versions]
    return Table(
        {
            "nvidia-driver-cuda": offered,
            "nvidia-kernel-open-dkms": offered,
            "libnvidia-ml1": [*offered, ("535.309.01-1~deb12u1", DEBIAN)],
            "nvidia-kernel-dkms": offered,
            "dkms": [("3.0.10-8", DEBIAN)],
        },
        {
            "nvidia-driver-cuda": [["libnvidia-ml1"], ["nvidia-kernel-dkms", "nvidia-kernel-open-dkms"], ["libc6"]],
            "nvidia-kernel-open-dkms": [["dkms"]],
        },
    )


def request(**changes: t.Any) -> Request:
    names = ("nvidia-driver-cuda", "nvidia-kernel-open-dkms")
    values: dict[str, t.Any] = {
        "names": names,
        "same_version": names,
        "members": ("nvidia-*", "libnvidia-*"),
        "not_members": ("libnvidia-container*",),
        "branch": 580,
        "version": "",
        "from_url": "http://mirror/cuda/repos/debian12/x86_64/",
    }
    return Request(**{**values, **changes})


def test_newest_of_the_branch_is_compared_as_a_version() -> None:
    assert pick_version(request(), table("580.95.05", "580.105.08", "595.45.04").offers) == "580.105.08"


def test_only_a_version_that_all_packages_have_counts() -> None:
    offers = table("580.105.08", "580.95.05").offers
    offers["nvidia-kernel-open-dkms"] = [("580.95.05-1", NVIDIA)]
    assert pick_version(request(), offers) == "580.95.05"


def test_dependencies_are_named_at_the_same_version_and_others_are_left_to_the_package_manager() -> None:
    source = table("595.45.04", "580.105.08")
    resolved = resolve(request(version="580.105.08"), source, {})
    assert resolved.version == "580.105.08"
    assert resolved.packages == {
        "libnvidia-ml1": "580.105.08-1",
        "nvidia-driver-cuda": "580.105.08-1",
        "nvidia-kernel-open-dkms": "580.105.08-1",
    }
    assert resolved.install["dkms"] == "3.0.10-8"
    assert "dkms" not in resolved.packages


def test_dependency_that_is_not_named_would_come_in_the_newest_version_and_not_fit() -> None:
    source = table("595.45.04", "580.105.08")
    lenient = source.simulate

    def strict(specs: t.Sequence[str], downgrade: bool = False) -> Simulation:
        outcome = lenient(specs, downgrade)
        mixed = outcome.install.get("libnvidia-ml1") != outcome.install["nvidia-driver-cuda"]
        return outcome._replace(
            error="libnvidia-ml1 (= 580.105.08-1) but 595.45.04-1 is to be installed" if mixed else "",
            install={} if mixed else outcome.install,
        )

    source.simulate = strict  # type: ignore[method-assign]
    assert resolve(request(version="580.105.08"), source, {}).packages["libnvidia-ml1"] == "580.105.08-1"


def test_exceptions_are_no_members() -> None:
    assert request().is_member("libnvidia-ml1")
    assert not request().is_member("libnvidia-container1")


def test_alternative_that_is_already_asked_for_wins() -> None:
    resolved = resolve(request(version="580.105.08"), table("580.105.08"), {})
    assert "nvidia-kernel-dkms" not in resolved.packages


def test_epoch_and_revision_do_not_matter_for_the_version() -> None:
    source = table("580.105.08", revision="-0ubuntu1")
    assert resolve(request(version="580.105.08"), source, {}).packages["nvidia-driver-cuda"] == "580.105.08-0ubuntu1"


def test_version_that_nobody_offers_is_refused_with_what_is_on_offer() -> None:
    with pytest.raises(
        PackageError, match=r"driver 580\.1\.1 is not offered for all of the set\. On offer are nvidia-driver-cuda: 595\.45\.04"
    ) as error:
        resolve(request(version="580.1.1"), table("595.45.04"), {})
    assert error.value.reason == "not_available"


def test_name_that_nobody_offers_is_refused() -> None:
    with pytest.raises(PackageError, match="no repository of this host offers nvidia-nonsense"):
        resolve(request(names=("nvidia-driver-cuda", "nvidia-nonsense")), table("580.105.08"), {})


def test_versions_of_other_repositories_do_not_count() -> None:
    source = table("580.105.08")
    for name in ("nvidia-driver-cuda", "nvidia-kernel-open-dkms"):
        source.offers[name] = [("580.178.04-1", DEBIAN), ("580.105.08-1", NVIDIA)]
    assert resolve(request(), source, {}).version == "580.105.08"


def test_repository_address_is_matched_with_or_without_slash() -> None:
    assert resolve(request(from_url="http://mirror/cuda/repos/debian12/x86_64"), table("580.105.08"), {}).version == "580.105.08"


def test_installed_members_move_along_and_those_without_the_version_go() -> None:
    source = table("580.105.08")
    source.offers["nvidia-settings"] = [("580.105.08-1", NVIDIA)]
    installed = {
        "nvidia-settings": ("570.133.20-1", "installed"),
        "libnvidia-ml1": ("570.133.20-1", "installed"),
        "nvidia-fabricmanager-570": ("570.133.20-1", "installed"),
        "nvidia-xconfig": ("1.2-3", "installed"),
        "libnvidia-container1": ("1.18.0-1", "installed"),
        "nvidia-driver-pinning-570": ("570-1", "installed"),
    }
    resolved = resolve(request(), source, installed)
    assert resolved.packages["nvidia-settings"] == "580.105.08-1"
    assert resolved.remove == ["nvidia-driver-pinning-570", "nvidia-fabricmanager-570"]


@pytest.mark.parametrize("successor", ["nvidia-utils", "nvidia-utils-580"])
def test_renamed_part_of_the_set_is_kept_under_its_new_name(successor: str) -> None:
    source = table("580.105.08")
    source.offers[successor] = [("580.105.08-1", NVIDIA)]
    resolved = resolve(
        request(), source, {"nvidia-utils-570": ("570.133.20-1", "installed"), "libnvidia-ml1": ("570.133.20-1", "installed")}
    )
    assert resolved.packages[successor] == "580.105.08-1"
    assert resolved.remove == ["nvidia-utils-570"]


def test_package_with_a_version_of_its_own_is_not_pinned() -> None:
    source = table("580.105.08")
    source.offers["infiniband-diags"] = [("44.0-2", DEBIAN)]
    names = ("nvidia-driver-cuda", "nvidia-kernel-open-dkms", "infiniband-diags")
    resolved = resolve(request(names=names), source, {})
    assert "infiniband-diags" in source.simulated[-1]
    assert resolved.packages["infiniband-diags"] == "44.0-2"


def test_optional_packages_come_along_where_they_are_offered() -> None:
    source = table("580.105.08")
    source.offers["linux-headers-6.1.0-57-amd64"] = [("6.1.150-1", DEBIAN)]
    resolved = resolve(request(optional=("linux-headers-6.1.0-57-amd64", "linux-headers-6.18.0-other")), source, {})
    assert resolved.install["linux-headers-6.1.0-57-amd64"] == "6.1.150-1"
    assert [name for name in resolved.packages if name.startswith("linux")] == []
    assert [spec for spec in resolved.specs if spec.startswith("linux")] == ["linux-headers-6.1.0-57-amd64"]


def test_refusal_of_the_package_manager_is_passed_on() -> None:
    source = table("580.105.08")
    source.simulate = lambda specs, downgrade=False: Simulation({}, [], "E: held broken packages")  # type: ignore[method-assign]
    with pytest.raises(PackageError, match="the set cannot be installed: E: held broken packages") as error:
        resolve(request(), source, {})
    assert error.value.reason == "unresolvable"


def test_tools_come_along_only_where_they_are_offered_in_the_drivers_version() -> None:
    source = table("580.159.04")
    source.offers["nvidia-utils"] = [("580.159.04-1", NVIDIA)]
    source.offers["nvidia-modprobe"] = [("580.65.06-1", NVIDIA)]
    wanted = request(offered=("nvidia-utils", "nvidia-modprobe", "nvidia-compute-utils"))
    packages = resolve(wanted, source, {}).packages
    assert packages["nvidia-utils"] == "580.159.04-1"
    assert not {"nvidia-modprobe", "nvidia-compute-utils"} & set(packages)
