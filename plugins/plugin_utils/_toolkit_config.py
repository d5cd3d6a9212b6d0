# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The toolkit's own config.toml: what differs, as arguments of `nvidia-ctk config`. Pure; private to the collection.

nvidia-ctk writes the file even where nothing changes, so it is called only for what differs. A key that is absent means its
default, which is therefore no difference.
"""

from __future__ import annotations

import difflib
import typing as t

from ._engine_common import HostFile
from ._engine_text import BrokenText, parse_toml

PATH = "/etc/nvidia-container-runtime/config.toml"

BOOLEANS: dict[str, bool] = {
    "disable-require": False,
    "accept-nvidia-visible-devices-envvar-when-unprivileged": True,
    "accept-nvidia-visible-devices-as-volume-mounts": False,
    "nvidia-container-cli.load-kmods": True,
    "nvidia-container-cli.no-pivot": False,
    "nvidia-container-cli.no-cgroups": False,
    "nvidia-container-runtime-hook.skip-mode-detection": False,
    "features.allow-cuda-compat-libs-from-container": False,
    "features.allow-ldconfig-from-container": False,
    "features.allow-unknown-oci-spec-fields": False,
    "features.disable-cuda-compat-lib-hook": False,
    "features.disable-imex-channel-creation": False,
    "features.ignore-imex-channel-requests": False,
    "features.no-additional-gids-for-device-nodes": False,
}
"""Key → default."""
TEXTS: dict[str, str | None] = {
    "swarm-resource": None,
    "supported-driver-capabilities": None,
    "nvidia-container-cli.root": "",
    "nvidia-container-cli.path": None,
    "nvidia-container-cli.debug": None,
    "nvidia-container-cli.ldcache": None,
    "nvidia-container-cli.user": None,
    "nvidia-container-cli.ldconfig": None,
    "nvidia-container-runtime.debug": None,
    "nvidia-container-runtime.log-level": "info",
    "nvidia-container-runtime.mode": "auto",
    "nvidia-container-runtime.modes.cdi.default-kind": "nvidia.com/gpu",
    "nvidia-container-runtime.modes.legacy.cuda-compat-mode": "ldconfig",
    "nvidia-container-runtime-hook.path": None,
    "nvidia-ctk.path": None,
}
LISTS: dict[str, list[str] | None] = {
    "nvidia-container-cli.environment": [],
    "nvidia-container-runtime.runtimes": ["runc", "crun"],
    "nvidia-container-runtime.modes.cdi.spec-dirs": ["/etc/cdi", "/var/run/cdi"],
    "nvidia-container-runtime.modes.cdi.annotation-prefixes": ["cdi.k8s.io/"],
}
DEFAULTS: dict[str, t.Any] = {**BOOLEANS, **TEXTS, **LISTS}
MODE = "nvidia-container-runtime.mode"
MODES = ("auto", "cdi", "jit-cdi", "legacy", "csv")
MISTAKES = {
    "nvidia-container-cli.devices": "no such key; devices come from the request",
    "nvidia-container-cli.env": "nvidia-container-cli.environment",
}


class WrongSetting(ValueError):
    """A setting that nvidia-ctk would refuse."""

    def __init__(self, key: str, value: t.Any, expected: str, nearest: str | None) -> None:
        super().__init__(key)
        self.key, self.value, self.expected, self.nearest = key, value, expected, nearest


def check(settings: t.Mapping[str, t.Any]) -> list[WrongSetting]:
    """Settings with an unknown key or a value of the wrong kind."""
    wrong = []
    for key, value in settings.items():
        if key not in DEFAULTS:
            close = difflib.get_close_matches(key, DEFAULTS, n=1)
            wrong.append(WrongSetting(key, value, "a key of the toolkit's config.toml", MISTAKES.get(key) or (close[0] if close else None)))
        elif key in BOOLEANS and not isinstance(value, bool):
            wrong.append(WrongSetting(key, value, "true or false", None))
        elif key in LISTS and not (isinstance(value, list) and all(isinstance(item, str) and ":" not in item for item in value)):
            wrong.append(WrongSetting(key, value, "a list of texts without a colon", None))
        elif key in TEXTS and not isinstance(value, str):
            wrong.append(WrongSetting(key, value, "text", None))
        elif key == MODE and value not in MODES:  # the runtime would refuse to start any container
            close = difflib.get_close_matches(value, MODES, n=1)
            wrong.append(WrongSetting(key, value, f"one of {', '.join(MODES)}", close[0] if close else None))
    return wrong


def differing(settings: t.Mapping[str, t.Any], file: HostFile) -> dict[str, tuple[t.Any, t.Any]]:
    """Key → (value now, value wanted). Raises BrokenText where the file cannot be read by the toolkit either."""
    tree = parse_toml(file.text)
    out = {}
    for key, wanted in settings.items():
        now: t.Any = tree
        for part in key.split("."):
            now = now.get(part) if isinstance(now, dict) else None
        if now is None:
            now = DEFAULTS.get(key)
        if now != wanted:
            out[key] = (now, wanted)
    return out


def arguments(changes: t.Mapping[str, tuple[t.Any, t.Any]], path: str = PATH) -> list[str]:
    """The call that makes these changes."""
    argv = ["/usr/bin/nvidia-ctk", "config", f"--config-file={path}", "--in-place"]
    for key, (_before, wanted) in changes.items():
        text = str(wanted).lower() if isinstance(wanted, bool) else ":".join(wanted) if isinstance(wanted, list) else wanted
        argv.append(f"--set={key}={text}")
    return argv


__all__ = ["PATH", "BrokenText", "WrongSetting", "arguments", "check", "differing"]
