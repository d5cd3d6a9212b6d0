# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVIDIA driver: installed, loaded, its library, and what stands in its way. Private to the collection."""

from __future__ import annotations

import hashlib
import os
import re
import typing as t

from ._driver_installed import read_installed
from ._packages import Packages
from ._reader import Reader

_VERSION = re.compile(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b")
_LIBRARY = "libnvidia-ml.so.1"
_LIBRARY_DIRS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
)
_MODPROBE_DIRS = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d")
_BLACKLIST = re.compile(r"^\s*(?:blacklist\s+nouveau\s*$|install\s+nouveau\s+(?:/usr)?/bin/(?:false|true))", re.MULTILINE)
_BLACKLIST_CMDLINE = re.compile(r"(?:^|\s)(?:modprobe\.blacklist|module_blacklist|rd\.driver\.blacklist)=(?:\S*,)?nouveau(?:,|\s|$)")
_REPOSITORY = re.compile(r"https?://[^\s\"']*(?:developer\.download\.nvidia\.com|/compute/cuda/repos)[^\s\"']*")
_ANY_URL = re.compile(r"^(?!\s*#).*?((?:https?|file|ftp)://[^\s\"']+)", re.MULTILINE)


def read_driver(
    reader: Reader, packages: Packages, pci: t.Mapping[str, t.Any], library: t.Optional[str], kernels: t.Sequence[t.Optional[str]] = ()
) -> dict[str, t.Any]:
    """The part `driver` of gpu_info; `kernels`: the running and the next one."""
    loaded = read_loaded(reader)
    found = read_library(reader, library)
    return {
        "installed": read_installed(reader, packages, bool(loaded or found), kernels),
        "loaded": loaded,
        "library": found,
        "nouveau": _nouveau(reader, pci),
        "device_nodes": [f"/dev/{name}" for name in reader.names(reader.fs("/dev")) if name.startswith("nvidia")],
        "modprobe_conf": _modprobe_conf(reader),
        "repository": _repository(reader),
    }


def read_loaded(reader: Reader) -> t.Optional[dict[str, t.Any]]:
    """The loaded module, None if there is none."""
    banner = reader.text(reader.proc("driver/nvidia/version")) or ""
    found = _VERSION.search(banner)
    version = found.group(1) if found else reader.text(reader.sys("module/nvidia/version"))
    if not version:
        return None
    modules = [name for name in reader.names(reader.sys("module")) if name == "nvidia" or name.startswith("nvidia_")]
    kind = None if not banner else "open" if "Open Kernel Module" in banner else "proprietary"
    return {
        "version": version,
        "kernel_modules": kind,
        "modules": modules,
        "parameters": _parameters(reader, modules),
        "refcount": reader.number(reader.sys("module/nvidia/refcnt")),
    }


def _parameters(reader: Reader, modules: list[str]) -> dict[str, str]:
    """Parameters as modprobe.d names them: NVreg_… of nvidia, `module.parameter` of the others."""
    out = {}
    for line in (reader.text(reader.proc("driver/nvidia/params")) or "").splitlines():
        key, colon, value = line.partition(":")
        if colon:
            out["NVreg_" + key.strip()] = value.strip().strip('"')
    for module in modules:
        folder = reader.sys(f"module/{module}/parameters")
        for name in reader.names(folder):
            current = reader.text(f"{folder}/{name}")
            if current is not None:
                out.setdefault(name if module == "nvidia" else f"{module}.{name}", current)
    return out


def read_library(reader: Reader, given: t.Optional[str]) -> t.Optional[dict[str, t.Any]]:
    """NVML's library as the loader would find it; its version is the suffix of the real file's name."""
    path = given or _find_library(reader)
    if path is None or not os.path.exists(path):
        return None
    real = os.path.basename(os.path.realpath(path))
    version = real.partition(".so.")[2]
    return {"path": reader.shown(path), "version": version if _VERSION.fullmatch(version) else None}


def _find_library(reader: Reader) -> t.Optional[str]:
    folders = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder.startswith("/")]
    cached = re.findall(rb"(/[^\0]+)/libnvidia-ml\.so\.1\0", reader.data(reader.fs("/etc/ld.so.cache")) or b"")
    folders += [folder.decode() for folder in cached]
    native = [folder for folder in (*folders, *_LIBRARY_DIRS) if "i386" not in folder]
    return next((path for path in (reader.fs(f"{folder}/{_LIBRARY}") for folder in native) if os.path.exists(path)), None)


def _nouveau(reader: Reader, pci: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    texts = (text for _path, text in _modprobe_files(reader))
    cmdline = reader.text(reader.proc("cmdline")) or ""
    return {
        "loaded": os.path.isdir(reader.sys("module/nouveau")),
        "bound": [gpu["address"] for gpu in pci["gpus"] if gpu["driver"] == "nouveau"],
        "blacklisted": any(_BLACKLIST.search(text) for text in texts) or bool(_BLACKLIST_CMDLINE.search(cmdline)),
    }


def _modprobe_files(reader: Reader) -> t.Iterator[tuple[str, str]]:
    for folder in _MODPROBE_DIRS:
        for name in reader.names(reader.fs(folder)):
            if name.endswith(".conf"):
                yield f"{folder}/{name}", reader.text(reader.fs(f"{folder}/{name}"), "driver.nouveau.blacklisted") or ""


def _modprobe_conf(reader: Reader) -> dict[str, str]:
    out = {}
    for name in reader.names(reader.fs("/etc/modprobe.d")):
        content = reader.data(reader.fs(f"/etc/modprobe.d/{name}")) if name.startswith("gpufleet-") else None
        if content is not None:
            out[f"/etc/modprobe.d/{name}"] = hashlib.sha256(content).hexdigest()
    return out


def _repository(reader: Reader) -> t.Optional[dict[str, t.Any]]:
    """NVIDIA's repository as a package manager knows it; ours first."""
    found = []
    for folder in ("/etc/apt/sources.list.d", "/etc/yum.repos.d", "/etc/zypp/repos.d"):
        for name in reader.names(reader.fs(folder)):
            if not name.endswith((".list", ".sources", ".repo")):
                continue
            owned = name.startswith("gpufleet-nvidia")
            text = "\n".join(line for line in (reader.text(reader.fs(f"{folder}/{name}")) or "").splitlines() if line.lstrip()[:1] != "#")
            match = _REPOSITORY.search(text) or (_ANY_URL.search(text) if owned else None)
            if match:
                found.append({"file": f"{folder}/{name}", "url": match.group(match.lastindex or 0), "owned": owned})
    return min(found, key=lambda entry: not entry["owned"], default=None)
