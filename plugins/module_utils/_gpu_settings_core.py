# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host core: which module_utils are copied to a host for its boot units, and the hash they are known by.

Private to the collection. The same function makes the hash in all three places where it is needed: on the
controller (what would be installed), in the module (what it installs) and in `gpu_info` (what is there).
"""

from __future__ import annotations

import hashlib
import os
import typing as t

PACKAGE = "gpufleet_host"
"""Name of the copy as a Python package: the last part of _paths.RUNTIME_DIR."""

CORE: tuple[str, ...] = (
    "_bounded",
    "_errors",
    "_files",
    "_gpu_settings_apply",
    "_gpu_settings_boot",
    "_gpu_settings_control",
    "_gpu_settings_core",
    "_gpu_settings_device",
    "_gpu_settings_governor",
    "_gpu_settings_lock",
    "_gpu_settings_records",
    "_gpu_settings_rules",
    "_gpu_settings_session",
    "_gpu_settings_targets",
    "_gpu_settings_values",
    "_gpu_settings_words",
    "_hung",
    "_nvml",
    "_nvml_errors",
    "_nvml_load",
    "_paths",
    "_pci",
    "_reader",
    "_state",
    "_wait",
)
"""Names below plugins/module_utils, closed under import (tests/unit/gpu_settings/test_core.py)."""

_INIT = '"""Copy of gpufleet.inference\'s module_utils, written by its module gpu_settings. Changes are overwritten."""\n'
_MAIN = """\
\"\"\"Entry of the gpufleet-* units: python3 -m gpufleet_host COMMAND.\"\"\"

from ._gpu_settings_boot import main

raise SystemExit(main())
"""


def core_files(read: t.Callable[[str], bytes]) -> dict[str, bytes]:
    """File name → content of the copy; `read` gives the source of one of CORE."""
    files = {name + ".py": read(name) for name in CORE}
    files["__init__.py"] = _INIT.encode()
    files["__main__.py"] = _MAIN.encode()
    return files


def digest(files: t.Mapping[str, bytes]) -> str:
    """Identity of a set of files: independent of order, sensitive to names and content."""
    total = hashlib.sha256()
    for name in sorted(files):
        total.update(f"{name} {hashlib.sha256(files[name]).hexdigest()}\n".encode())
    return total.hexdigest()


def installed_sha256(folder: str) -> t.Optional[str]:
    """Hash of the copy that is on this host, None when there is none."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
        files = {}
        for name in names:
            with open(os.path.join(folder, name), "rb") as source:
                files[name] = source.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return digest(files) if files else None
