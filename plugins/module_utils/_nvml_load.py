# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find `pynvml` and tell the real one (distribution nvidia-ml-py) from others. Private to the collection.

Runs in the NVML child only: importing an unknown module executes it.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import types
import typing as t

_NEEDED = (
    "NVMLError",
    "nvmlInitWithFlags",
    "nvmlShutdown",
    "nvmlDeviceGetCount",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetFieldValues",
)
_METADATA = re.compile(r"(pynvml|nvidia[._-]ml[._-]py)-([0-9][^-]*?)(?:-py[0-9.]+)?\.(?:dist|egg)-info$", re.IGNORECASE)
_FIX = "install nvidia-ml-py (role gpufleet.inference.gpu_preflight puts it on a host)"


class LoadError(Exception):
    """No usable `pynvml`; `state` is no_pynvml or impostor_pynvml."""

    def __init__(self, state: str, text: str, found: t.Optional[dict[str, t.Any]] = None) -> None:
        super().__init__(text)
        self.state = state
        self.text = text
        self.found = found


def load(folder: str) -> tuple[types.ModuleType, dict[str, t.Any]]:
    """The module `pynvml`, from `folder` if it is there, and its {version, path}."""
    if os.path.isdir(folder):
        sys.path.insert(0, folder)
    sys.modules.pop("pynvml", None)  # a long-lived parent may have imported another one
    try:
        module = importlib.import_module("pynvml")
    except ModuleNotFoundError as exc:
        if exc.name == "pynvml":
            raise LoadError("no_pynvml", "no Python module pynvml on this host; " + _FIX) from None
        raise LoadError("impostor_pynvml", f"the installed pynvml cannot be imported ({exc}); {_FIX}") from None
    except Exception as exc:  # whatever an unknown module does
        raise LoadError("impostor_pynvml", f"the installed pynvml cannot be imported ({repr(exc)[:200]}); {_FIX}") from None
    path = os.path.realpath(getattr(module, "__file__", None) or "")
    names, version = _distributions(path)
    found = {"version": version, "path": path}
    missing = [name for name in _NEEDED if not hasattr(module, name)]
    if missing:
        raise LoadError("impostor_pynvml", "{} is not nvidia-ml-py: it has no {}; {}".format(path or "pynvml", missing[0], _FIX), found)
    if names and version is None:
        raise LoadError("impostor_pynvml", "{} belongs to {}, not to nvidia-ml-py; {}".format(path, ", ".join(names), _FIX), found)
    return module, found


def locate(folder: str) -> t.Optional[dict[str, t.Any]]:
    """{version, path} of what `load` would import, by looking only; version is None for an impostor."""
    for place in [folder, *sys.path]:
        for name in ("pynvml.py", os.path.join("pynvml", "__init__.py")):
            path = os.path.realpath(os.path.join(place, name))
            if place and os.path.isfile(path):
                return {"version": _distributions(path)[1], "path": path}
    return None


def _distributions(path: str) -> tuple[list[str], t.Optional[str]]:
    """Distributions that could own the module, judged by the metadata beside it, and nvidia-ml-py's version."""
    folder, base = os.path.split(path)
    package = base == "__init__.py"  # nvidia-ml-py ships one file; a package is someone else's copy
    names, version = [], None
    for entry in sorted(os.listdir(os.path.dirname(folder) if package else folder)) if path else ():
        found = _METADATA.match(entry)
        if found:
            names.append(found.group(1))
            if found.group(1).lower() != "pynvml" and not package:
                version = found.group(2)
    return names, version
