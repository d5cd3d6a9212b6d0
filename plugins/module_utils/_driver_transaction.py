# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One package transaction of a set (the driver's, or CUDA's), from resolution to record. Private to the collection.

Before anything is changed: everything resolves, nothing outside the set goes, no foreign hold moves, all files are downloaded.
What is about to be done is recorded first, so that the next run knows an interrupted transaction as ours and finishes it.
"""

from __future__ import annotations

import contextlib
import typing as t

from ._dnf_streams import before_change, put_back
from ._driver_record import read_record, update_record
from ._driver_resolve import Resolved, resolve
from ._driver_rollback import keep_previous, previous_set, prove
from ._driver_steps import Done, forget_policy, heal, services_left_alone, set_holds, verify
from ._package_answers import PackageError
from ._package_files import forget, keep
from ._package_manager import PackageManager
from ._package_sets import driver_version, set_of

UNTOUCHED = ("locked", "disk_full", "repository_unreachable", "repository_inconsistent", "repository_signature", "unresolvable")
"""Causes of a failure that come before the first package is unpacked."""
STALE = ("repository_unreachable", "repository_inconsistent", "not_available", "unresolvable")
"""Causes that new package lists may take away."""


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
    returns: bool = False
    """Whether there is a way back: package files are kept, and automatic upgrades kept away."""
    make_room: t.Callable[[], t.Any] = lambda: None
    """Called once all is on the host and before anything moves: what the packages would mix with goes then."""
    stream: str = ""
    """dnf module stream of the packages, MODULE:STREAM: enabled with them; with a removal, one of ours that goes."""


def driver_ground() -> Ground:
    return Ground("the driver", lambda name: set_of(name) == "driver", resolve, read_record, update_record, True)


def change_packages(
    apt: PackageManager, request: Ask, source: str, hold: bool, check: bool, ground: t.Optional[Ground] = None, rollback: str = "none"
) -> Done:
    """Make the set what `request` asks for, in one transaction; the driver's unless said otherwise.

    `rollback`: best_effort | required | none, for the package files of the set that goes.
    """
    ground = ground or driver_ground()
    record = ground.read()
    ours = {*record["packages"], *(record.get("pending") or {})}
    if not check:
        heal(apt, ours, getattr(request, "unwanted", ()))
    resolved = _resolved(apt, request, check, ground)
    known = apt.installed()
    before = {name: version for name, (version, _status) in known.items() if request.is_member(name)}
    _refuse(apt, request, resolved, ours, set(record["holds"]), ground)
    moves = bool(resolved.install or resolved.remove)
    after = {**{name: version for name, version in before.items() if name not in resolved.remove}, **resolved.packages}
    if check:
        return Done(moves, resolved.version, before, after, apt.download_size(resolved.specs, request.downgrade) if moves else 0)
    previous = record.get("previous")
    if moves:
        _download(apt, request, resolved)
        if ground.returns:
            stream_before = before_change(ground.stream, record.get("module_stream")) if ground.stream else None
            going = previous_set(record, known, resolved.install, resolved.remove, resolved.version, stream_before)
            previous = keep_previous(apt, going, rollback)
            _keep_new(apt, resolved, rollback)
        elif before:
            previous = {"packages": record["packages"] or before, "source": record.get("source")}
        # New packages are new evidence: reboots for the old ones are forgotten.
        came_along = {name for name in resolved.install if name not in resolved.packages and name not in known}
        dependencies = sorted({*record.get("dependencies", ()), *came_along})
        begun = {"pending": resolved.packages, "dependencies": dependencies, "rebooted_for": None, "previous": previous}
        if ground.stream:
            begun["module_stream"] = ground.stream  # ours from the moment on at which it may be enabled
        _transact(apt, request, resolved, record, begun, ground)
    holds = set_holds(apt, hold, set(resolved.packages), set(record["holds"]))
    excluded = ground.returns and apt.exclude(resolved.packages if hold else ())
    wanted = {"packages": resolved.packages, "holds": sorted(holds), "source": source, "pending": None, "previous": previous}
    if moves and ground.returns:
        wanted["previous"] = prove(apt, previous, resolved.packages, rollback)
        if resolved.version != driver_version(record["packages"]):
            wanted["rolled_back"] = None
    recorded = ground.update(wanted)
    if moves and ground.returns:
        forget({resolved.version, (previous or {}).get("version", "")} if rollback != "none" else ())
    return Done(moves or recorded or excluded, resolved.version, before, resolved.packages)


def _keep_new(apt: PackageManager, resolved: Resolved, rollback: str) -> None:
    """The files of what comes are those that a later change can go back to. Without them that change fetches them, if it still can."""
    if rollback != "none":
        with contextlib.suppress(PackageError):
            keep(apt, resolved.packages, resolved.version)


def _transact(
    apt: PackageManager, request: Ask, resolved: Resolved, record: t.Mapping[str, t.Any], begun: t.Mapping[str, t.Any], ground: Ground
) -> None:
    ground.update(begun)
    ground.make_room()
    try:
        with services_left_alone():
            apt.install(resolved.specs, request.downgrade)
    except PackageError as exc:
        if exc.reason in UNTOUCHED:
            ground.update({name: record.get(name) for name in begun})
        raise
    verify(apt, resolved.packages)


def remove_packages(apt: PackageManager, names: t.Sequence[str], check: bool, ground: t.Optional[Ground] = None) -> Done:
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
    if not check:
        # Also where the packages are gone already: a run that was killed behind them left the rest.
        forget_policy()
        _remove_unneeded(apt, {*record.get("dependencies", ())})
    held = sorted(set(record["holds"]) & apt.holds())
    if not check:
        if ground.stream:
            put_back(ground.stream.partition(":")[0])
        apt.set_holds(remove=held)
        if ground.returns:
            apt.exclude(())
            forget()
        nothing = dict.fromkeys(("pending", "rebooted_for", "previous", "source", "dependencies", "rolled_back", "module_stream"))
        ground.update({"packages": {}, "holds": [], **nothing})
    return Done(bool(present or held), "", before, {})


def _remove_unneeded(apt: PackageManager, dependencies: set[str]) -> None:
    """What came along with the set, as far as nothing else needs it now."""
    unneeded = sorted({*apt.unneeded()} & dependencies) if dependencies else []
    if unneeded and set(apt.remove(unneeded, simulate=True).remove) <= {*unneeded}:
        with services_left_alone():
            apt.remove(unneeded)


def change_holds(apt: PackageManager, add: t.Sequence[str], lift: t.Sequence[str], hold: bool, check: bool) -> bool:
    """Holds and the exclusion from automatic upgrades alone, while no package moves."""
    holds = apt.holds()
    known = read_record()
    record = set(known["holds"])
    changed = bool(set(add) - holds or set(lift) & holds)
    if check:
        return changed
    apt.set_holds(add=set(add) - holds, remove=set(lift) & holds & record)
    update_record({"holds": sorted((record | (set(add) - holds)) - set(lift))})
    return apt.exclude(known["packages"] if hold else ()) or changed


def _resolved(apt: PackageManager, request: Ask, check: bool, ground: Ground) -> Resolved:
    """With the package lists as they are; only where they do not do, with new ones."""

    def attempt() -> Resolved:
        return ground.resolve(request, apt, apt.installed())

    try:
        return attempt()
    except PackageError as exc:
        if check or exc.reason not in STALE:
            raise
    apt.update()
    return attempt()


def _download(apt: PackageManager, request: Ask, resolved: Resolved) -> None:
    """Package lists may name a release that was withdrawn since: new lists, once."""
    try:
        apt.download(resolved.specs, request.downgrade)
    except PackageError as exc:
        if exc.reason not in STALE:
            raise
        apt.update()
        apt.download(resolved.specs, request.downgrade)


def _refuse(apt: PackageManager, request: Ask, resolved: Resolved, ours: set[str], own_holds: set[str], ground: Ground) -> None:
    others = sorted(name for name in resolved.remove if not request.is_member(name) and name not in ours and not ground.owns(name))
    if others:
        raise PackageError("would_remove", f"the transaction would remove {', '.join(others)}, which do not belong to {ground.title}")
    held = sorted((apt.holds() - own_holds) & {*resolved.install, *resolved.remove})
    if held:
        raise PackageError("foreign_hold", f"the transaction would move {', '.join(held)}, which someone else holds")
