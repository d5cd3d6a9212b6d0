# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One package transaction of a set (the driver's, or CUDA's), from resolution to record. Private to the collection.

Before anything is changed: everything resolves, nothing outside the set goes, no foreign hold moves, all files are downloaded.
What is about to be done is recorded first, so that the next run knows an interrupted transaction as ours and finishes it.
"""

from __future__ import annotations

import contextlib
import os
import typing as t

from ._apt import Apt, PackageError
from ._driver_record import read_record, update_record
from ._driver_resolve import Resolved, resolve
from ._files import read_text, remove, write_text
from ._package_sets import set_of

POLICY = "/usr/sbin/policy-rc.d"
_POLICY_TEXT = "#!/bin/sh\n# gpufleet.inference: no package starts or restarts a service while the driver changes\nexit 101\n"
_RETRY = ("repository_unreachable", "repository_inconsistent", "not_available", "unresolvable")


class Done(t.NamedTuple):
    """Outcome of a transaction."""

    changed: bool
    version: str
    before: dict[str, str]
    after: dict[str, str]


class Ask(t.Protocol):
    """What is asked for; its fields are the component's own."""

    @property
    def downgrade(self) -> bool: ...

    def is_member(self, name: str) -> bool: ...


class Ground(t.NamedTuple):
    """A component's own rules for its transactions."""

    title: str
    owns: t.Callable[[str], bool]
    """Whether a package that nobody asked for may go with the set."""
    resolve: t.Callable[..., Resolved]
    read: t.Callable[[], dict[str, t.Any]]
    update: t.Callable[[t.Mapping[str, t.Any]], bool]
    make_room: t.Callable[[], t.Any] = lambda: None
    """Called once all is on the host and before anything moves: what the packages would mix with goes then."""


def driver_ground() -> Ground:
    return Ground("the driver", lambda name: set_of(name) == "driver", resolve, read_record, update_record)


def change_packages(apt: Apt, request: Ask, source: str, hold: bool, check: bool, ground: t.Optional[Ground] = None) -> Done:
    """Make the set what `request` asks for, in one transaction; the driver's unless said otherwise."""
    ground = ground or driver_ground()
    record = ground.read()
    ours = {*record["packages"], *(record.get("pending") or {})}
    if not check:
        heal(apt, ours)
    resolved = _resolved(apt, request, check, ground)
    known = apt.installed()
    before = {name: version for name, (version, _status) in known.items() if request.is_member(name)}
    _refuse(apt, request, resolved, ours, set(record["holds"]), ground)
    moves = bool(resolved.install or resolved.remove)
    if check:
        return Done(moves, resolved.version, before, {**before, **resolved.packages})
    if moves:
        _download(apt, request, resolved)
        # New packages are new evidence: reboots for the old ones are forgotten.
        came_along = {name for name in resolved.install if name not in resolved.packages and name not in known}
        dependencies = sorted({*record.get("dependencies", ()), *came_along})
        ground.update({"pending": resolved.packages, "dependencies": dependencies, "rebooted_for": None})
        ground.make_room()
        with services_left_alone():
            apt.install(resolved.specs, request.downgrade)
        _verify(apt, resolved)
    holds = _hold(apt, hold, set(resolved.packages), set(record["holds"]))
    previous = {"packages": record["packages"] or before, "source": record.get("source")} if moves and before else record.get("previous")
    recorded = ground.update(
        {"packages": resolved.packages, "holds": sorted(holds), "previous": previous, "source": source, "pending": None}
    )
    return Done(moves or recorded, resolved.version, before, resolved.packages)


def remove_packages(apt: Apt, names: t.Sequence[str], check: bool, ground: t.Optional[Ground] = None) -> Done:
    """Purge packages of ours, then what came with them and nothing else needs, and forget them."""
    ground = ground or driver_ground()
    record = ground.read()
    installed = apt.installed()
    present = [name for name in names if name in installed]
    before = {name: installed[name][0] for name in present}
    if present:
        going = apt.remove(present, simulate=True).remove
        others = sorted(name for name in going if name not in present and not ground.owns(name))
        if others:
            raise PackageError("would_remove", f"removing {ground.title} would also remove {', '.join(others)}")
        if not check:
            heal(apt, set(names))
            with services_left_alone():
                apt.remove(present)
                unneeded = sorted({*apt.unneeded()} & {*record.get("dependencies", ())})
                if unneeded and set(apt.remove(unneeded, simulate=True).remove) <= {*unneeded}:
                    apt.remove(unneeded)
    held = sorted(set(record["holds"]) & apt.holds())
    if not check:
        apt.set_holds(remove=held)
        nothing = dict.fromkeys(("pending", "rebooted_for", "previous", "source", "dependencies"))
        ground.update({"packages": {}, "holds": [], **nothing})
    return Done(bool(present or held), "", before, {})


def change_holds(apt: Apt, add: t.Sequence[str], lift: t.Sequence[str], check: bool) -> bool:
    """Holds alone, while no package moves."""
    holds = apt.holds()
    record = set(read_record()["holds"])
    changed = bool(set(add) - holds or set(lift) & holds)
    if not check:
        apt.set_holds(add=set(add) - holds, remove=set(lift) & holds & record)
        update_record({"holds": sorted((record | (set(add) - holds)) - set(lift))})
    return changed


def heal(apt: Apt, ours: set[str]) -> None:
    """Finish what an interrupted run left, if it is ours; what still fails then shows in the transaction itself."""
    if read_text(POLICY) == _POLICY_TEXT:
        remove(POLICY)
    broken = sorted(name for name, (_version, status) in apt.installed().items() if status != "installed")
    foreign = [name for name in broken if name not in ours]
    if foreign:
        raise PackageError("foreign_broken", f"packages of others are not fully configured: {', '.join(foreign)}")
    if broken:
        with services_left_alone():
            apt.configure()


@contextlib.contextmanager
def services_left_alone() -> t.Iterator[None]:
    """Maintainer scripts ask policy-rc.d before they touch a service. A file of the host's own is respected."""
    if read_text(POLICY) is not None:
        yield
        return
    write_text(POLICY, _POLICY_TEXT, mode=0o755)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(POLICY)


def _resolved(apt: Apt, request: Ask, check: bool, ground: Ground) -> Resolved:
    """With the package lists as they are; only where they do not do, with new ones."""

    def attempt() -> Resolved:
        return ground.resolve(request, apt, apt.installed())

    try:
        return attempt()
    except PackageError as exc:
        if check or exc.reason not in _RETRY:
            raise
    apt.update()
    return attempt()


def _download(apt: Apt, request: Ask, resolved: Resolved) -> None:
    """Package lists may name a release that was withdrawn since: new lists, once."""
    try:
        apt.download(resolved.specs, request.downgrade)
    except PackageError as exc:
        if exc.reason not in _RETRY:
            raise
        apt.update()
        apt.download(resolved.specs, request.downgrade)


def _refuse(apt: Apt, request: Ask, resolved: Resolved, ours: set[str], own_holds: set[str], ground: Ground) -> None:
    others = sorted(name for name in resolved.remove if not request.is_member(name) and name not in ours and not ground.owns(name))
    if others:
        raise PackageError("would_remove", f"the transaction would remove {', '.join(others)}, which do not belong to {ground.title}")
    held = sorted((apt.holds() - own_holds) & {*resolved.install, *resolved.remove})
    if held:
        raise PackageError("foreign_hold", f"the transaction would move {', '.join(held)}, which someone else holds")


def _verify(apt: Apt, resolved: Resolved) -> None:
    installed = apt.installed()
    wrong = [
        f"{name} is {' '.join(installed.get(name, ('absent',)))}, wanted {version}"
        for name, version in sorted(resolved.packages.items())
        if installed.get(name) != (version, "installed")
    ]
    if wrong:
        raise PackageError("dpkg_failed", f"after the transaction {'; '.join(wrong)}")


def _hold(apt: Apt, hold: bool, packages: set[str], own: set[str]) -> set[str]:
    """Set or lift; the holds that are ours afterwards. A foreign hold stays foreign."""
    held = apt.holds()
    if not hold:
        apt.set_holds(remove=own & held)
        return set()
    apt.set_holds(add=packages - held, remove=(own & held) - packages)
    return (own & packages) | (packages - held)
