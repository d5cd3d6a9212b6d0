# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The set before this one: kept before it goes, and brought back exactly. Private to the collection.

The record's `previous` is the set to go back to, `rolled_back` what was left behind by going back: with it noted, going back
again has nothing to do.
"""

from __future__ import annotations

import typing as t

from ._dnf_streams import put_back
from ._driver_record import read_record, update_record
from ._driver_steps import Done, heal, services_left_alone, set_holds, verify
from ._package_answers import PackageError
from ._package_files import forget, keep, kept
from ._package_sets import driver_version, set_of

POLICIES = ("best_effort", "required", "none")


class Manager(t.Protocol):
    """What is asked of a package manager here; class Apt answers."""

    def installed(self) -> dict[str, tuple[str, str]]: ...

    def holds(self) -> set[str]: ...

    def set_holds(self, add: t.Iterable[str] = (), remove: t.Iterable[str] = ()) -> None: ...

    def exclude(self, names: t.Iterable[str]) -> bool: ...

    def configure(self) -> str: ...

    def fetch_files(self, specs: t.Mapping[str, str], folder: str) -> dict[str, str]: ...

    def install_files(self, paths: t.Sequence[str], downgrade: bool, remove: t.Sequence[str] = (), simulate: bool = False) -> t.Any: ...


def previous_set(
    record: t.Mapping[str, t.Any],
    installed: t.Mapping[str, tuple[str, str]],
    install: t.Iterable[str],
    remove: t.Iterable[str],
    version: str,
    stream_before: t.Optional[dict[str, t.Any]] = None,
) -> t.Optional[dict[str, t.Any]]:
    """What to go back to once `version` is there; None where there is nothing. `install`, `remove`: what the transaction will do;
    `stream_before`: the dnf module stream that it switches away from."""
    if record.get("pending"):
        # What is installed is half of an interrupted transaction; where it started from was noted when it began.
        return record.get("previous")
    going = {name for name in remove if set_of(name) == "driver"}
    names = {*record["packages"], *going, *(name for name in install if set_of(name) == "driver")}
    packages = {name: installed[name][0] for name in sorted(names) if name in installed}
    before = driver_version(packages)
    if not before:
        return None
    if before == version and not going:
        # A part more of the same driver is no other driver.
        return record.get("previous")
    stream = {"module_stream": stream_before} if stream_before else {}
    return {"packages": packages, "source": record.get("source") or "", "version": before, **stream}


def keep_previous(apt: Manager, previous: t.Optional[dict[str, t.Any]], policy: str) -> t.Optional[dict[str, t.Any]]:
    """The entry for the record: with `unavailable` where its files cannot be had. PackageError under policy `required`."""
    if not previous or policy == "none":
        return previous
    try:
        keep(apt, previous["packages"], previous["version"])
        return {name: value for name, value in previous.items() if name != "unavailable"}
    except PackageError as exc:
        return _unavailable(previous, str(exc), policy)


def prove(apt: Manager, previous: t.Optional[dict[str, t.Any]], packages: t.Mapping[str, str], policy: str) -> t.Optional[dict[str, t.Any]]:
    """After the change: would the way back be one transaction from the kept files alone?"""
    if not previous or policy == "none" or previous.get("unavailable"):
        return previous
    try:
        leaving = _leaving(apt, previous["packages"], packages)
        outcome = apt.install_files(_paths(previous, previous["packages"]), True, leaving, simulate=True)
    except PackageError as exc:
        return {**previous, "unavailable": str(exc)}
    stray = _strays(outcome.remove, previous["packages"], packages)
    why = outcome.error or (f"it would remove {', '.join(stray)}" if stray else "")
    return {**previous, "unavailable": why} if why else previous


def _unavailable(previous: dict[str, t.Any], why: str, policy: str) -> dict[str, t.Any]:
    if policy == "required":
        raise PackageError(
            "rollback_unavailable", f"driver {previous['version']} could not be brought back after the change: {why}. Nothing was changed"
        )
    return {**previous, "unavailable": why}


def roll_back(apt: Manager, hold: bool, check: bool) -> Done:
    """Bring back exactly the recorded set, in one transaction from its kept files."""
    record = read_record()
    previous = record.get("previous")
    if not previous:
        if record.get("rolled_back"):
            return Done(False, driver_version(record["packages"]) or "", dict(record["packages"]), dict(record["packages"]))
        raise PackageError("nothing_to_roll_back", "no earlier set of driver packages is recorded on this host")
    wanted: dict[str, str] = previous["packages"]
    ours = {*record["packages"], *(record.get("pending") or {})}
    if not check:
        heal(apt, {*ours, *wanted})
    installed = apt.installed()
    before = {name: installed[name][0] for name in sorted({*ours, *wanted}) if name in installed}
    going = _leaving(apt, wanted, dict.fromkeys(ours, ""))
    wrong = [name for name, version in wanted.items() if installed.get(name) != (version, "installed")]
    if wrong or going:
        paths = _paths(previous, wrong)
        _refuse(apt, paths, going, wanted, record)
        if check:
            return Done(True, previous["version"], before, wanted)
        update_record({"pending": wanted, "rebooted_for": None})
        with services_left_alone():
            apt.install_files(paths, True, going)
        verify(apt, wanted)
    elif check:
        return Done(True, previous["version"], before, wanted)
    stream = previous.get("module_stream") or {}
    if stream:
        put_back(stream["enabled"])
    holds = set_holds(apt, hold, set(wanted), set(record["holds"]))
    apt.exclude(wanted if hold else ())
    # After an interrupted upgrade that is what was on its way; after an interrupted rollback (pending: what is wanted here) what was there.
    pending = record.get("pending") or {}
    left = record["packages"] if not pending or pending == wanted else pending
    update_record(
        {
            "packages": wanted,
            "holds": sorted(holds),
            "source": previous.get("source") or record.get("source"),
            "pending": None,
            "previous": None,
            "rolled_back": {"version": driver_version(left) or "", "packages": left},
            **({"module_stream": stream["enabled"] if stream["ours"] else None} if stream else {}),
        }
    )
    forget([previous["version"]])
    return Done(True, previous["version"], before, wanted)


def _refuse(apt: Manager, paths: list[str], going: list[str], wanted: t.Mapping[str, str], record: t.Mapping[str, t.Any]) -> None:
    outcome = apt.install_files(paths, True, going, simulate=True)
    if outcome.error:
        raise PackageError("rollback_unavailable", f"the kept packages cannot be installed: {outcome.error}")
    stray = _strays(outcome.remove, wanted, dict.fromkeys(going, ""))
    if stray:
        raise PackageError("would_remove", f"the rollback would remove {', '.join(stray)}, which do not belong to the driver")
    held = sorted((apt.holds() - set(record["holds"])) & {*outcome.install, *outcome.remove})
    if held:
        raise PackageError("foreign_hold", f"the rollback would move {', '.join(held)}, which someone else holds")


def _paths(previous: t.Mapping[str, t.Any], names: t.Iterable[str]) -> list[str]:
    """Files of these packages; all of the set must be whole, since what is right now may be needed for the next attempt."""
    whole = kept(previous["packages"], previous["version"])
    return sorted(whole[name] for name in names)


def _leaving(apt: Manager, wanted: t.Mapping[str, str], now: t.Mapping[str, str]) -> list[str]:
    """Names of the present set that the wanted one has not: renamed parts, pins of the other branch."""
    installed = apt.installed()
    return sorted(name for name in now if name in installed and name not in wanted)


def _strays(removed: t.Iterable[str], wanted: t.Mapping[str, str], now: t.Mapping[str, str]) -> list[str]:
    return sorted(name for name in removed if name not in now and name not in wanted and set_of(name) != "driver")
