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

from ..module_utils._driver_runfile import TMPDIR
from ._contracts import Finding, bad_variable
from ._plan_driver_values import (
    SECONDS,
    boolean,
    branch,
    certificate,
    fingerprint,
    folder,
    imex,
    long_options,
    one_of,
    openpgp_key,
    packages,
    parameters,
    seconds,
    sha256,
    units,
    url,
    version,
)

CHOICES: dict[str, tuple[str, ...]] = {
    "state": ("present", "rolled_back", "absent"),
    "source": ("auto", "nvidia", "distribution", "runfile"),
    "kernel_modules": ("auto", "open", "proprietary"),
    "reboot": ("never", "if_needed", "delegate"),
    "secure_boot": ("refuse", "prebuilt_signed", "mok"),
    "mok_given": ("", "usable", "unusable"),
    "fabric_manager": ("auto", "present", "absent"),
    "module_stream": ("keep", "switch"),
    "rollback": ("best_effort", "required", "none"),
}
TRUE_FALSE = "true or false"
A_URL = "a URL (http, https or file), or empty"
READERS: dict[str, tuple[t.Callable[[t.Any], t.Any], str]] = {
    **{name: (one_of(choices), f"one of {', '.join(choices)}") for name, choices in CHOICES.items()},
    "branch": (branch, "a driver branch: its number alone (580), or empty"),
    "version": (version, "an exact driver version (580.159.04), or empty"),
    "packages_extra": (packages, "a list of package names"),
    "compute_only": (boolean, TRUE_FALSE),
    "install_kernel_modules": (boolean, TRUE_FALSE),
    "repository_url": (url, A_URL),
    "repository_key_url": (url, A_URL),
    "repository_key": (openpgp_key, "an ASCII-armoured OpenPGP public key, or empty"),
    "repository_key_fingerprint": (fingerprint, "the 40 hexadecimal digits of the key's fingerprint, or empty"),
    "mok_certificate": (certificate, "a PEM X.509 certificate, or empty"),
    "mok_private_key": (boolean, TRUE_FALSE),
    "persistenced": (boolean, TRUE_FALSE),
    "live_reload": (boolean, TRUE_FALSE),
    "live_reload_units": (units, "a list of systemd units (vllm.service)"),
    "fabric_timeout": (seconds, SECONDS),
    "imex": (imex, "an inventory group of the rack's compute trays"),
    "nouveau_blacklist": (boolean, TRUE_FALSE),
    "module_parameters": (parameters, "a map of kernel module to a map of parameter to value"),
    "hold": (boolean, TRUE_FALSE),
    "allow_downgrade": (boolean, TRUE_FALSE),
    "reboot_timeout": (seconds, SECONDS),
    "package_timeout": (seconds, SECONDS),
    "package_lock_timeout": (seconds, SECONDS),
    "convert": (boolean, TRUE_FALSE),
    "runfile_url": (url, A_URL),
    "runfile_sha256": (sha256, "64 hexadecimal digits, or empty"),
    "runfile_unverified": (boolean, TRUE_FALSE),
    "runfile_options": (long_options, "a list of the installer's long options (--no-drm, --concurrency-level=8)"),
    "runfile_tmpdir": (folder, "the absolute path of a folder"),
    "runfile_timeout": (seconds, SECONDS),
}
"""Setting → how it is read (None: it cannot be) and what is expected, in words."""


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
    repository_key_fingerprint: str = ""
    persistenced: bool = True
    live_reload: bool = False
    live_reload_units: tuple[str, ...] = ()
    fabric_timeout: int = 300
    imex: dict[str, t.Any] = field(default_factory=dict)
    nouveau_blacklist: bool = True
    module_parameters: dict[str, dict[str, str]] = field(default_factory=dict)
    hold: bool = True
    allow_downgrade: bool = False
    reboot: str = "never"
    reboot_timeout: int = 900
    secure_boot: str = "refuse"
    mok_given: str = ""
    """Not the password: whether there is one, and one that MokManager can be given (usable, unusable)."""
    mok_certificate: str = ""
    mok_private_key: bool = False
    """Whether one is given; the key itself stays with the task that writes it."""
    package_timeout: int = 1800
    package_lock_timeout: int = 120
    rollback: str = "best_effort"
    fabric_manager: str = "auto"
    module_stream: str = "keep"
    convert: bool = False
    runfile_url: str = ""
    runfile_sha256: str = ""
    runfile_unverified: bool = False
    runfile_options: tuple[str, ...] = ()
    runfile_tmpdir: str = TMPDIR
    runfile_timeout: int = 3600


def parse(desired: t.Mapping[str, t.Any]) -> tuple[Settings, list[Finding]]:
    """Settings and what is wrong with the input; with findings the settings must not be acted on."""
    wrong: list[Finding] = []
    values: dict[str, t.Any] = {}
    for name, value in desired.items():
        if name not in READERS:
            wrong.append(bad_input(name, value, "a setting of this role", _near(name, READERS)))
        elif value is not None and not (name == "branch" and value == ""):
            read, expected = READERS[name]
            values[name] = read(value)
            if values[name] is None:
                wrong.append(bad_input(name, value, expected, _near(value, CHOICES.get(name, ())) or _hint(name, value)))
    if wrong:
        return Settings(), wrong
    settings = Settings(**values)
    return settings, _contradictions(settings)


def bad_input(name: str, value: t.Any, expected: str, nearest: str | None = None) -> Finding:
    """A setting that cannot be used."""
    return bad_variable("driver", f"nvidia_driver_{name}", repr(value), expected, nearest, "docs/driver.md, variables")


def _contradictions(settings: Settings) -> list[Finding]:
    found = []
    if settings.version and settings.branch is not None and branch_of(settings.version) != settings.branch:
        nearest = f"{branch_of(settings.version)}, the branch of {settings.version}"
        found.append(bad_input("branch", settings.branch, f"the branch of nvidia_driver_version {settings.version}, or empty", nearest))
    if not settings.install_kernel_modules and settings.module_parameters:
        expected = "empty where nvidia_driver_install_kernel_modules is false: without a kernel module there is nothing to parametrise"
        found.append(bad_input("module_parameters", settings.module_parameters, expected, "{}"))
    if settings.mok_private_key != bool(settings.mok_certificate):
        missing = "mok_certificate" if settings.mok_private_key else "mok_private_key"
        found.append(bad_input(missing, "", "given together with its other half, or both empty"))
    return found


def branch_of(version: str) -> int:
    """580.159.04 → 580."""
    return int(version.split(".")[0])


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
