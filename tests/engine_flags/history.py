"""From what each release has to one line per flag: since when, until when, which values when."""

from __future__ import annotations

import typing as t

from .annotations import Flag

Releases = t.Sequence[tuple[str, t.Mapping[str, t.Any]]]


def spans(versions: t.Sequence[str], present: t.Collection[str]) -> str | None:
    """Comparison for the versions in `present` among all (oldest first); None for all of them. `A or B` where there is a gap."""
    parts: list[str] = []
    start = None
    for position, version in enumerate([*versions, None]):
        here = version in present
        if here and start is None:
            start = position
        elif not here and start is not None:
            low = [f">={versions[start]}"] if start else []
            parts.append(",".join([*low, *([f"<{version}"] if version else [])]))
            start = None
    return " or ".join(parts) or None


def merge(releases: Releases) -> dict[str, Flag]:
    """Flags of all releases (oldest first) with the type of the newest release that has each."""
    versions = [version for version, _ in releases]
    first = _first_names(releases)
    seen: dict[str, dict[str, Flag]] = {}
    for version, flags in releases:
        for name, flag in flags.items():
            also = [other for other in (name, *flag.get("also", ())) if other != first[name]]
            seen.setdefault(first[name], {})[version] = {**flag, "also": also}
    return {name: _line(versions, seen[name]) for name in sorted(seen)}


def _first_names(releases: Releases) -> dict[str, str]:
    """Name → the name by which the newest release with that flag lists it first: --tensor-parallel-size and --tp-size are one flag."""
    first: dict[str, str] = {}
    for _, flags in reversed(releases):
        for name, flag in flags.items():
            names = [name, *flag.get("also", ())]
            known = next((first[other] for other in names if other in first), name)
            for other in names:
                first.setdefault(other, known)
    return first


def _line(versions: t.Sequence[str], seen: dict[str, Flag]) -> Flag:
    newest = seen[list(seen)[-1]]
    line: Flag = {"type": newest["type"]}
    if within := spans(versions, seen):
        line["in"] = within
    also = list(dict.fromkeys(name for flag in seen.values() for name in flag.get("also", ())))
    if also:
        line["also"] = also
    if newest.get("many"):
        line["many"] = True
    if newest["type"] == "bool":
        plain = [version for version, flag in seen.items() if flag["type"] != "bool"]
        if plain:
            line["bool_in"] = spans(list(seen), [version for version in seen if version not in plain])
    if "choices" in newest:
        line.update(_choices(seen))
    if newest.get("deprecated"):
        marked = [version for version, flag in seen.items() if flag.get("deprecated")]
        line["deprecated"] = marked[0]
    return line


def _choices(seen: dict[str, Flag]) -> Flag:
    open_ended = [version for version, flag in seen.items() if "choices" not in flag]
    values = list(dict.fromkeys(value for flag in reversed(seen.values()) for value in flag.get("choices", ())))
    always, sometimes = [], {}
    for value in values:
        lacking = [version for version, flag in seen.items() if "choices" in flag and value not in flag["choices"]]
        if lacking:
            sometimes[value] = spans(list(seen), [version for version in seen if version not in lacking])
        else:
            always.append(value)
    out: Flag = {"choices": always}
    if sometimes:
        out["choices_in"] = sometimes
    if open_ended:
        out["choices_not_in"] = spans(list(seen), open_ended)
    return out
