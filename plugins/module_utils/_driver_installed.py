# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver as installed: by packages or NVIDIA's runfile, its kernel module, and DKMS. Private to the collection."""

from __future__ import annotations

import os
import re
import typing as t

from ._package_sets import driver_version, is_driver, kernel_modules
from ._packages import Packages
from ._reader import Reader
from ._subprocess import run

_RUNFILE = ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer")
_RUNFILE_BACKUP = "/var/lib/nvidia/log"
"""What the installer put where, headed by the version in brackets; for root only. Its other log may be of an attempt that failed."""
_RUNFILE_LOG = "/var/log/nvidia-installer.log"
_MODULE_NAMES = ("nvidia", "nvidia-current", "nvidia-current-open")
"""The usual one, and Debian's by kind. The first is an alias of one of them where its packages or the driver role say so."""
_MODINFO_TIMEOUT = 60.0
"""It unpacks all of a compressed module (42 MB): a second at work, 21 s seen on an emulated host, more while that is busy."""
MODULE_VERSION = "driver.installed.module_version"
"""Part that is noted as unread where modinfo gave no answer: whether there is a module is not known then."""


def read_installed(
    reader: Reader, packages: Packages, evidence: bool, kernels: t.Sequence[t.Optional[str]] = ()
) -> t.Optional[dict[str, t.Any]]:
    """What is on disk, None if that is no driver. `evidence`: a module is loaded or a library is there; `kernels`: running, next."""
    driver = {name: package for name, package in packages.packages.items() if package.set == "driver"}
    present = packages.installed("driver")
    by_package = any(is_driver(name) for name in present)
    by_runfile = any(os.path.exists(reader.fs(path)) for path in _RUNFILE)
    dkms = _dkms(reader)
    if not (by_package or by_runfile or dkms or evidence):
        return None
    module = _module(reader)
    version = driver_version(present) if by_package else None
    if not version:
        version = _runfile_version(reader) if by_runfile else (module or {}).get("version")
    return {
        "version": version,
        "origin": "runfile" if by_runfile else "package" if by_package else "unknown",
        "packages": {name: {"version": p.version, "held": p.held, "status": p.status} for name, p in sorted(driver.items())},
        "kernel_modules": _kind((module or {}).get("license")) or kernel_modules(present),
        "module_version": (module or {}).get("version"),
        "modules": _of_kernels(reader, module, kernels),
        "dkms": dkms,
    }


def _kind(licence: t.Optional[str]) -> t.Optional[str]:
    return None if not licence else "open" if "GPL" in licence else "proprietary"


def _of_kernels(reader: Reader, running: t.Optional[t.Mapping[str, str]], kernels: t.Sequence[t.Optional[str]]) -> dict[str, t.Any]:
    """Kernel release → its module on disk (null: none; not there: it cannot be told), of the running and the next kernel."""
    found = {}
    for release in dict.fromkeys(kernel for kernel in kernels if kernel):
        module = running if release == kernels[0] else _module(reader, release)
        if module is None:
            continue
        found[release] = {"version": module["version"], "kernel_modules": _kind(module.get("license"))} if "version" in module else None
    return found


def _module(reader: Reader, kernel: t.Optional[str] = None) -> t.Optional[dict[str, str]]:
    """`version` and `license` of the module that a load would take, in the running or another kernel; None: modinfo gave no answer."""
    for name in _MODULE_NAMES:
        result = run(["modinfo", *reader.base("-b"), *(["-k", kernel] if kernel else []), name], timeout=_MODINFO_TIMEOUT)
        if result.state in ("timeout", "hung"):
            reader.note(MODULE_VERSION, f"modinfo gave no answer in {_MODINFO_TIMEOUT:g} s")
            return None
        fields = dict(re.findall(r"^(version|license):\s+(.+?)\s*$", result.out, re.MULTILINE))
        if result.success and fields:
            return fields
    return {}


def _runfile_version(reader: Reader) -> t.Optional[str]:
    listed = re.match(r".*\((\d{3,}\.\d+(?:\.\d+)?)\)", reader.text(reader.fs(_RUNFILE_BACKUP), "driver.installed.version") or "")
    if listed:
        return listed.group(1)
    log = reader.text(reader.fs(_RUNFILE_LOG), "driver.installed.version", limit=65536) or ""
    found = re.search(r"(?:installing|Driver).*?\b(\d{3,}\.\d+(?:\.\d+)?)\b|version:?\s+(\d{3,}\.\d+(?:\.\d+)?)", log)
    return (found.group(1) or found.group(2)) if found else None


def _dkms(reader: Reader) -> list[dict[str, str]]:
    """As `dkms status` tells it, from its tree: a version folder is added, a kernel folder in it built, a kernel-* link installed."""
    out = []
    tree = reader.fs("/var/lib/dkms")
    for name in reader.names(tree):
        if not name.startswith("nvidia"):
            continue
        entries = reader.names(f"{tree}/{name}")
        # a link kernel-RELEASE-ARCH → VERSION/RELEASE/ARCH
        links = {entry: os.path.realpath(f"{tree}/{name}/{entry}") for entry in entries if entry.startswith("kernel-")}
        for version in entries:
            if version.startswith("kernel-") or not os.path.isdir(f"{tree}/{name}/{version}"):
                continue
            out += _dkms_version(reader, tree, name, version, links)
    return out


def _dkms_version(reader: Reader, tree: str, name: str, version: str, links: t.Mapping[str, str]) -> list[dict[str, str]]:
    folder = f"{tree}/{name}/{version}"
    found = []
    for kernel in reader.names(folder):
        if kernel in ("source", "build") or not os.path.isdir(f"{folder}/{kernel}"):
            continue
        for arch in reader.names(f"{folder}/{kernel}"):
            state = "installed" if links.get(f"kernel-{kernel}-{arch}") == os.path.realpath(f"{folder}/{kernel}/{arch}") else "built"
            found.append({"name": name, "version": version, "kernel": kernel, "state": state})
    return found or [{"name": name, "version": version, "kernel": "", "state": "added"}]
