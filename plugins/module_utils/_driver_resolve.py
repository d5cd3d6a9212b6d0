# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which exact packages make a driver set: one version for all of them, and nothing else touched. Private to the collection.

Pure but for the two questions it asks through its arguments: what is on offer, and what a transaction would do.
"""

from __future__ import annotations

import fnmatch
import re
import typing as t

from ._package_answers import PackageError, Simulation
from ._package_sets import driver_version, upstream

_PINNING = "nvidia-driver-pinning-"
_ROUNDS = 6
"""Simulations at most; each finds packages that a version has to be named for. Two are enough for the sets known today."""

Offers = t.Mapping[str, t.Sequence[tuple[str, str]]]


class Request(t.NamedTuple):
    """What is asked for; see the options of module driver_packages."""

    names: tuple[str, ...]
    same_version: tuple[str, ...]
    members: tuple[str, ...]
    not_members: tuple[str, ...]
    branch: int
    version: str
    from_url: str = ""
    """Only versions from this repository count; empty: from any."""
    downgrade: bool = False
    optional: tuple[str, ...] = ()
    """Come along where something offers them (kernel headers); neither held nor recorded."""
    offered: tuple[str, ...] = ()
    """Come along where something offers them in the driver's version; part of the set then."""
    unwanted: tuple[str, ...] = ()
    """Leave in the same transaction where they are installed: modules of the other kind."""

    def is_member(self, name: str) -> bool:
        return name in self.names or (_matches(name, self.members) and not _matches(name, self.not_members))


class Resolved(t.NamedTuple):
    """The transaction, fully named."""

    version: str
    packages: dict[str, str]
    """Packages of the set → exact version, those included that already are as they should be."""
    specs: list[str]
    """For the package manager: name=version, name- (remove)."""
    install: dict[str, str]
    remove: list[str]


def pick_version(request: Request, offers: Offers) -> str:
    """The asked version, or the newest of the branch that all packages of the set have. PackageError if there is none."""
    sets = {
        name: {upstream(version) for version, origin in offers.get(name, ()) if _from(request, origin)} for name in request.same_version
    }
    missing = sorted(name for name, versions in sets.items() if not versions)
    if missing:
        raise PackageError("not_available", f"no repository of this host offers {', '.join(missing)}")
    common = set.intersection(*sets.values()) if sets else set()
    fitting = {version for version in common if _fits(request, version)}
    if fitting:
        return max(fitting, key=_key)
    lists = "; ".join(f"{name}: {_listed(versions)}" for name, versions in sorted(sets.items()))
    wanted = request.version or f"branch {request.branch}"
    raise PackageError("not_available", f"driver {wanted} is not offered for all of the set. On offer are {lists}")


class Source(t.Protocol):
    """The questions; class Apt answers them."""

    def versions(self, names: t.Sequence[str]) -> Offers: ...

    def depends(self, specs: t.Mapping[str, str]) -> t.Mapping[str, t.Sequence[t.Sequence[str]]]: ...

    def simulate(self, specs: t.Sequence[str], downgrade: bool = False) -> Simulation: ...


def resolve(request: Request, source: Source, installed: t.Mapping[str, tuple[str, str]]) -> Resolved:
    """Name every package of the set exactly.

    A package manager takes the newest of what is not named: `=` dependencies then cannot be met, and metapackages, which ask for
    `>=`, bring a mixture of versions.
    """
    offers = dict(source.versions(request.names))
    unknown = sorted(name for name in request.names if name not in offers)
    if unknown:
        raise PackageError("not_available", f"no repository of this host offers {', '.join(unknown)}")
    version = pick_version(request, offers)
    present = [name for name in installed if request.is_member(name) and name not in request.unwanted]
    named = _named(request, dict.fromkeys([*request.names, *present]), {**offers, **source.versions(present)}, version)
    obsolete = _obsolete(request, present, named, installed)
    named = {**_successors(request, source, obsolete, version), **named}
    offered = [name for name in request.offered if name not in named]
    named.update({name: exact for name, exact in _named(request, offered, source.versions(offered), version).items() if exact})
    _add_dependencies(request, source, named, version)
    others = [
        *sorted(source.versions(request.optional)),
        *(f"{name}-" for name in dict.fromkeys((*obsolete, *request.unwanted)) if name in installed),
    ]
    for _round in range(_ROUNDS):
        specs = [f"{name}={exact}" if exact else name for name, exact in sorted(named.items())] + others
        outcome = source.simulate(specs, request.downgrade)
        pulled = [name for name in outcome.install if name not in named]
        more = {name: exact for name, exact in _named(request, pulled, source.versions(pulled), version).items() if exact}
        if not more:
            break
        named.update(more)
    if outcome.error:
        raise PackageError("unresolvable", f"the set cannot be installed: {outcome.error}")
    exact_set = {name: exact or outcome.install.get(name) or installed.get(name, ("", ""))[0] for name, exact in named.items()}
    exact_set.update({name: new for name, new in outcome.install.items() if request.is_member(name)})
    return Resolved(version, exact_set, specs, outcome.install, outcome.remove)


def _add_dependencies(request: Request, source: Source, named: dict[str, str], version: str) -> None:
    """Follow the dependencies of what is named, as long as they come in the driver's version. Of alternatives one is enough."""
    frontier = {name: exact for name, exact in named.items() if exact}
    while frontier:
        groups = [group for groups in source.depends(frontier).values() for group in groups if not set(group) & set(named)]
        names = sorted({name for group in groups for name in group})
        offered = {name: exact for name, exact in _named(request, names, source.versions(names), version).items() if exact}
        frontier = {}
        for group in groups:
            first = next((name for name in group if name in offered), None)
            if first and not set(group) & {*named, *frontier}:
                frontier[first] = offered[first]
        named.update(frontier)


def _matches(name: str, globs: t.Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def _named(request: Request, names: t.Iterable[str], offers: Offers, version: str) -> dict[str, str]:
    """name → exact package version. Packages with a version of their own are not pinned ('') and stay where they are if installed."""
    named = {}
    for name in names:
        exact = next((offer for offer, origin in offers.get(name, ()) if upstream(offer) == version and _from(request, origin)), "")
        if exact or name in request.names:
            named[name] = exact
    return named


def _obsolete(
    request: Request, present: t.Sequence[str], named: t.Mapping[str, str], installed: t.Mapping[str, tuple[str, str]]
) -> list[str]:
    """Packages of the old driver that the new one has no version of, and pins of other branches: they would stay behind."""
    old = driver_version({name: installed[name][0] for name in present})
    left = [name for name in present if name not in named and upstream(installed[name][0]) == old]
    return sorted(left + [name for name in installed if name.startswith(_PINNING) and name not in request.names])


def _successors(request: Request, source: Source, obsolete: t.Sequence[str], version: str) -> dict[str, str]:
    """nvidia-utils-580 goes on as nvidia-utils-595 or, from 590 on, as nvidia-utils: a renamed part is not a lost one."""
    branch = version.split(".")[0]
    renamed = {re.sub(r"-\d{3,4}(?=-|$)", new, name) for name in obsolete if not name.startswith(_PINNING) for new in ("", f"-{branch}")}
    wanted = sorted(renamed - {*obsolete})
    return {name: exact for name, exact in _named(request, wanted, source.versions(wanted), version).items() if exact}


def _from(request: Request, origin: str) -> bool:
    return not request.from_url or request.from_url.rstrip("/") in origin


def _fits(request: Request, version: str) -> bool:
    return version == request.version if request.version else version.split(".")[0] == str(request.branch)


def _key(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _listed(versions: t.Iterable[str]) -> str:
    newest = sorted(versions, key=_key, reverse=True)
    return ", ".join(newest[:6]) + (f" and {len(newest) - 6} older" if len(newest) > 6 else "")
