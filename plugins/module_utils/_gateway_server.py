# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Desired administrative state of servers on one gateway: marked in the file, told to HAProxy, read back. Private to the collection.

A mark is written before HAProxy is told, and lifted after: a run that is killed anywhere leaves a mark that its next run knows as its own.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import time
import typing as t
from contextlib import contextmanager
from dataclasses import dataclass, field

from ._errors import HostError
from ._files import read_text
from ._gateway_floor import refusals
from ._gateway_marks import Mark, read_marks, write_marks
from ._haproxy_socket import ask
from ._haproxy_state import admin_state, parse

_ACKNOWLEDGE = 10.0
_TRIES = 4
NOBODY = "somebody at HAProxy's socket"


@dataclass(frozen=True)
class Wish:
    """What is asked for; `host` means all its instances."""

    state: str
    host: str
    owner: str
    reason: str
    run_id: str
    domains_max: int = 1


@dataclass(frozen=True)
class Where:
    marks: str
    pools: str
    socket: str
    lock: str


@dataclass
class Outcome:
    """`foreign`: servers that somebody else has taken out, with who and why; `adopted`: marks of an earlier run of ours."""

    changed: bool = False
    servers: list[str] = field(default_factory=list)
    foreign: dict[str, str] = field(default_factory=dict)
    adopted: list[str] = field(default_factory=list)
    running: bool = True


def settle(wish: Wish, where: Where, check: bool = False) -> Outcome:
    """Make it so; HostError with the numbers where a floor forbids it, with nothing changed."""
    with _alone(where.lock):
        groups = _groups(where.pools)
        servers = sorted({name for group in groups.values() for name in group["servers"] if name.rpartition("_")[0] == wish.host})
        if not servers:
            known = sorted({name.rpartition("_")[0] for group in groups.values() for name in group["servers"]})
            raise HostError(f"host is {wish.host!r}; expected a host behind this gateway: {', '.join(known) or 'there is none'}")
        marks, rows = read_marks(where.marks), _rows(where.socket)
        outcome = Outcome(running=rows is not None)
        free = [name for name in servers if not _foreign(name, wish, marks, rows or [], outcome)]
        outcome.servers = free
        outcome.adopted = [name for name in free if name in marks and marks[name]["run_id"] != wish.run_id]
        if wish.state != "ready":
            out = {name for name, mark in marks.items() if mark["state"] != "ready"} | set(outcome.foreign)
            # Without a process nothing serves here; the gateways that run judge.
            why = refusals(groups, rows, [name for name in free if name not in out], out, wish.domains_max) if rows is not None else []
            if why:
                raise HostError(f"{wish.host} must not go to {wish.state} now. {'; '.join(why)}. Nothing was changed.")
        _change(wish, where, marks, rows or [], free, outcome, check)
        return outcome


def _change(
    wish: Wish, where: Where, marks: dict[str, Mark], rows: list[dict[str, str]], free: list[str], outcome: Outcome, check: bool
) -> None:
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    wanted = dict(marks)
    for name in free:
        known = marks.get(name)
        if wish.state == "ready" and known is None:
            continue
        since = known["since"] if known and known["state"] == wish.state else now
        wanted[name] = {"state": wish.state, "owner": wish.owner, "reason": wish.reason, "run_id": wish.run_id, "since": since}
    differ = [row for row in rows if row["srv_name"] in free and admin_state(row) != wish.state]
    lifted = {name: mark for name, mark in wanted.items() if name not in free or wish.state != "ready"}
    outcome.changed = bool(differ) or lifted != marks
    if check or not outcome.changed:
        return
    write_marks(wanted, where.marks)
    for row in differ:
        ask(where.socket, f"set server {row['be_name']}/{row['srv_name']} state {wish.state}")
    _acknowledged(wish, where, free, outcome)
    write_marks(lifted, where.marks)


def _acknowledged(wish: Wish, where: Where, free: list[str], outcome: Outcome) -> None:
    deadline = time.monotonic() + _ACKNOWLEDGE
    while outcome.running:
        late = sorted({row["srv_name"] for row in _rows(where.socket) or [] if row["srv_name"] in free and admin_state(row) != wish.state})
        if not late:
            return
        if time.monotonic() > deadline:
            raise HostError(f"HAProxy took the command, but {', '.join(late)} did not become {wish.state}; the mark stays")
        time.sleep(0.1)


def sessions(socket: str, servers: t.Collection[str]) -> int:
    """Requests that these servers work on."""
    lines = ask(socket, "show stat").splitlines()
    names = lines[0].lstrip("# ").split(",")
    rows = (dict(zip(names, line.split(","))) for line in lines[1:])
    return sum(int(row.get("scur") or 0) for row in rows if row.get("svname") in servers)


def _foreign(name: str, wish: Wish, marks: dict[str, Mark], rows: list[dict[str, str]], outcome: Outcome) -> bool:
    """Whether somebody else keeps it out; noted in the outcome."""
    mark = marks.get(name)
    if mark is not None:
        if mark["owner"] == wish.owner:
            return False
        outcome.foreign[name] = f"{mark['state']} by {mark['owner']} since {mark['since']}: {mark['reason']}"
        return True
    states = {admin_state(row) for row in rows if row["srv_name"] == name} - {"ready"}
    if states:
        outcome.foreign[name] = f"{sorted(states)[0]} by {NOBODY}"
    return bool(states)


def _rows(socket: str) -> t.Optional[list[dict[str, str]]]:
    """None where no HAProxy runs: the marks hold from its next start."""
    for attempt in range(_TRIES):
        if not os.path.exists(socket):
            return None
        try:
            return parse(ask(socket, "show servers state"))
        except HostError as exc:
            if "nothing listens" in str(exc):
                return None
            # A process that is just ending resets the connection; the next look finds it gone, or its successor.
            if attempt == _TRIES - 1:
                raise
        time.sleep(0.3)
    return None


def _groups(path: str) -> dict[str, t.Any]:
    text = read_text(path)
    if text is None:
        raise HostError(f"{path} does not exist: this host is no gateway of role gpu_gateway")
    try:
        groups = json.loads(text)["groups"]
        return {str(name): {"floor": int(group["floor"]), "servers": dict(group["servers"])} for name, group in groups.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise HostError(f"{path} cannot be used ({exc}); role gpu_gateway writes it") from exc


@contextmanager
def _alone(path: str) -> t.Iterator[None]:
    """Two runs at once would read the same marks and write one over the other."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        handle = open(path, "w", encoding="utf-8")  # noqa: SIM115 - held by the block
    except OSError as exc:
        raise HostError(f"cannot write {path}: {exc.strerror}; root is needed") from exc
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
