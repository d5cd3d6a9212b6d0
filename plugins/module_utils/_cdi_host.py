# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CDI specifications and the device nodes and files that they speak of. Private to the collection.

Specifications are parsed on the controller; here their paths are only found, to say of each what is really there.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import stat
import typing as t

from ._config_files import read_config
from ._files import read_text

FOLDERS = ("/etc/cdi", "/var/run/cdi")
_NODES = ("/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/nvidia-caps-imex-channels/*")
_CAPABILITIES = tuple(
    f"/proc/driver/nvidia/capabilities/{name}" for name in ("mig/config", "mig/monitor", "gpu*/mig/gi*/access", "gpu*/mig/gi*/ci*/access")
)
MODPROBE = "nvidia-modprobe"
_PATH = re.compile(r"[\"']?(?:hostPath|path)[\"']?\s*:\s*[\"']?(/[^\s\"',}]+)")


def read_cdi() -> dict[str, t.Any]:
    """{specs: [{path, state, reason, text}], paths: path → what is there, dev_char_missing: links, caps_missing: nodes,
    modprobe: is there the program that makes these}"""
    specs, seen = [], set()
    for folder in reversed(FOLDERS):  # where /etc/cdi is a link to the other, the one that the toolkit writes to has the name
        real = os.path.realpath(folder)
        names = sorted(os.listdir(real)) if real not in seen and os.path.isdir(real) else []
        specs += [read_config(f"{folder}/{name}") for name in names if name.endswith((".json", ".yaml", ".yml"))]
        seen.add(real)
    paths = {path for pattern in _NODES for path in glob.glob(pattern)}
    for spec in specs:
        if "nvidia.com/" in (spec["text"] or ""):
            paths.update(_PATH.findall(spec["text"]))
    known = {path: what_is_at(path) for path in sorted(paths)}
    return {
        "specs": specs,
        "paths": known,
        "dev_char_missing": _missing_links(known),
        "caps_missing": _missing_caps(),
        "modprobe": bool(shutil.which(MODPROBE)),
    }


def what_is_at(path: str) -> t.Optional[dict[str, t.Any]]:
    """{type, major, minor}; None where nothing is."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    if stat.S_ISCHR(found.st_mode):
        return {"type": "char", "major": os.major(found.st_rdev), "minor": os.minor(found.st_rdev)}
    return {"type": "dir" if stat.S_ISDIR(found.st_mode) else "file", "major": None, "minor": None}


def _missing_caps() -> list[str]:
    """Nodes of capabilities (of MIG) that the driver offers, that may be made, and that nobody has made yet."""
    found = []
    for path in (path for pattern in _CAPABILITIES for path in sorted(glob.glob(pattern))):
        fields = dict(re.findall(r"^(DeviceFile\w+):\s*(\d+)", read_text(path) or "", re.MULTILINE))
        node = f"/dev/nvidia-caps/nvidia-cap{fields.get('DeviceFileMinor')}"
        if "DeviceFileMinor" in fields and fields.get("DeviceFileModify") != "0" and not os.path.exists(node):
            found.append(node)
    return found


def _missing_links(known: t.Mapping[str, t.Optional[t.Mapping[str, t.Any]]]) -> list[str]:
    """NVIDIA's device nodes without a link in /dev/char, which systemd needs to let a container keep them over a daemon-reload."""
    nodes = [node for path, node in known.items() if node and node["type"] == "char" and path.startswith("/dev/nvidia")]
    return sorted(link for link in (f"/dev/char/{node['major']}:{node['minor']}" for node in nodes) if not os.path.exists(link))
