# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site wants of the driver: the settings of role nvidia_driver, checked.

Private to the collection, pure. Wrong input is a finding that names variable, value, what is expected and the nearest
value that works; all of them at once.
"""

from __future__ import annotations

import difflib
import re
import typing as t
from dataclasses import dataclass, field

from ._contracts import Finding
from ._plan_driver_values import URL, branch, is_key, is_text, one_of, packages, parameters, positive, version

CHOICES: dict[str, tuple[str, ...]] = {
    "state": ("present", "absent"),
    "source": ("auto", "nvidia", "distribution"),
    "kernel_modules": ("auto", "open", "proprietary"),
    "reboot": ("never", "if_needed", "delegate"),
    "fabric_manager": ("auto", "present", "absent"),
}
BOOLEANS = ("compute_only", "install_kernel_modules", "persistenced", "nouveau_blacklist", "hold", "allow_downgrade")
URLS = ("repository_url", "repository_key_url")
NUMBERS = ("reboot_timeout", "package_timeout")


@dataclass(frozen=True)
class Settings:
    """The role's variables without their prefix; '' and None both mean: not said."""

    state: str = "present"
    source: str = "auto"
    branch: int | None = None
    version: str = ""
    kernel_modules: str = "auto"
    packages_extra: tuple[str, ...] = ()
    compute_only: bool = True
    install_kernel_modules: bool = True
    repository_url: str = ""
    repository_key_url: str = ""
    repository_key: str = ""
    persistenced: bool = True
    nouveau_blacklist: bool = True
    module_parameters: dict[str, dict[str, str]] = field(default_factory=dict)
    hold: bool = True
    allow_downgrade: bool = False
    reboot: str = "never"
    reboot_timeout: int = 900
    package_timeout: int = 1800
    fabric_manager: str = "auto"


def parse(desired: t.Mapping[str, t.Any]) -> tuple[Settings, list[Finding]]:
    """Settings and what is wrong with the input; with findings the settings must not be acted on."""
    wrong: list[Finding] = []
    values: dict[str, t.Any] = {}
    known = set(Settings.__dataclass_fields__)
    for key in desired:
        if key not in known:
            wrong.append(bad_input(key, desired[key], "a setting of this role", _near(key, known)))
    for key, choices in CHOICES.items():
        _take(desired, values, wrong, key, one_of(choices), f"one of {', '.join(choices)}", choices)
    for key in BOOLEANS:
        _take(desired, values, wrong, key, lambda value: value if isinstance(value, bool) else None, "true or false", ("true", "false"))
    for key in URLS:
        _take(
            desired,
            values,
            wrong,
            key,
            lambda value: value if value == "" or is_text(value, URL) else None,
            "a URL (http, https or file), or empty",
        )
    for key in NUMBERS:
        _take(desired, values, wrong, key, positive, "a number of seconds above 0")
    _take(
        desired,
        values,
        wrong,
        "repository_key",
        lambda value: value if is_key(value) else None,
        "an ASCII-armoured OpenPGP public key, or empty",
    )
    _take(desired, values, wrong, "branch", branch, "a driver branch: its number alone (580), or empty")
    _take(desired, values, wrong, "version", version, "an exact driver version (580.159.04), or empty")
    _take(desired, values, wrong, "packages_extra", packages, "a list of package names")
    _take(desired, values, wrong, "module_parameters", parameters, "a map of kernel module to a map of parameter to value")
    settings = Settings(**values)
    if not wrong:
        wrong.extend(_contradictions(settings))
    return settings, wrong


def bad_input(name: str, value: t.Any, expected: str, nearest: str | None = None) -> Finding:
    """A setting that cannot be used."""
    return Finding(
        id="driver.bad_input",
        severity="block",
        component="driver",
        subject=f"nvidia_driver_{name}",
        found=repr(value),
        needed=expected,
        nearest=nearest,
        message=f"nvidia_driver_{name} is {value!r}; expected {expected}.",
        fix=f"Set nvidia_driver_{name} to {nearest or expected}.",
        source="docs/driver.md, variables",
    )


def _contradictions(settings: Settings) -> list[Finding]:
    found = []
    if settings.version and settings.branch is not None and branch_of(settings.version) != settings.branch:
        nearest = f"{branch_of(settings.version)}, the branch of {settings.version}"
        found.append(bad_input("branch", settings.branch, f"the branch of nvidia_driver_version {settings.version}, or empty", nearest))
    if not settings.install_kernel_modules and settings.module_parameters:
        expected = "empty where nvidia_driver_install_kernel_modules is false: without a kernel module there is nothing to parametrise"
        found.append(bad_input("module_parameters", settings.module_parameters, expected, "{}"))
    return found


def branch_of(version: str) -> int:
    """580.159.04 → 580."""
    return int(version.split(".")[0])


def _take(
    desired: t.Mapping[str, t.Any],
    values: dict[str, t.Any],
    wrong: list[Finding],
    key: str,
    read: t.Callable[[t.Any], t.Any],
    expected: str,
    choices: t.Iterable[str] = (),
) -> None:
    if key not in desired or desired[key] is None:
        return
    value = desired[key]
    if key == "branch" and value == "":
        return
    taken = read(value)
    if taken is None:
        wrong.append(bad_input(key, value, expected, _near(value, choices) or _hint(key, value)))
    else:
        values[key] = taken


def _near(value: t.Any, choices: t.Iterable[str]) -> str | None:
    close = difflib.get_close_matches(str(value).lower(), list(choices), n=1, cutoff=0.5)
    return close[0] if close else None


def _hint(key: str, value: t.Any) -> str | None:
    text = str(value)
    if key == "version" and text.isdigit():
        return f"'' and nvidia_driver_branch: {text}"
    if key == "version" and (match := re.search(r"[0-9]{3}\.[0-9]+(\.[0-9]+)?", text)):
        return match.group()
    if key == "branch" and (match := re.match(r"\D*([0-9]{3})", text)):
        return match.group(1)
    return None
