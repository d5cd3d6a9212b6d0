# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site wants of CUDA: the settings of role cuda_toolkit, checked.

Private to the collection, pure. Wrong input is a finding that names variable, value, what is expected and the nearest
value that works; all of them at once.
"""

from __future__ import annotations

import difflib
import re
import typing as t
from dataclasses import dataclass, field

from ._contracts import Finding, bad_variable
from ._matrix_model import Matrix
from ._plan_driver_values import SECONDS, fingerprint, openpgp_key, seconds
from ._versions import key, minor_of, newest

EXACT = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\Z")
LIBRARY = re.compile(r"[0-9]+(\.[0-9]+){1,3}\Z")
SHA256 = re.compile(r"[0-9a-fA-F]{64}\Z")
PACKAGE = re.compile(r"[a-z0-9][a-z0-9+._-]*\Z")
URL = re.compile(r"(https?|file)://\S+\Z")
BRINGS_DRIVER = re.compile(r"^(cuda|cuda-\d+-\d+|cuda-drivers.*|nvidia-(driver|open|kernel|dkms).*)$")

CHOICES: dict[str, tuple[str, ...]] = {"state": ("present", "absent"), "compat": ("absent", "auto", "required")}
BOOLEANS = ("development", "profile", "ldconfig", "hold", "allow_downgrade")


@dataclass(frozen=True)
class Runfile:
    sha256: str
    url: str = ""


@dataclass(frozen=True)
class Settings:
    """The role's variables without their prefix."""

    state: str = "present"
    versions: tuple[str, ...] = ()
    default: str = ""
    runfiles: dict[str, Runfile] = field(default_factory=dict)
    runfile_url: str = ""
    cudnn: dict[int, str] = field(default_factory=dict)
    nccl: dict[int, str] = field(default_factory=dict)
    development: bool = True
    compat: str = "absent"
    packages_extra: tuple[str, ...] = ()
    profile: bool = True
    ldconfig: bool = True
    hold: bool = True
    allow_downgrade: bool = False
    repository_url: str = ""
    repository_key: str = ""
    repository_key_url: str = ""
    repository_key_fingerprint: str = ""
    package_timeout: int = 1800
    runfile_timeout: int = 1800


class Input:
    """Reads one mapping of variables and collects what is wrong with it."""

    def __init__(self, desired: t.Mapping[str, t.Any], matrix: Matrix) -> None:
        self.desired, self.matrix = desired, matrix
        self.wrong: list[Finding] = []
        self.values: dict[str, t.Any] = {}

    def bad(self, name: str, value: t.Any, expected: str, nearest: str | None = None) -> None:
        self.wrong.append(bad_input(name, value, expected, nearest))

    def take(self, name: str, expected: str, read: t.Callable[[t.Any], t.Any], choices: t.Iterable[str] = ()) -> None:
        """A simple value: `read` answers None where it does not fit."""
        value = self.desired.get(name)
        if value is None:
            return
        taken = read(value)
        if taken is None:
            self.bad(name, value, expected, near(value, choices))
        else:
            self.values[name] = taken


def parse(desired: t.Mapping[str, t.Any], matrix: Matrix) -> tuple[Settings, list[Finding]]:
    """Settings and what is wrong with the input; with findings the settings must not be acted on."""
    given = Input(desired, matrix)
    known = set(Settings.__dataclass_fields__)
    for name in desired:
        if name not in known:
            given.bad(name, desired[name], "a setting of this role", near(name, known))
    for name, choices in CHOICES.items():
        given.take(name, f"one of {', '.join(choices)}", lambda value, of=choices: value if value in of else None, choices)  # type: ignore[misc]
    for name in BOOLEANS:
        given.take(name, "true or false", lambda value: value if isinstance(value, bool) else None, ("true", "false"))
    for name in ("repository_url", "repository_key_url", "runfile_url"):
        given.take(name, "a URL (http, https or file), or empty", lambda value: value if value == "" or _text(value, URL) else None)
    given.take("repository_key", "an ASCII-armoured OpenPGP public key, or empty", openpgp_key)
    given.take("repository_key_fingerprint", "the 40 hexadecimal digits of the key's fingerprint, or empty", fingerprint)
    for name in ("package_timeout", "runfile_timeout"):
        given.take(name, SECONDS, seconds)
    given.take("packages_extra", "a list of package names", _packages)
    _versions(given)
    _default(given)
    _runfiles(given)
    for name in ("cudnn", "nccl"):
        _library(given, name)
    _driver_packages(given)
    return Settings(**given.values), given.wrong


def bad_input(name: str, value: t.Any, expected: str, nearest: str | None = None) -> Finding:
    """A setting that cannot be used."""
    return bad_variable("cuda", f"cuda_toolkit_{name}", repr(value), expected, nearest, "docs/cuda.md, variables")


def near(value: t.Any, choices: t.Iterable[str]) -> str | None:
    close = difflib.get_close_matches(str(value).lower(), list(choices), n=1, cutoff=0.5)
    return close[0] if close else None


def nearest_toolkit(matrix: Matrix, asked: t.Any) -> str | None:
    """The exact release for a minor (12.8, also as YAML's number), else the one that looks most like what is asked."""
    text = str(asked)
    same = [version for version in matrix.toolkits if minor_of(version) == minor_of(text)]
    return newest(same) or near(text, matrix.toolkits) or newest(matrix.toolkits)


def _versions(given: Input) -> None:
    value = given.desired.get("versions") or []
    if not isinstance(value, (list, tuple)):
        given.bad("versions", value, "a list of exact versions", f"['{nearest_toolkit(given.matrix, value)}']")
        return
    for version in value:
        if not _text(version, EXACT):
            given.bad("versions", version, "an exact version with three numbers, in quotes", nearest_toolkit(given.matrix, version))
    texts = [version for version in value if _text(version, EXACT)]
    for version in texts:
        same = [other for other in texts if minor_of(other) == minor_of(version)]
        if len(same) > 1 and version == same[0]:
            expected = f"one release of CUDA {minor_of(version)}: all of them live in /usr/local/cuda-{minor_of(version)}"
            given.bad("versions", ", ".join(same), expected, newest(same))
    given.values["versions"] = tuple(dict.fromkeys(texts))


def _default(given: Input) -> None:
    value, versions = given.desired.get("default"), given.values.get("versions") or ()
    if value is None or value == "":
        return
    if isinstance(value, (list, tuple)):
        given.bad("default", value, "one version: /usr/local/cuda leads to one toolkit", str(value[0]) if value else None)
    elif value not in versions:
        expected = f"one of cuda_toolkit_versions ({', '.join(versions) or 'empty'})"
        given.bad("default", value, expected, near(value, versions) or newest(versions))
    else:
        given.values["default"] = value


def _runfiles(given: Input) -> None:
    value = given.desired.get("runfiles") or {}
    if not isinstance(value, t.Mapping):
        given.bad("runfiles", value, "a map of version to {sha256, url}")
        return
    versions = given.values.get("versions") or ()
    out = {}
    for version, entry in value.items():
        if version not in versions:
            expected = f"versions of cuda_toolkit_versions ({', '.join(versions) or 'empty'})"
            given.bad("runfiles", version, expected, near(version, versions))
        elif not isinstance(entry, t.Mapping) or not _text(entry.get("sha256"), SHA256):
            given.bad("runfiles", {version: entry}, "sha256 of the runfile, 64 hexadecimal digits: nothing is run that was not verified")
        elif set(entry) - {"sha256", "url"} or not (entry.get("url", "") == "" or _text(entry.get("url"), URL)):
            given.bad("runfiles", {version: entry}, "sha256, and url (http, https or file) where the runfile is not at its usual place")
        else:
            out[version] = Runfile(entry["sha256"].lower(), entry.get("url", ""))
    given.values["runfiles"] = out


def _library(given: Input, name: str) -> None:
    value = given.desired.get(name) or {}
    if not isinstance(value, t.Mapping):
        given.bad(name, value, "a map of CUDA major to exact version, {'12': 9.20.0.48}")
        return
    out = {}
    for major, version in value.items():
        if not re.fullmatch("[0-9]+", str(major)) or not _text(version, LIBRARY):
            given.bad(name, {major: version}, "a CUDA major (12) and an exact version, in quotes")
        else:
            out[int(major)] = version
    if name == "nccl" and len(out) > 1:
        given.bad(name, dict(value), "one CUDA major: libnccl2 is one package, a host has it once", f"{{'{max(out)}': {out[max(out)]}}}")
    given.values[name] = out


def _driver_packages(given: Input) -> None:
    """Metapackages that are known to pull a driver; others are found out by simulating the transaction."""
    for name in given.values.get("packages_extra") or ():
        if BRINGS_DRIVER.match(name):
            toolkit = re.sub(r"^cuda(?=-\d|$)", "cuda-toolkit", name)
            nearest = toolkit if toolkit != name else None
            given.bad("packages_extra", name, "packages without a driver: drivers are role nvidia_driver's", nearest)


def _text(value: t.Any, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and bool(pattern.fullmatch(value))


def _packages(value: t.Any) -> tuple[str, ...] | None:
    return tuple(value) if isinstance(value, (list, tuple)) and all(_text(name, PACKAGE) for name in value) else None


def default_of(settings: Settings) -> str:
    """The default toolkit: what is said, else the newest of the list."""
    return settings.default or max(settings.versions, key=key, default="")
