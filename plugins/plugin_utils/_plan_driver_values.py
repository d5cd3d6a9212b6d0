# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of single values: what a site wrote → what the planner uses, None where that is not possible.

Private to the collection, pure.
"""

from __future__ import annotations

import re
import typing as t

from ..module_utils._seconds import LONGEST

VERSION = re.compile(r"[0-9]+(\.[0-9]+){1,2}")
PACKAGE = re.compile(r"[a-z0-9][a-z0-9+._-]*")
MODULE = re.compile(r"nvidia([_-][a-z]+)?")
PARAMETER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
PARAMETER_VALUE = re.compile(r"[A-Za-z0-9_.,:;=+/-]+")
UNIT = re.compile(r"[A-Za-z0-9:_.@\\][A-Za-z0-9:_.@\\-]*")
SHA256 = re.compile(r"[0-9a-fA-F]{64}")
FOLDER = re.compile(r"(/(?!\.\.?(/|$))[\w.+-]+)+")
OPTION = re.compile(r"--[a-z0-9][a-z0-9-]*(=[\w./:,+@-]+)?")
SECONDS = f"whole seconds from 1 to {LONGEST}"
URL = re.compile(r"(https?|file)://\S+")


def one_of(choices: tuple[str, ...]) -> t.Callable[[t.Any], t.Any]:
    return lambda value: value if value in choices else None


def is_text(value: t.Any, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and bool(pattern.fullmatch(value))


def boolean(value: t.Any) -> bool | None:
    return value if isinstance(value, bool) else None


def url(value: t.Any) -> str | None:
    return value if value == "" or is_text(value, URL) else None


def openpgp_key(value: t.Any) -> str | None:
    armoured = isinstance(value, str) and value.lstrip().startswith("-----BEGIN PGP PUBLIC KEY BLOCK-----")
    return value if value == "" or armoured else None


def fingerprint(value: t.Any) -> str | None:
    """As people write one: spaces, colons, lower case. Version 4 has 40 digits, version 6 has 64."""
    text = re.sub(r"[\s:]", "", value).upper() if isinstance(value, str) else None
    return text if text == "" or (text and re.fullmatch(r"(0X)?([0-9A-F]{40}|[0-9A-F]{64})", text)) else None


def certificate(value: t.Any) -> str | None:
    found = isinstance(value, str) and re.search(r"-----BEGIN CERTIFICATE-----\s+MI[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----", value)
    return value if value == "" or found else None


def seconds(value: t.Any) -> int | None:
    """A time bound that a run gives: what the modules take (_seconds.py)."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LONGEST else None


def branch(value: t.Any) -> int | None:
    return int(value) if not isinstance(value, bool) and re.fullmatch(r"[1-9][0-9]{2,3}", str(value)) else None


def version(value: t.Any) -> str | None:
    return value if value == "" or is_text(value, VERSION) else None


def packages(value: t.Any) -> tuple[str, ...] | None:
    if not isinstance(value, (list, tuple)) or not all(is_text(name, PACKAGE) for name in value):
        return None
    return tuple(value)


def sha256(value: t.Any) -> str | None:
    return value.lower() if value == "" or is_text(value, SHA256) else None


def folder(value: t.Any) -> str | None:
    return value if is_text(value, FOLDER) else None


def long_options(value: t.Any) -> tuple[str, ...] | None:
    if not isinstance(value, (list, tuple)) or not all(is_text(option, OPTION) for option in value):
        return None
    return tuple(dict.fromkeys(value))


def units(value: t.Any) -> tuple[str, ...] | None:
    """systemd units; a name without a suffix is a service, as systemctl takes it."""
    if not isinstance(value, (list, tuple)) or not all(is_text(name, UNIT) for name in value):
        return None
    return tuple(value)


def imex(value: t.Any) -> dict[str, t.Any] | None:
    """The group as the role hands it over: its name, this host, all hosts with address and GPUs as far as known."""
    return dict(value) if isinstance(value, t.Mapping) and isinstance(value.get("group"), str) else None


def parameters(value: t.Any) -> dict[str, dict[str, str]] | None:
    if not isinstance(value, t.Mapping):
        return None
    out: dict[str, dict[str, str]] = {}
    for module, parameters in value.items():
        if not is_text(module, MODULE) or not isinstance(parameters, t.Mapping):
            return None
        for name, setting in parameters.items():
            text = str(int(setting)) if isinstance(setting, bool) else str(setting)
            if not is_text(name, PARAMETER) or not isinstance(setting, (str, int, float)) or not PARAMETER_VALUE.fullmatch(text):
                return None
            out.setdefault(module.replace("-", "_"), {})[name] = text
    return out
