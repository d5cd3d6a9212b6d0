# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the three daemons have in common: files as read on the host, what is wanted of them, and the answer. Pure.

Private to the collection.
"""

from __future__ import annotations

import copy
import typing as t
from dataclasses import dataclass, field

from ._contracts import Finding, Severity
from ._engine_text import BrokenText, NeedsTomlkit, Tree

SOURCE = "docs/containers.md"
RUNTIME = "nvidia"
RUNTIME_PATH = "/usr/bin/nvidia-container-runtime"

DefaultRuntime = t.Literal["keep", "nvidia", "engine"]


@dataclass(frozen=True)
class Wanted:
    """What a site wants of an engine's configuration."""

    present: bool = True
    default_runtime: DefaultRuntime = "keep"
    cdi: bool = True
    runtime_path: str = RUNTIME_PATH
    spec_dir: str = ""
    """One more folder of CDI specifications that the engine must be told."""
    cdi_switched: tuple[str, ...] = ()
    """Files in which this collection switched CDI on, and may switch it off again."""


@dataclass(frozen=True)
class HostFile:
    """One file as container_info read it."""

    path: str
    state: str = "absent"
    """absent | ok | unreadable | huge | not_a_file"""
    text: str = ""
    reason: str = ""

    @classmethod
    def of(cls, fact: t.Mapping[str, t.Any]) -> HostFile:
        return cls(fact["path"], fact["state"], fact.get("text") or "", fact.get("reason") or "")

    @property
    def usable(self) -> bool:
        return self.state in ("ok", "absent")


@dataclass(frozen=True)
class NewFile:
    """A file that is to be written (text None: removed), and which parts of its meaning change."""

    path: str
    text: str | None
    parts: tuple[str, ...]


@dataclass
class EngineAnswer:
    """Difference of one engine's files from what is wanted."""

    engine: str
    files: list[NewFile] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    stage: dict[str, str] = field(default_factory=dict)
    """A copy of the future configuration below a directory {stage}, for `validate`."""
    validate: list[str] = field(default_factory=list)
    dump: list[str] = field(default_factory=list)
    """What the engine itself says that its files mean."""
    cdi_switch: str = ""
    """on | off: CDI is switched here, which the host remembers as ours."""

    def find(self, name: str, severity: Severity, message: str, *, found: str, needed: str, fix: str, nearest: str | None = None) -> None:
        self.findings.append(
            Finding(
                id=f"container_engine.{name}",
                severity=severity,
                component="container_engine",
                subject=self.engine,
                found=found,
                needed=needed,
                nearest=nearest,
                message=message,
                fix=fix,
                source=SOURCE,
            )
        )

    def unusable(self, file: HostFile) -> None:
        self.find(
            "config_unreadable",
            "block",
            f"{file.path} cannot be used: {file.reason}. Nothing was written.",
            found=f"{file.path}: {file.reason}",
            needed="a regular text file of at most 1 MiB, or none",
            fix=f"Put {file.path} right on the host (ls -l {file.path}), then run again.",
        )

    def broken(self, path: str, error: BrokenText) -> None:
        self.find(
            "config_broken",
            "block",
            f"{path}, {error}. {self.engine} would not start with it either; nothing was written.",
            found=f"{path}, {error}",
            needed="a file that its engine can read",
            fix=f"Correct {path} on the host, or move it away to start from an empty one.",
        )

    def misshapen(self, path: str, key: str, value: t.Any, expected: str) -> None:
        self.find(
            "config_misshapen",
            "block",
            f"{path}: {key} is {type(value).__name__}, expected {expected}; nothing was written.",
            found=f"{path}: {key} is {type(value).__name__}",
            needed=expected,
            fix=f"Correct {key} in {path} on the host.",
        )

    def needs_tomlkit(self) -> None:
        self.find(
            "needs_tomlkit",
            "block",
            f"The configuration of {self.engine} must be changed, and the controller has no tomlkit, which keeps comments and order.",
            found="no Python package tomlkit on the controller",
            needed="tomlkit 0.13 or newer in the Python environment of ansible-playbook",
            fix="pip install tomlkit (or the distribution's python3-tomlkit) on the controller.",
        )

    def guarded(self, work: t.Callable[[], None], path: str) -> None:
        """Do `work`; what goes wrong in it is a finding."""
        try:
            work()
        except BrokenText as error:
            self.broken(path, error)
        except NeedsTomlkit:
            self.needs_tomlkit()


def differences(before: t.Any, after: t.Any, prefix: str = "") -> tuple[str, ...]:
    """Dotted names of what differs; never values, which may be secret."""
    if isinstance(before, dict) and isinstance(after, dict):
        out: list[str] = []
        for key in [*before, *(key for key in after if key not in before)]:
            if key not in before or key not in after:
                out.append(f"{prefix}{key}")
            elif before[key] != after[key]:
                out.extend(differences(before[key], after[key], f"{prefix}{key}."))
        return tuple(out)
    return (prefix.rstrip("."),)


def table(tree: Tree, *keys: str) -> Tree:
    """The table at a path, empty where there is none or something else is there."""
    node: t.Any = tree
    for key in keys:
        node = node.get(key) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else {}


KINDS = {dict: "a table", list: "a list", str: "text", int: "a number"}


def wrong_kind(tree: Tree, keys: t.Sequence[str], kind: type) -> tuple[str, t.Any, str] | None:
    """(dotted key, value, what was expected) where something else than tables leads to `keys`, or than `kind` is there; "*" is each key."""
    node: t.Any = tree
    for index, key in enumerate(keys):
        if key == "*":
            found = (wrong_kind(node, [name, *keys[index + 1 :]], kind) for name in node)
            name, value, expected = next(filter(None, found), ("", None, ""))
            return (".".join([*keys[:index], name]), value, expected) if expected else None
        if key not in node:
            return None
        node, needed = node[key], kind if index == len(keys) - 1 else dict
        if not isinstance(node, needed) or (needed is int and isinstance(node, bool)):
            return ".".join(keys[: index + 1]), node, KINDS[needed]
    return None


def put(tree: Tree, value: t.Any, *keys: str) -> None:
    """Set the value at a path, making tables on the way."""
    for key in keys[:-1]:
        tree = tree.setdefault(key, {})
    tree[keys[-1]] = value


def deep(base: t.Any, over: t.Any) -> t.Any:
    """`over` on `base`, tables key by key; neither is changed."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{key: deep(base.get(key), value) for key, value in over.items()}}
    return copy.deepcopy(over)


def model_of(runtimes: Tree, *names: t.Any) -> Tree:
    """A copy of the first runtime of these that is there and not ours; empty if none is."""
    for name in names:
        if name != RUNTIME and isinstance(name, str) and isinstance(runtimes.get(name), dict):
            return copy.deepcopy(t.cast(Tree, runtimes[name]))
    return {}


def is_runtime(path: t.Any) -> bool:
    """Whether this is NVIDIA's runtime, by whatever path a person wrote."""
    return isinstance(path, str) and path.rpartition("/")[2] == RUNTIME_PATH.rpartition("/")[2]
