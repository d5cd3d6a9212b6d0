# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A requirements lock: every package of a venv at one version, each with its hashes. Private to the collection.

The format that `uv pip compile --generate-hashes` and `pip-compile --generate-hashes` write. Nothing is resolved on a host: the lock is
all there is.
"""

from __future__ import annotations

import hashlib
import re
import typing as t

from ._errors import WorkError

_PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*==\s*(?P<version>[0-9][A-Za-z0-9.!+_-]*)\s*(?P<marker>;.*)?")
_HASH = re.compile(r"\s--hash=(sha(?:256|384|512):[0-9a-f]{64,128})(?=\s|$)")


class Pin(t.NamedTuple):
    """One package. `line` is the whole requirement in one line, hashes sorted."""

    name: str
    version: str
    line: str


def parse(text: str, source: str = "requirements") -> list[Pin]:
    """All pins, sorted by name; `source` is what the text is called in errors."""
    pins = [_pin(number, line, source) for number, line in _lines(text)]
    if not pins:
        raise WorkError("bad_lock", f"{source} names no package; expected lines such as vllm==0.33.0 --hash=sha256:…")
    return sorted(pins)


def select(pins: t.Sequence[Pin], exclude: t.Iterable[str], source: str = "requirements") -> list[Pin]:
    """Without the packages that are not wanted; a name that is not there is a mistake."""
    unwanted = {normal(name) for name in exclude}
    strangers = unwanted - {pin.name for pin in pins}
    if strangers:
        raise WorkError("bad_lock", f"exclude names {min(strangers)}, which is not in {source}")
    return [pin for pin in pins if pin.name not in unwanted]


def check_version(pins: t.Sequence[Pin], distribution: str, version: str, source: str = "requirements") -> None:
    """The lock must be the one of this release."""
    found = [pin.version for pin in pins if pin.name == normal(distribution)]
    if not found:
        near = sorted(pin.name for pin in pins if pin.name.startswith(normal(distribution).partition("-")[0]))
        words = f"; it has {', '.join(near)}: say so by distribution" if near else ""
        raise WorkError("bad_lock", f"{source} has no {distribution}{words}")
    if version not in found:
        raise WorkError("bad_lock", f"{source} has {distribution} {found[0]}, asked is version {version}")


def canonical(pins: t.Sequence[Pin]) -> str:
    """Equal for locks that install the same."""
    return "".join(f"{pin.line}\n" for pin in pins)


def digest(pins: t.Sequence[Pin]) -> str:
    return hashlib.sha256(canonical(pins).encode()).hexdigest()


def normal(name: str) -> str:
    """A distribution's name as indexes write it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _lines(text: str) -> t.Iterator[tuple[int, str]]:
    """Number and text of each logical line: joined at backslashes, without comments."""
    held, first = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(^|\s)#.*$", "", raw).rstrip()
        first = first if held else number
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        line, held = (held + line).strip(), ""
        if line:
            yield first, line
    if held.strip():
        yield first, held.strip()


def _pin(number: int, line: str, source: str) -> Pin:
    where = f"{source}, line {number}"
    hashes = sorted(set(_HASH.findall(" " + line)))
    requirement = re.sub(r"\s+", " ", _HASH.sub(" ", " " + line)).strip()
    if requirement.startswith("-"):
        # An index in a lock would say where packages come from behind the back of the settings, and may hold a password.
        raise WorkError(
            "bad_lock", f"{where}: {requirement.split()[0]} is an option; expected packages only: indexes are index_url, find_links"
        )
    match = _PIN.fullmatch(requirement)
    if not match:
        raise WorkError("bad_lock", f"{where} is {_shown(requirement)}; expected NAME==VERSION --hash=sha256:…")
    if not hashes:
        raise WorkError("bad_lock", f"{where}: {match['name']} has no hash; write the lock by uv pip compile --generate-hashes")
    return Pin(normal(match["name"]), match["version"], " ".join([requirement, *(f"--hash={one}" for one in hashes)]))


def _shown(requirement: str) -> str:
    return repr(re.sub(r"//[^/@\s]+@", "//…@", requirement)[:120])
