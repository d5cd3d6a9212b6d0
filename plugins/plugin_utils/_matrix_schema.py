# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check of overlay rows against schemas/matrix.schema.json, with messages that name the nearest known key. Pure.

Private to the collection. Controllers need no jsonschema for it: the schema uses few keywords, and a test proves that this reader
and jsonschema agree.
"""

from __future__ import annotations

import difflib
import re
import typing as t

Schema = t.Mapping[str, t.Any]

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
}


def problems(value: t.Any, schema: Schema, root: Schema, path: str = "") -> t.Iterator[tuple[str, str]]:
    """Pairs of key path and what is wrong there."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if not _type_fits(value, schema.get("type")):
        yield path, f"{value!r} is not {_article(schema['type'])}{_hint(value, schema['type'])}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield path, f"{value!r} is none of {', '.join(map(str, schema['enum']))}{near(value, schema['enum'])}"
    if isinstance(value, str):
        yield from _text(value, schema, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _number(value, schema, path)
    elif isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield path, "must not be empty"
        for index, item in enumerate(value):
            yield from problems(item, schema.get("items", {}), root, f"{path}[{index}]")
    elif isinstance(value, dict):
        yield from _mapping(value, schema, root, path)


def near(word: t.Any, known: t.Iterable[str]) -> str:
    """Text that offers the closest known word, or nothing."""
    close = difflib.get_close_matches(str(word), [str(item) for item in known], n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _type_fits(value: t.Any, name: t.Any) -> bool:
    names = name if isinstance(name, list) else [name] if name else []
    if not names:
        return True
    return any(isinstance(value, _TYPES[item]) and (item == "boolean" or not isinstance(value, bool)) for item in names)


def _article(name: t.Any) -> str:
    return " or ".join(_WORDS[item] for item in (name if isinstance(name, list) else [name]))


def _hint(value: t.Any, name: t.Any) -> str:
    return "; quote it" if name == "string" and isinstance(value, (int, float)) else ""


def _text(value: str, schema: Schema, path: str) -> t.Iterator[tuple[str, str]]:
    if len(value) < schema.get("minLength", 0):
        yield path, "must not be empty"
    # A schema's $ is the end of the text; Python's also stands before a line end.
    if "pattern" in schema and not re.search(schema["pattern"].replace("$", r"\Z"), value):
        yield path, f"{value!r} does not have the form {schema['pattern']}"
    if schema.get("format") == "regex":
        try:
            re.compile(value)
        except re.error as error:
            yield path, f"{value!r} is no regular expression: {error}"


def _number(value: float, schema: Schema, path: str) -> t.Iterator[tuple[str, str]]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if (low is not None and value < low) or (high is not None and value > high):
        yield path, f"{value} is not between {low} and {high}"


def _mapping(value: dict[t.Any, t.Any], schema: Schema, root: Schema, path: str) -> t.Iterator[tuple[str, str]]:
    known = schema.get("properties", {})
    extra = schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield _join(path, name), "is missing"
    if len(value) < schema.get("minProperties", 0):
        yield path, "must not be empty"
    for name, item in value.items():
        here = _join(path, str(name))
        if name in known:
            yield from problems(item, known[name], root, here)
        elif extra is False:
            yield here, f"is no known key{near(name, known) or '.'} Known: {', '.join(sorted(known))}."
        else:
            if "propertyNames" in schema:
                yield from problems(str(name), schema["propertyNames"], root, here)
            if isinstance(extra, dict):
                yield from problems(item, extra, root, here)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
