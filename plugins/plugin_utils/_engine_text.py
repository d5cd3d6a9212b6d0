# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of an engine's configuration to parsed content and back. Pure.

Private to the collection. Reading is the standard library's alone (json, tomllib: a controller has Python 3.11 or newer).
Writing TOML that somebody else wrote, so that comments and order stay, is tomlkit's; it is asked for only when a TOML file must
be written. Whatever tomlkit gives is parsed again by tomllib and must equal the plain merge, or nothing is written.
"""

from __future__ import annotations

import json
import re
import typing as t

import tomllib

Tree = dict[str, t.Any]


class BrokenText(ValueError):
    """A configuration that its engine would not read either; the text names line and reason."""


class NeedsTomlkit(RuntimeError):
    """A TOML file must be written and the controller has no tomlkit."""


def parse_json(text: str) -> Tree:
    """An object; an empty file is an empty object. A key given twice is refused: rewriting would silently drop one of them."""
    if not text.strip():
        return {}
    try:
        tree = json.loads(text, object_pairs_hook=_no_twins)
    except json.JSONDecodeError as error:
        raise BrokenText(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise BrokenText("line 1: nested too deeply") from error
    except BrokenText:
        raise
    except ValueError as error:  # a number of thousands of digits
        raise BrokenText(f"line 1: {error}") from error
    if not isinstance(tree, dict):
        raise BrokenText(f"line 1: expected an object, found {type(tree).__name__}")
    return tree


def parse_toml(text: str) -> Tree:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        reason = re.sub(r" \(at .*\)$", "", str(error))
        where = f"line {place.group(1)}, column {place.group(2)}" if place else f"line {text.count(chr(10)) + 1} (end of file)"
        raise BrokenText(f"{where}: {reason}") from error
    except RecursionError as error:
        raise BrokenText("line 1: nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits, a date that there is not
        raise BrokenText(f"line 1: {error}") from error


def dump_json(tree: Tree, like: str = "") -> str:
    """Indented as `like` is."""
    found = re.search(r"\n([ \t]+)\"", like)
    return json.dumps(tree, indent=found.group(1) if found else "    ", ensure_ascii=False) + "\n"


def dump_toml(tree: Tree) -> str:
    """A file of our own."""
    text = t.cast(str, _tomlkit().dumps(tree))
    return _proven(text, tree)


def edit_toml(text: str, wanted: Tree) -> str:
    """`text` changed to mean `wanted`, with what did not change left as it was written."""
    document = _tomlkit().parse(text)
    _edit(document, parse_toml(text), wanted)
    return _proven(t.cast(str, _tomlkit().dumps(document)), wanted)


def _edit(node: t.Any, before: Tree, wanted: Tree) -> None:
    for key in [key for key in before if key not in wanted]:
        del node[key]
    for key, value in wanted.items():
        if key in before and before[key] == value:
            continue
        if isinstance(value, dict) and isinstance(before.get(key), dict):
            _edit(node[key], before[key], value)
        else:
            node[key] = value


def _proven(text: str, wanted: Tree) -> str:
    try:
        again = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BrokenText(f"the changed file would not be valid TOML ({error})") from error
    if again != wanted:
        raise BrokenText("the changed file would not mean what was planned")
    return text


def _tomlkit() -> t.Any:
    try:
        import tomlkit
    except ImportError as error:
        raise NeedsTomlkit("tomlkit") from error
    return tomlkit


def _no_twins(pairs: list[tuple[str, t.Any]]) -> Tree:
    tree: Tree = {}
    for key, value in pairs:
        if key in tree:
            raise BrokenText(f"the key {json.dumps(key)} is there twice in one object")
        tree[key] = value
    return tree
