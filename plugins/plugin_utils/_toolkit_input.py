# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site wants of containers: the settings of role nvidia_container_toolkit, checked. Pure; private to the collection."""

from __future__ import annotations

import difflib
import re
import typing as t
from dataclasses import dataclass, field

from . import _toolkit_config
from ._contracts import Change, Disruption, Finding, Plan, Severity, bad_variable, named_finding
from ._engine_common import SOURCE
from ._plan_driver_values import SECONDS, seconds

ENGINES = ("docker", "containerd", "crio", "podman")
CHOICES: dict[str, tuple[str, ...]] = {
    "state": ("present", "absent"),
    "default_runtime": ("keep", "nvidia", "engine"),
    "mode": ("", *_toolkit_config.MODES),
}
BOOLEANS = ("packages", "hold", "allow_downgrade", "cdi", "cdi_remove_duplicates", "no_cgroups", "boot_order")
TEXTS = {
    "version": (re.compile(r"^([0-9]+\.[0-9]+\.[0-9]+(-[0-9]+)?)?$"), "an exact version (1.20.0), or empty"),
    "repository_url": (re.compile(r"^((https?|file)://\S+)?$"), "a URL, or empty"),
    "repository_key_url": (re.compile(r"^((https?|file)://\S+)?$"), "a URL, or empty"),
    "repository_key": (
        re.compile(r"^(\s*-----BEGIN PGP PUBLIC KEY BLOCK-----.*)?$", re.DOTALL),
        "an ASCII-armoured OpenPGP public key, or empty",
    ),
}


@dataclass(frozen=True)
class Settings:
    """The role's variables without their prefix."""

    state: str = "present"
    packages: bool = True
    version: str = ""
    hold: bool = True
    allow_downgrade: bool = False
    repository_url: str = ""
    repository_key_url: str = ""
    repository_key: str = ""
    engines: tuple[str, ...] = ()
    """Empty: those that are found."""
    default_runtime: str = "keep"
    mode: str = ""
    no_cgroups: bool = False
    config: dict[str, t.Any] = field(default_factory=dict)
    rootless_users: tuple[str, ...] = ()
    cdi: bool = True
    cdi_remove_duplicates: bool = False
    boot_order: bool = True
    engine_start_timeout: int = 60

    @property
    def present(self) -> bool:
        return self.state == "present"

    def toolkit_config(self) -> dict[str, t.Any]:
        """What config.toml must say."""
        wanted = {"nvidia-container-cli.no-cgroups": self.no_cgroups, **self.config}
        return {**wanted, **({"nvidia-container-runtime.mode": self.mode} if self.mode else {})}


def parse(desired: t.Mapping[str, t.Any]) -> tuple[Settings, list[Finding]]:
    """Settings and what is wrong with the input, all of it at once; with findings the settings must not be acted on."""
    wrong: list[Finding] = []
    values: dict[str, t.Any] = {}
    for key, value in desired.items():
        expected, nearest, taken = _read(key, value)
        if expected:
            wrong.append(bad_input(key, value, expected, nearest))
        else:
            values[key] = taken
    for mistake in _toolkit_config.check(values.get("config") or {}):
        wrong.append(bad_input(f"config[{mistake.key}]", mistake.value, mistake.expected, mistake.nearest))
    mode, twice = values.get("mode"), (values.get("config") or {}).get("nvidia-container-runtime.mode")
    if mode and twice is not None and twice != mode:
        wrong.append(
            bad_input("config[nvidia-container-runtime.mode]", twice, f"what nvidia_container_toolkit_mode says ({mode}), or nothing")
        )
    return (Settings(**values) if not wrong else Settings()), wrong


def _read(key: str, value: t.Any) -> tuple[str, str | None, t.Any]:
    """(what was expected or empty, nearest that works, value)"""
    if key in CHOICES:
        known = CHOICES[key]
        return ("", None, value) if value in known else (f"one of {', '.join(filter(None, known))}", _near(value, known), None)
    if key in BOOLEANS:
        return ("", None, value) if isinstance(value, bool) else ("true or false", None, None)
    if key == "engine_start_timeout":
        return ("", None, value) if seconds(value) else (SECONDS, None, None)
    if key in TEXTS:
        pattern, expected = TEXTS[key]
        found = re.search(r"\d+\.\d+\.\d+", str(value)) if key == "version" else None
        # To the end: `$` alone lets a line end through (YAML's `|` adds one), and one in a package source stops apt altogether.
        whole = isinstance(value, str) and pattern.fullmatch(value)
        return ("", None, value) if whole else (expected, found.group() if found else _stripped(value, pattern), None)
    if key == "engines":
        good = isinstance(value, (list, tuple)) and all(item in ENGINES for item in value)
        bad = next((item for item in value if item not in ENGINES), None) if isinstance(value, (list, tuple)) else value
        return (
            ("", None, tuple(dict.fromkeys(value)))
            if good
            else (f"a list of {', '.join(ENGINES)}; empty for all that are found", _near(bad, ENGINES), None)
        )
    if key == "rootless_users":
        good = isinstance(value, (list, tuple)) and all(
            isinstance(item, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", item) for item in value
        )
        return ("", None, tuple(dict.fromkeys(value))) if good else ("a list of user names", None, None)
    if key == "config":
        return ("", None, dict(value)) if isinstance(value, t.Mapping) else ("a map of dotted keys to values", None, None)
    return "a setting of this role", _near(key, Settings.__dataclass_fields__), None


def _stripped(value: t.Any, pattern: re.Pattern[str]) -> str | None:
    bare = value.strip() if isinstance(value, str) else ""
    return bare if bare and pattern.fullmatch(bare) else None


def _near(value: t.Any, choices: t.Iterable[str]) -> str | None:
    close = difflib.get_close_matches(str(value).lower(), [choice for choice in choices if choice], n=1, cutoff=0.5)
    return close[0] if close else None


def bad_input(name: str, value: t.Any, expected: str, nearest: str | None = None) -> Finding:
    shown = repr(value) if len(repr(value)) < 120 else repr(value)[:117] + "..."
    return bad_variable("container_toolkit", f"nvidia_container_toolkit_{name}", shown, expected, nearest, SOURCE)


class Draft:
    """A plan in the making, with short ways to add to it."""

    def __init__(self) -> None:
        self.plan = Plan(component="container_toolkit")

    def change(self, name: str, subject: str, before: t.Any, after: t.Any, message: str, disruption: Disruption = "none") -> None:
        self.plan.changes.append(Change(f"container_toolkit.{name}", "container_toolkit", subject, before, after, message, disruption))

    def find(
        self,
        name: str,
        severity: Severity,
        message: str,
        *,
        found: str,
        needed: str,
        fix: str,
        subject: str | None = None,
        component: str = "",
    ) -> None:
        texts = {"found": found, "needed": needed, "fix": fix, "subject": subject}
        self.plan.findings.append(named_finding(component or "container_toolkit", name, severity, message, SOURCE, **texts))
