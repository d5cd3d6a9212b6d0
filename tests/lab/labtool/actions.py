"""The action log of a host: what was asked of systemd, package managers, container engines and Python since a mark.

Used by the lab command and, as plain functions over text, by testinfra tests (molecule/README in docs/testing.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

LOG = "/var/log/lab/actions.log"
CHANGES = ("service-change", "package-change", "container", "kernel")
"""Kinds that a run with nothing to do must not have."""
PACKAGE_MANAGER = ("package-change", "package-query")
"""Kinds that count as a package-manager call."""


@dataclass(frozen=True)
class Action:
    time: str
    kind: str
    caller: str
    words: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def parse(text: str) -> list[Action]:
    """All actions after the last mark (from the start, if there is none)."""
    found: list[Action] = []
    for line in text.splitlines():
        parts = line.split("\t", 3)
        if len(parts) != 4:
            continue  # a line cut by a power loss (or the lab's word for it)
        if parts[1] == "mark":
            found = []
        else:
            found.append(Action(*parts))
    return found


def of_kind(actions: Iterable[Action], kinds: Iterable[str]) -> list[Action]:
    wanted = set(kinds)
    return [action for action in actions if action.kind in wanted]
