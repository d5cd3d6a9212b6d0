# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which exact packages make the wanted toolkits and libraries. Private to the collection.

cuda-toolkit-12-8=12.8.0-1 asks for its parts with ">=", so alone it would bring the parts of 12.8.1. The lower bound *is* the
part's version in that release: each part is named with it. Pure but for the questions it asks through its arguments.
"""

from __future__ import annotations

import re
import typing as t

from ._driver_resolve import Resolved
from ._package_answers import PackageError, Simulation
from ._package_sets import set_of, upstream

Offers = t.Mapping[str, t.Sequence[tuple[str, str]]]
Installed = t.Mapping[str, tuple[str, str]]

_OF_ONE_MINOR = re.compile(r"-\d+-\d+(-|$)")
"""cuda-nvcc-12-8, cuda-toolkit-12-8-config-common; what all toolkits share has no minor in its name."""
_LEVELS = 8
"""Depth of the metapackages at most; NVIDIA's are four levels deep."""


class Source(t.Protocol):
    """The questions; class Apt answers them."""

    def versions(self, names: t.Sequence[str]) -> Offers: ...

    def lower_bounds(self, specs: t.Mapping[str, str]) -> t.Mapping[str, t.Mapping[str, str]]: ...

    def simulate(self, specs: t.Sequence[str], downgrade: bool = False) -> Simulation: ...


class Wanted(t.NamedTuple):
    """One package that is asked for."""

    name: str
    version: str
    """Of the software, without packaging revision; empty: what is installed, else the newest on offer."""
    cuda_major: int = 0
    """Only builds for this CUDA major (libnccl2 2.29.7-1+cuda13.0); 0: the name says it."""


class CudaRequest(t.NamedTuple):
    """What is asked for, and what was put there before."""

    wanted: tuple[Wanted, ...]
    recorded: frozenset[str] = frozenset()
    from_url: str = ""
    downgrade: bool = False

    def is_member(self, name: str) -> bool:
        return name in self.recorded or any(name == one.name for one in self.wanted)


def resolve_cuda(request: CudaRequest, source: Source, installed: Installed) -> Resolved:
    """Name everything exactly, drop what was ours and is not wanted any more, and refuse what would bring a driver."""
    offers = source.versions([one.name for one in request.wanted])
    named = {one.name: _exact(one, offers, installed, request.from_url) for one in request.wanted}
    asked, level = set(named), dict(named)
    for _depth in range(_LEVELS):
        # A part that an earlier level asked for in a lower version is looked at again.
        bounds = {
            name: bound
            for name, bound in _bounds(level, source).items()
            if name not in named or (name not in asked and version_key(named[name]) < version_key(bound))
        }
        found = source.versions(list(bounds))
        level = {name: _part(name, bound, found.get(name, ()), installed, request) for name, bound in bounds.items()}
        named.update(level)
        if not level:
            break
    others = needed_by_others(request.recorded, installed, source)
    dropped = sorted(name for name in request.recorded if name in installed and name not in named and name not in others)
    moving = sorted(f"{name}={version}" for name, version in named.items() if version and installed.get(name) != (version, "installed"))
    if not moving and not dropped:
        return Resolved("", {name: version for name, version in named.items() if version and name in request.recorded}, [], {}, [])
    specs = ["--purge", *moving, *(f"{name}-" for name in dropped)]
    outcome = source.simulate(specs, request.downgrade)
    if outcome.error:
        raise PackageError("unresolvable", f"the packages cannot be installed: {outcome.error}")
    _refuse_driver(outcome.install, installed)
    packages = {name: version or installed.get(name, ("", ""))[0] for name, version in named.items()}
    packages.update({name: version for name, version in outcome.install.items() if set_of(name) == "cuda"})
    ours = {name: version for name, version in packages.items() if version and (name in request.recorded or name not in installed)}
    return Resolved("", ours, specs, outcome.install, outcome.remove)


def _exact(one: Wanted, offers: Offers, installed: Installed, from_url: str) -> str:
    """The package version that carries the wanted version; PackageError names what is on offer instead."""
    there = installed.get(one.name, ("", ""))[0]
    if there and (not one.version or upstream(there) == one.version) and _built_for(there, one.cuda_major):
        return there
    listed = [version for version, origin in offers.get(one.name, ()) if not from_url or from_url.rstrip("/") in origin]
    fitting = [version for version in listed if _built_for(version, one.cuda_major) and one.version in ("", upstream(version))]
    if fitting:
        return fitting[0]
    what = f"{one.name} {one.version}" + (f" for CUDA {one.cuda_major}" if one.cuda_major else "")
    if not listed:
        raise PackageError("not_available", f"no repository of this host offers {one.name}")
    raise PackageError("not_available", f"{what} is not offered; on offer are {', '.join(listed[:8])}")


def _built_for(version: str, cuda_major: int) -> bool:
    built = re.search(r"\+cuda(\d+)", version)
    return not cuda_major or built is None or int(built.group(1)) == cuda_major


def _bounds(level: t.Mapping[str, str], source: Source) -> dict[str, str]:
    """CUDA packages that this level asks for, with the highest of the lower bounds."""
    bounds: dict[str, str] = {}
    for wanted in source.lower_bounds({name: version for name, version in level.items() if version}).values():
        for name, bound in wanted.items():
            if set_of(name) == "cuda":
                bounds[name] = max(bounds.get(name, ""), bound, key=version_key)
    return bounds


def _part(name: str, bound: str, offers: t.Sequence[tuple[str, str]], installed: Installed, request: CudaRequest) -> str:
    """A part's version: the bound itself where it is on offer; '' leaves the choice to the package manager.

    What is installed and good enough stays: parts that toolkits share serve all of them, and a newer part of this minor moves
    down only where that is allowed.
    """
    there = installed.get(name, ("", ""))[0]
    enough = bool(there) and version_key(there) >= version_key(bound)
    if enough and (not _OF_ONE_MINOR.search(name) or not request.downgrade or not bound):
        return there
    listed = sorted((version for version, _origin in offers if version_key(version) >= version_key(bound)), key=version_key)
    exact = next((version for version in listed if upstream(version) == upstream(bound)), "")
    return exact or (listed[0] if listed and bound else "")


def needed_by_others(ours: t.AbstractSet[str], installed: Installed, source: Source) -> set[str]:
    """Parts of ours that CUDA packages of others have come to need: a toolkit that a person installed since shares them."""
    needed: set[str] = set()
    level = {name: version for name, (version, _status) in installed.items() if set_of(name) == "cuda" and name not in ours}
    while level:
        found = {name for wanted in source.lower_bounds(level).values() for name in wanted if name in ours and name in installed} - needed
        needed |= found
        level = {name: installed[name][0] for name in found}
    return needed


def _refuse_driver(install: t.Mapping[str, str], installed: Installed) -> None:
    drivers = sorted(name for name in install if set_of(name) == "driver")
    if drivers:
        verb = "change" if any(name in installed for name in drivers) else "install"
        raise PackageError("would_install_driver", f"the transaction would {verb} driver packages: {', '.join(drivers)}")


def version_key(version: str) -> list[int]:
    """Good for comparing versions of one package of NVIDIA's: numbers, in order."""
    return [int(number) for number in re.findall(r"\d+", version)]
