# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waves of a rollout: canaries first, then growing shares, never two replicas of a model at once. Pure; private to the collection."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass


@dataclass(frozen=True)
class Host:
    """A host as waves see it. `models`: what it serves; `domain`: what fails together with it, else the host itself."""

    name: str
    models: tuple[str, ...] = ()
    domain: str = ""


class WaveError(ValueError):
    """Input that makes no waves; the text names it and what is expected."""


def waves(hosts: t.Sequence[Host], canaries: int = 1, shares: t.Sequence[float] = (10, 50, 100)) -> list[list[str]]:
    """Host names by wave. `shares`: percent of all hosts that are done after each wave that follows the canaries.

    A wave has a host of a model only if no other host of that model is in it, unless all of them are in one failure domain and another
    domain serves the model too: hosts that fail together anyway may go together.
    """
    _check(hosts, canaries, shares)
    left = sorted(hosts, key=lambda host: (host.domain or host.name, host.name))
    out: list[list[str]] = []
    done = 0
    for goal in _goals(len(left), canaries, shares):
        while done < goal and left:
            wave = _pick(left, hosts, goal - done)
            out.append([host.name for host in wave])
            done += len(wave)
            left = [host for host in left if host not in wave]
    return out


def _check(hosts: t.Sequence[Host], canaries: int, shares: t.Sequence[float]) -> None:
    names = [host.name for host in hosts]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise WaveError(f"hosts has {', '.join(twice)} more than once; expected each host once")
    if canaries < 1:
        raise WaveError(f"canaries is {canaries}; expected at least 1")
    if not shares or list(shares) != sorted(set(shares)) or not shares[0] > 0 or shares[-1] != 100:
        raise WaveError(f"shares is {list(shares)}; expected rising percentages that end with 100, such as 10, 50, 100")


def _goals(count: int, canaries: int, shares: t.Sequence[float]) -> list[int]:
    """Hosts that are done after each step."""
    goals = [min(canaries, count)] + [math.ceil(count * share / 100) for share in shares]
    return [goal for number, goal in enumerate(goals) if goal > max([0, *goals[:number]])]


def _pick(left: t.Sequence[Host], hosts: t.Sequence[Host], room: int) -> list[Host]:
    """As many of `left`, in order, as may go at once."""
    wave: list[Host] = []
    for host in left:
        if len(wave) >= room:
            break
        if all(_together(host, other, hosts) for other in wave):
            wave.append(host)
    return wave


def _together(one: Host, other: Host, hosts: t.Sequence[Host]) -> bool:
    shared = set(one.models) & set(other.models)
    if not shared:
        return True
    if not one.domain or one.domain != other.domain:
        return False
    return all(any(model in host.models and host.domain != one.domain for host in hosts) for model in shared)
