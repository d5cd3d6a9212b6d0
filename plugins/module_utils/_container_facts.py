# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA Container Toolkit, container engines and CDI specifications. Private to the collection.

No daemon is asked: engines answer slowly, or not at all while they are being upgraded.
"""

from __future__ import annotations

import json
import os
import re
import typing as t

from ._package_sets import upstream
from ._packages import Packages
from ._reader import Reader

_ENGINES = (  # name, its packages, its binary, its unit
    ("docker", ("docker-ce", "docker.io", "moby-engine", "docker-engine"), "/usr/bin/dockerd", "docker.service"),
    ("containerd", ("containerd.io", "containerd"), "/usr/bin/containerd", "containerd.service"),
    ("podman", ("podman",), "/usr/bin/podman", "podman.socket"),
    ("crio", ("cri-o",), "/usr/bin/crio", "crio.service"),
)
_TOOLKIT = "nvidia-container-toolkit"
_CTK = "/usr/bin/nvidia-ctk"
_UNIT_DIRS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
_CDI_DIRS = ("/etc/cdi", "/var/run/cdi", "/run/cdi")


def read_containers(reader: Reader, packages: Packages, units: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """The part `containers` of gpu_info."""
    return {"toolkit": _toolkit(reader, packages), "engines": _engines(reader, packages, units), "cdi": _cdi(reader)}


def _toolkit(reader: Reader, packages: Packages) -> t.Optional[dict[str, t.Any]]:
    installed = packages.installed("toolkit")
    version = installed.get(_TOOLKIT) or installed.get(_TOOLKIT + "-base")
    if version is None and not os.path.exists(reader.fs(_CTK)):
        return None
    refresh = any(os.path.exists(reader.fs(f"{folder}/nvidia-cdi-refresh.service")) for folder in _UNIT_DIRS)
    return {"version": upstream(version) if version else "unknown", "packages": installed, "refresh_units": refresh}


def _engines(reader: Reader, packages: Packages, units: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    installed = packages.installed("engine")
    found = {}
    for engine, names, binary, unit in _ENGINES:
        version = next((v for name, v in installed.items() if name in names or (engine == "crio" and name.startswith("cri-o"))), None)
        if version or os.path.exists(reader.fs(binary)):
            active = units.get(unit, {}).get("active", "unknown")
            found[engine] = {"version": upstream(version) if version else None, "active": active}
    return found


def _cdi(reader: Reader) -> list[dict[str, t.Any]]:
    found, seen = [], set()
    for folder in _CDI_DIRS:
        real = os.path.realpath(reader.fs(folder))  # /var/run is /run on most systems
        for name in reader.names(reader.fs(folder), "containers.cdi") if real not in seen else ():
            if name.endswith((".json", ".yaml", ".yml")):
                found.append(_spec(reader, f"{folder}/{name}"))
        seen.add(real)
    return found


def _spec(reader: Reader, path: str) -> dict[str, t.Any]:
    spec: dict[str, t.Any] = {"path": path, "kind": None, "cdi_version": None, "devices": 0, "error": None}
    text = reader.text(reader.fs(path), "containers.cdi")
    if text is None:
        return {**spec, "error": "cannot be read"}
    try:
        content = json.loads(text) if path.endswith(".json") or text.startswith("{") else _yaml(text)
        devices = content.get("devices") or []
        spec["devices"] = devices if isinstance(devices, int) else len(devices)
        spec["kind"], spec["cdi_version"] = content.get("kind"), content.get("cdiVersion")
    except (ValueError, AttributeError, TypeError) as exc:
        return {**spec, "error": f"not a CDI specification: {exc}"}
    if not spec["kind"]:
        spec["error"] = "not a CDI specification: it has no kind"
    return spec


def _yaml(text: str) -> dict[str, t.Any]:
    """kind, cdiVersion and the number of devices of a specification as nvidia-ctk writes it; no YAML library on hosts."""
    found: dict[str, t.Any] = {}
    for key in ("kind", "cdiVersion"):
        match = re.search(rf"^{key}:\s*[\"']?([^\s\"'#]+)", text, re.MULTILINE)
        found[key] = match.group(1) if match else None
    block = re.search(r"^devices:[ \t]*\n((?:[ \t-].*\n?|\n)*)", text, re.MULTILINE)
    lines = block.group(1).splitlines() if block else []
    first = next((re.match(r"[ \t]*", line) for line in lines if line.lstrip().startswith("- ")), None)
    indent = first.group() if first else ""
    found["devices"] = sum(1 for line in lines if line.startswith(indent + "- "))
    return found
