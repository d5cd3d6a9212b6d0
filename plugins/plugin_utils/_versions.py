# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of drivers, toolkits and engines, compared as versions. Pure, memoised.

Private to the collection. One order serves all: 580.178.04, 13.0.2, 0.6.6.post1, 1.3.0rc17, and package versions such as
1:580.178.04-1ubuntu1 (epoch and package revision do not count).
"""

from __future__ import annotations

import re
import typing as t
from functools import lru_cache

Key = tuple[tuple[int, ...], int, int]

_SHAPE = re.compile(r"(?:\d+:)?v?(\d+(?:\.\d+)*)(?:[.-]?(dev|alpha|a|beta|b|rc|post)[.-]?(\d*))?", re.ASCII)
_PHASE = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "rc": -1, "post": 1}
_LOWEST: Key = ((), -9, 0)


@lru_cache(maxsize=8192)
def key(version: str) -> Key:
    """Sort key. Text that is no version sorts below every version."""
    match = _SHAPE.match(version.strip())
    if match is None:
        return _LOWEST
    numbers = tuple(int(part) for part in match[1].split("."))
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers = numbers[:-1]
    return numbers, _PHASE.get(match[2] or "", 0), int(match[3] or 0)


def is_version(text: str) -> bool:
    return key(text) != _LOWEST


@lru_cache(maxsize=8192)
def branch_of(driver: str) -> int | None:
    """580 of 580.178.04."""
    numbers = key(driver)[0]
    return numbers[0] if numbers else None


@lru_cache(maxsize=4096)
def minor_of(version: str) -> str | None:
    """13.0 of 13.0.2; None where no minor is given."""
    match = re.match(r"(\d+\.\d+)", version)
    return match[1] if match else None


@lru_cache(maxsize=4096)
def major_of(version: str) -> int | None:
    numbers = key(version)[0]
    return numbers[0] if numbers else None


def newest(versions: t.Iterable[str]) -> str | None:
    return max(versions, key=key, default=None)


def nearest(version: str, known: t.Iterable[str]) -> str | None:
    """The known version most like one that is not known: most leading numbers in common, then closest, rather older than newer."""
    wanted = key(version)

    def likeness(other: str) -> tuple[int, bool]:
        have = key(other)
        common = 0
        while common < min(len(have[0]), len(wanted[0])) and have[0][common] == wanted[0][common]:
            common += 1
        return common, have <= wanted

    versions = list(known)
    best = max(map(likeness, versions), default=None)
    alike = [other for other in versions if likeness(other) == best]
    return (max if best and best[1] else min)(alike, key=key, default=None)


_OPERATORS: dict[str, t.Callable[[Key, Key], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
}
_CLAUSE = re.compile(r"\s*(==|!=|>=|<=|>|<)\s*(\S+)\s*")


@lru_cache(maxsize=1024)
def _clauses(spec: str) -> tuple[tuple[str, Key], ...]:
    parsed = []
    for clause in spec.split(","):
        match = _CLAUSE.fullmatch(clause)
        if match is None:
            raise ValueError(f"{clause!r} is no comparison such as >=1.2")
        parsed.append((match[1], key(match[2])))
    return tuple(parsed)


@lru_cache(maxsize=8192)
def matches(version: str, spec: str) -> bool:
    """Whether a version meets all comparisons of a specification such as >=3.11,<3.15."""
    have = key(version)
    return all(_OPERATORS[operator](have, wanted) for operator, wanted in _clauses(spec))
