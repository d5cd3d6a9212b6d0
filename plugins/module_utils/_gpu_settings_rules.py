# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From options to canonical rules. Pure; private to the collection.

Three options make the rules: `power_limit` and `persistence` for every GPU, which a rule may override, and `rules`.
All that is wrong is returned at once, as problems that name the option, the value and what was expected.
"""

from __future__ import annotations

import difflib
import typing as t

from ._gpu_settings_values import LIMIT_FORMS, PARSERS, BadValue, power_limit, product, select

Rule = dict[str, t.Any]


class Problem(t.NamedTuple):
    """One thing that is wrong with the given settings; becomes a finding or a line of the module's failure."""

    id: str
    """Short name: bad_value, unknown_key, out_of_range, conflict …"""
    where: str
    """The option: gpu_power_rules[1].power_limit"""
    found: str
    needed: str
    text: str
    fix: str
    subject: str = ""
    """GPU, where it is about one."""
    nearest: t.Optional[str] = None
    severity: str = "block"


class Names(t.NamedTuple):
    """What the options are called where the person wrote them."""

    power_limit: str = "power_limit"
    persistence: str = "persistence"
    rules: str = "rules"


class Compiled(t.NamedTuple):
    """Canonical rules, where each came from, and problems."""

    rules: list[Rule]
    origins: list[str]
    problems: list[Problem]
    limit_map: bool
    """The power limit was given as a map of products."""


def bad_value(where: str, value: t.Any, exc: BadValue) -> Problem:
    hint = f" ({exc.hint})" if exc.hint else ""
    nearest = f"; did you mean {exc.nearest!r}?" if exc.nearest else ""
    text = f"{where} is {value!r}{hint}; expected {exc.expected}{nearest}"
    return Problem("bad_value", where, repr(value), exc.expected, text, f"Set {where} to {exc.expected}.", nearest=exc.nearest)


def unknown_key(where: str, key: t.Any, known: t.Iterable[str]) -> Problem:
    known = sorted(known)
    close = difflib.get_close_matches(str(key), known, n=1)
    needed = "one of " + ", ".join(known)
    nearest = close[0] if close else None
    text = f"{where} has the unknown key {key!r}; expected {needed}" + (f"; did you mean {nearest!r}?" if nearest else "")
    return Problem("unknown_key", where, repr(key), needed, text, "Remove the key or correct its name.", nearest=nearest)


def compile_rules(limit: t.Any, persistence: t.Any, rules: t.Any, names: t.Optional[Names] = None) -> Compiled:
    """Canonical rules of the three options; None and empty mean: not managed."""
    names = names or Names()
    out = Compiled([], [], [], isinstance(limit, dict) and bool(limit))
    if isinstance(limit, dict):
        for key, value in limit.items():
            where = f"{names.power_limit}[{str(key)!r}]"
            pattern = _parse(out, where, str(key).removeprefix("product:") if isinstance(key, (str, int)) else key, product)
            parsed = _parse(out, where, value, power_limit)
            if pattern is not None and parsed is not None:
                _add(out, where, {"select": f"product:{pattern}", "power_limit": parsed})
    elif isinstance(limit, (list, tuple)):
        out.problems.append(bad_value(names.power_limit, limit, BadValue(LIMIT_FORMS + ", or a map of product to one of these")))
    elif not _empty(limit):
        parsed = _parse(out, names.power_limit, limit, power_limit)
        if parsed is not None:
            _add(out, names.power_limit, {"select": "all", "power_limit": parsed})
    if not _empty(persistence):
        parsed = _parse(out, names.persistence, persistence, PARSERS["persistence"])
        if parsed is not None:
            _add(out, names.persistence, {"select": "all", "persistence": parsed})
    if isinstance(rules, (list, tuple)):
        for number, rule in enumerate(rules):
            _rule(out, f"{names.rules}[{number}]", rule)
    elif not _empty(rules):
        out.problems.append(bad_value(names.rules, rules, BadValue("a list of rules, each a mapping with select and settings")))
    return out


def _rule(out: Compiled, where: str, rule: t.Any) -> None:
    if not isinstance(rule, dict):
        out.problems.append(bad_value(where, rule, BadValue("a mapping with select and at least one setting")))
        return
    before = len(out.problems)
    out.problems.extend(unknown_key(where, key, ["select", *PARSERS]) for key in rule if key != "select" and key not in PARSERS)
    canonical: Rule = {}
    if rule.get("select") is None:
        out.problems.append(bad_value(f"{where}.select", None, BadValue("a selector", "a rule says which GPUs it is for", "all")))
    else:
        canonical["select"] = _parse(out, f"{where}.select", rule["select"], select)
    for key, parser in PARSERS.items():
        if not _empty(rule.get(key)):
            canonical[key] = _parse(out, f"{where}.{key}", rule[key], parser)
    if len(out.problems) > before:
        return
    if len(canonical) == 1:
        out.problems.append(bad_value(where, rule, BadValue("at least one of " + ", ".join(PARSERS), "it sets nothing")))
        return
    _add(out, where, canonical)


def _add(out: Compiled, where: str, rule: Rule) -> None:
    out.rules.append(rule)
    out.origins.append(where)


def _parse(out: Compiled, where: str, value: t.Any, parser: t.Callable[[t.Any], t.Any]) -> t.Any:
    try:
        return parser(value)
    except BadValue as exc:
        out.problems.append(bad_value(where, value, exc))
        return None


def _empty(value: t.Any) -> bool:
    return value is None or (not isinstance(value, (bool, int, float)) and len(value) == 0)
