# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA toolkits, forward compatibility, cuDNN and NCCL on a host. Private to the collection."""

from __future__ import annotations

import json
import os
import re
import typing as t

from ._package_sets import upstream
from ._packages import Packages
from ._reader import Reader

_LIBRARY_DIRS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
_CUDNN = re.compile(r"(?:libcudnn(\d+)?|cudnn\d*)(?:-cuda-(\d+))?(?:-\d+)?$")
_NCCL = re.compile(r"libnccl\d*$")
_BUILT_FOR = re.compile(r"\+cuda(\d+)")
_NCCL_FILE = re.compile(r"libnccl\.so\.(\d+\.\d+\.\d+)$")
_CUDNN_FILE = re.compile(r"libcudnn\.so\.(\d+\.\d+\.\d+)$")


def read_cuda(reader: Reader, packages: Packages) -> dict[str, t.Any]:
    """The part `cuda` of gpu_info."""
    installed = packages.installed("cuda", "driver")  # cuda-compat is of the driver's making, by name it is CUDA's
    folders = _folders(reader)
    names = [
        name for folder in _LIBRARY_DIRS for name in reader.names(reader.fs(folder)) if name.startswith(("libcudnn.so.", "libnccl.so."))
    ]
    return {
        "toolkits": _toolkits(reader, installed, folders),
        "compat": _compat(reader, folders),
        "cudnn": _libraries(names, installed, _CUDNN, _CUDNN_FILE),
        "nccl": _libraries(names, installed, _NCCL, _NCCL_FILE),
    }


def _folders(reader: Reader) -> list[str]:
    """/usr/local/cuda-12.4 …; the links cuda and cuda-12 only point at them."""
    local = reader.fs("/usr/local")
    names = [name for name in reader.names(local) if re.match(r"cuda(-\d+(\.\d+)*)?$", name)]
    return [f"{local}/{name}" for name in names if os.path.isdir(f"{local}/{name}") and not os.path.islink(f"{local}/{name}")]


def _toolkits(reader: Reader, installed: t.Mapping[str, str], folders: list[str]) -> list[dict[str, t.Any]]:
    default = os.path.realpath(reader.fs("/usr/local/cuda"))
    found = []
    for folder in folders:
        version = _version(reader, folder)
        if not version:
            continue
        suffix = "-".join(version.split(".")[:2])
        packaged = any(name.startswith(("cuda-toolkit-", "cuda-nvcc-", "cuda-cudart-")) and name.endswith(suffix) for name in installed)
        origin = "package" if packaged else "runfile"
        found.append({"version": version, "path": reader.shown(folder), "origin": origin, "default": os.path.realpath(folder) == default})
    if "nvidia-cuda-toolkit" in installed:  # Debian's own, spread over /usr
        version = upstream(installed["nvidia-cuda-toolkit"])
        found.append({"version": version, "path": "/usr/lib/nvidia-cuda-toolkit", "origin": "package", "default": not found})
    return found


def _version(reader: Reader, folder: str) -> t.Optional[str]:
    try:
        described = json.loads(reader.text(f"{folder}/version.json") or "{}")
        version = described.get("cuda", {}).get("version")
    except (ValueError, AttributeError):
        version = None
    if version:
        return str(version)
    found = re.search(r"CUDA Version (\d+\.\d+(?:\.\d+)?)", reader.text(f"{folder}/version.txt") or "")
    if found:
        return found.group(1)
    named = re.search(r"cuda-(\d+\.\d+)$", folder)
    return named.group(1) if named and os.path.exists(f"{folder}/bin/nvcc") else None


def _compat(reader: Reader, folders: list[str]) -> list[dict[str, str]]:
    found = []
    for folder in folders:
        for name in reader.names(f"{folder}/compat"):
            version = name.partition("libcuda.so.")[2]
            if version.count("."):
                found.append({"version": version, "path": reader.shown(f"{folder}/compat")})
    return found


def _libraries(
    names: t.Iterable[str], installed: t.Mapping[str, str], package: t.Pattern[str], file: t.Pattern[str]
) -> list[dict[str, t.Any]]:
    found: dict[tuple[str, t.Optional[int]], None] = {}
    for name, full in installed.items():
        match = package.match(name)
        if match:
            groups = match.groups()
            built = _BUILT_FOR.search(full)
            major = groups[1] if len(groups) > 1 and groups[1] else built.group(1) if built else None
            found[upstream(full), int(major) if major else None] = None
    known = {version.rsplit(".", 1)[0] if version.count(".") > 2 else version for version, _major in found}
    for name in names:
        match = file.match(name)
        if match and match.group(1) not in known:  # put there without a package
            found[match.group(1), None] = None
            known.add(match.group(1))
    return [{"version": version, "cuda_major": major} for version, major in found]
