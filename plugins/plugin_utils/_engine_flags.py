# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments and environment of an engine instance against what that release of the engine knows. Pure.

Private to the collection. Interface, for the gate and for the engine roles:

    check_args(engine, version, args, env, matrix, name="chat", owned={"port": 8000}, unknown="block") -> findings

`args` is a mapping (max-model-len: 8192; dashes or underscores) or words of a command line. `owned`: flags whose value the role decides.
A release newer than the rows is judged by the newest that they know; what it does not know follows `unknown`.
"""

from __future__ import annotations

import re
import typing as t
from difflib import get_close_matches

from . import _engine_args, _engine_values
from ._contracts import Finding
from ._engine_args import Given
from ._engine_flag_rows import Table, table, within
from ._engine_hints import Hints, ended, starts
from ._matrix_engines import TITLE
from ._matrix_findings import finding

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

SECRET = re.compile(
    r"(^|[-_])(api[-_]key|hf[-_]token|password|secret(_access)?_key|auth_token)$|^HF_TOKEN$|^HUGGING_FACE_HUB_TOKEN$", re.IGNORECASE
)
Policy = t.Literal["warn", "block"]
BUILD = "tensorrt_llm_build"
"""Name in the rows of TensorRT-LLM's builder, whose options are judged like those of a server."""


def check_args(
    engine: str,
    version: str | None,
    args: t.Any,
    env: t.Any,
    matrix: Matrix,
    *,
    name: str = "",
    owned: t.Mapping[str, t.Any] | None = None,
    unknown: Policy = "block",
) -> list[Finding]:
    """All that is wrong with them, in the order in which they were given."""
    check = _Check(engine, version, matrix, name or engine, owned or {}, unknown)
    given = _engine_args.read(args, check.table, version)
    found = [item for one in given for item in check.argument(one)]
    return [*found, *check.twice(given), *(item for variable in env or () for item in check.variable(str(variable)))]


class _Check:
    def __init__(self, engine: str, version: str | None, matrix: Matrix, name: str, owned: t.Mapping[str, t.Any], unknown: Policy) -> None:
        self.version, self.name, self.owned = version, name, owned
        self.table: Table | None = table(matrix, engine)
        self.hints = Hints(matrix, engine, version, self.table)
        self.title = "trtllm-build" if engine == BUILD else TITLE.get(engine, engine)
        self.program = "build" if engine == BUILD else "server"
        self.what = f"{self.title} {version or 'of any version'}"
        # Names that a newer (or older) release than the rows' may well have.
        self.unknown: Policy = "block" if self.table and version and self.table.knows(version) else unknown

    def argument(self, given: Given) -> t.Iterator[Finding]:
        flag, version = given.flag, self.version
        never = self.hints.never(given.shown, given.value)
        if SECRET.search(given.name):
            yield self._secret(given.shown, "args")
        elif never:
            yield self._gone(never["item"], never, "args", "is in no release", self.hints.instead(never))
        elif flag is None:
            yield from self._unknown_flag(given)
        elif version and not within(version, flag.releases):
            yield from self._outside(given.shown, flag.releases or "", flag.row, "args")
        elif version and (expected := _engine_values.expected(flag, version, given.value) if "." not in given.name else None):
            yield self._value(given, expected)
        else:
            yield from self._old(given)
            yield from self._owned(given)

    def variable(self, name: str) -> t.Iterator[Finding]:
        """One name of env. Values are not judged: most are read as text and many are secrets."""
        if SECRET.search(name):
            yield self._secret(name, "env")
        elif self.table and name.startswith(self.table.prefixes or ("\0",)):
            known = self.table.variables.get(name)
            if known is None:
                row = self.hints.row(name)
                if row and row["kind"] in ("removed", "renamed", "never"):
                    yield self._gone(name, row, "env", _since(row), self.hints.instead(row))
                else:
                    yield self._unknown_variable(name, self.table)
            elif self.version and not within(self.version, known[0]):
                yield from self._outside(name, known[0], known[1], "env")

    def twice(self, given: t.Sequence[Given]) -> t.Iterator[Finding]:
        seen: dict[str, t.Any] = {}
        for one in given:
            if one.flag and one.name in seen and not one.flag.many and seen[one.name] != one.value:
                values = f"{seen[one.name]} and {one.value}"
                yield self._finding(
                    "value", "block", one.shown, f"{one.shown} is given twice: {values}.", "one value", None, "args", one.flag.row
                )
            seen.setdefault(one.name, one.value)

    def _outside(self, shown: str, releases: str, row: t.Any, where: str) -> t.Iterator[Finding]:
        if not self.version:
            raise AssertionError
        hint = self.hints.row(shown)
        since = ended(self.version, releases)
        if since:
            yield self._gone(shown, hint or row, where, f"was removed in {since}", self.hints.instead(hint) if hint else None)
        else:
            first = starts(self.version, releases)
            message = f"{shown} exists from {self.title} {first} on; {self.version} does not know it."
            yield self._finding("new", _weight(where), shown, message, f"{self.title} {first} or newer", None, where, row)

    def _gone(self, item: str, row: t.Any, where: str, when: str, instead: str | None) -> Finding:
        flag = where == "args"
        message = f"{item} {when} of {self.title}" + (f"; an unknown flag stops the {self.program}." if flag else "; it has no effect.")
        needed = f"{'arguments' if flag else 'variables'} that {self.what} knows"
        return self._finding("gone", _weight(where), item, message, needed, instead, where, row)

    def _unknown_flag(self, given: Given) -> t.Iterator[Finding]:
        row = self.hints.row(given.shown)
        if row and row["kind"] in ("removed", "renamed") and self.hints.applies(row):
            yield self._gone(given.shown, row, "args", _since(row), self.hints.instead(row))
        elif self.table:
            # Without a version, a flag that some release knew passes; this one none did.
            names = self.table.names(self.version) if self.version else list(self.table.flags)
            begun = [name for name in names if name.startswith(given.name)]
            close = begun if len(begun) == 1 else get_close_matches(given.name, names, n=1)
            nearest = f"--{close[0]}" if close else None
            row = list(self.table.flags.values())[0].row  # noqa: RUF015
            end = f"the {self.program} would take it for that one" if len(begun) == 1 else f"an unknown flag stops the {self.program}"
            message = f"{self.what} has no flag {given.shown}; {end}."
            yield self._finding("unknown", self.unknown, given.shown, message, f"a flag of {self.what}", nearest, "args", row)

    def _unknown_variable(self, name: str, known: Table) -> Finding:
        names = [other for other, (releases, _row) in known.variables.items() if not self.version or within(self.version, releases)]
        close = get_close_matches(name, names, n=1)
        row = list(known.variables.values())[0][1]  # noqa: RUF015
        message = f"{self.what} reads no variable {name}; it has no effect."
        return self._finding("unknown", "warn", name, message, f"a variable of {self.what}", close[0] if close else None, "env", row)

    def _value(self, given: Given, expected: str) -> Finding:
        if not given.flag:
            raise AssertionError
        if not self.version:
            raise AssertionError
        choices = given.flag.values(self.version)
        begun = [choice for choice in choices if choice.startswith(str(given.value))]
        close = begun or get_close_matches(str(given.value), choices, n=1, cutoff=0.4)
        message = f"{given.shown} of {self.what} is {given.value!r}; expected {expected}."
        return self._finding(
            "value", "block", f"{given.shown} {given.value}", message, expected, close[0] if close else None, "args", given.flag.row
        )

    def _old(self, given: Given) -> t.Iterator[Finding]:
        if not given.flag:
            raise AssertionError
        since, hint = given.flag.deprecated, self.hints.row(given.shown)
        if self.version and since and within(self.version, f">={since}"):
            message = f"{given.shown} is deprecated since {self.title} {since} and will go."
            instead = self.hints.instead(hint) if hint else None
            yield self._finding("deprecated", "warn", given.shown, message, "flags that stay", instead, "args", given.flag.row)

    def _owned(self, given: Given) -> t.Iterator[Finding]:
        ours = self.owned.get(given.name)
        if given.name in self.owned and not _same(ours, given.value):
            if not given.flag:
                raise AssertionError
            message = f"{given.shown} is set to {ours} from the instance itself; args want {given.value}."
            fix = f"Remove {given.shown} from args of {self.name}; the instance's own settings decide it."
            yield self._finding("owned", "block", given.shown, message, str(ours), None, "args", given.flag.row, fix)

    def _secret(self, shown: str, where: str) -> Finding:
        message = f"{shown} in {where} would show a secret in {'the process list' if where == 'args' else 'the unit and its environment'}."
        fix = f"Remove it from {where} of {self.name}; set api_key or hf_token of the instance, which reach the engine as files."
        needed = "secrets by api_key or hf_token"
        return finding("engine.argument_secret", "block", subject=self.name, found=shown, needed=needed, message=message, fix=fix)

    def _finding(
        self, kind: str, severity: Policy, shown: str, message: str, needed: str, nearest: str | None, where: str, row: t.Any, fix: str = ""
    ) -> Finding:
        remedy = (
            f"Remove it from {where} of {self.name}." if kind in ("gone", "unknown", "new") else f"Change it in {where} of {self.name}."
        )
        return finding(
            f"engine.argument_{kind}",
            severity,
            row=row,
            subject=self.name,
            found=f"{shown} with {self.what}",
            needed=needed,
            nearest=nearest,
            message=message,
            fix=fix or remedy + (f" Instead: {nearest}." if nearest else ""),
        )


def _weight(where: str) -> Policy:
    """A flag that is unknown stops the server; a variable is only without effect."""
    return "block" if where == "args" else "warn"


def _since(row: t.Any) -> str:
    return (
        f"was removed in {row['removed_in']}" if row.get("removed_in") else "is in no release" if row["kind"] == "never" else "was removed"
    )


def _same(ours: t.Any, theirs: t.Any) -> bool:
    def flat(value: t.Any) -> list[str]:
        return [str(item) for item in value] if isinstance(value, (list, tuple)) else [str(value)]

    return flat(ours) == flat(theirs)
