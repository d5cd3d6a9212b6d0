# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running and installed kernels, their headers, and which one boots next. Private to the collection."""

from __future__ import annotations

import os
import platform
import re
import typing as t

from ._boot_kernel import boot_choice
from ._reader import Reader

_CC_TEXT = re.compile(r'^CONFIG_CC_VERSION_TEXT="(.*)"$', re.MULTILINE)
_COMPILER = re.compile(r"\b(?:(clang) version |(gcc)\S*(?: version)? (?:\([^)]*\) )?)(\d+(?:\.\d+)*)")
_GCC_PROGRAM = re.compile(r"gcc-(\d+)")


def read_kernel(reader: Reader) -> dict[str, t.Any]:
    """The part `host.kernel` of gpu_info."""
    installed = _installed(reader)
    release = reader.text(reader.proc("sys/kernel/osrelease")) or platform.release()
    next_boot, told_by = _next_boot(reader, installed)
    return {
        "release": release,
        "next_boot": next_boot,
        "next_boot_by": told_by,
        "compilers": compilers(reader, dict.fromkeys([release, *([next_boot] if next_boot else [])])),
        "headers": _headers(reader),
        "initramfs_tool": _initramfs_tool(reader),
        "installed": installed,
        "cmdline": reader.text(reader.proc("cmdline")),
        "tainted": reader.number(reader.proc("sys/kernel/tainted")),
    }


def _initramfs_tool(reader: Reader) -> t.Optional[str]:
    """`dracut` or `initramfs-tools`: a system may carry commands of both (Ubuntu 26.04), its kernels' hook says whose images boot."""
    hooks = reader.names(reader.fs("/etc/kernel/postinst.d"))
    places = [(name, f"/usr/{folder}/{name}") for name in ("dracut", "update-initramfs") for folder in ("sbin", "bin")]
    commands = {name for name, path in places if os.path.exists(reader.fs(path))}
    if "dracut" in hooks or commands == {"dracut"}:
        return "dracut"
    return "initramfs-tools" if commands else None


def version_key(release: str) -> list[tuple[int, t.Any]]:
    """Sort key of a kernel release: runs of digits as numbers, and `6.1.0~rc1` before `6.1.0`."""
    parts = re.findall(r"\d+|[a-zA-Z]+|~", release)
    return [(2, int(part)) if part.isdigit() else (0, "") if part == "~" else (1, part) for part in parts]


def _installed(reader: Reader) -> list[str]:
    boot = [name[8:] for name in reader.names(reader.fs("/boot")) if name.startswith("vmlinuz-") and "rescue" not in name]
    modules = reader.fs("/lib/modules")
    shipped = [name for name in reader.names(modules) if os.path.exists(f"{modules}/{name}/vmlinuz")]  # EL, also without /boot
    return sorted(set(boot + shipped), key=version_key)


def _next_boot(reader: Reader, installed: list[str]) -> tuple[t.Optional[str], t.Optional[str]]:
    """The kernel, and what told so; where no boot loader does, Debian's links and then the newest are the usual choice."""
    choice = boot_choice(reader, installed, version_key)
    if choice:
        return choice.kernel, choice.by
    for link in ("/vmlinuz", "/boot/vmlinuz"):
        target = reader.link(reader.fs(link)) or ""
        if target.startswith("vmlinuz-") and target[8:] in installed:
            return target[8:], "link"
    return (installed[-1], "newest") if installed else (None, None)


def compilers(reader: Reader, kernels: t.Iterable[str]) -> dict[str, t.Any]:
    """What built each kernel, and the compilers of this host: a module wants the same one."""
    running = reader.text(reader.proc("sys/kernel/osrelease"))
    built = {}
    for release in kernels:
        texts = (reader.text(reader.fs(path)) for path in (f"/boot/config-{release}", f"/lib/modules/{release}/config"))
        found = next(filter(None, (_CC_TEXT.search(text) for text in texts if text)), None)
        text = found.group(1) if found else (reader.text(reader.proc("version")) or "") if release == running else ""
        compiler = _COMPILER.search(text)
        if compiler:
            built[release] = f"{compiler.group(1) or compiler.group(2)} {compiler.group(3)}"
    here = {match.group(1) for match in map(_GCC_PROGRAM.fullmatch, reader.names(reader.fs("/usr/bin"))) if match}
    default = reader.link(reader.fs("/usr/bin/gcc"))
    major = re.search(r"gcc-(\d+)$", default or "")
    if not major and os.path.exists(reader.fs("/usr/bin/gcc")):  # EL: a file of its own, its version is a folder's name
        folders = [name for base in reader.names(reader.fs("/usr/lib/gcc")) for name in reader.names(reader.fs(f"/usr/lib/gcc/{base}"))]
        major = next((match for match in map(re.compile(r"(\d+)").match, folders) if match), None)
    chosen = major.group(1) if major else None
    return {"kernels": built, "default": chosen, "available": sorted(here | ({chosen} if chosen else set()), key=int)}


def _headers(reader: Reader) -> list[str]:
    modules = reader.fs("/lib/modules")
    found = {name for name in reader.names(modules) if os.path.isdir(f"{modules}/{name}/build/")}
    for folder, prefix in (("/usr/src", "linux-headers-"), ("/usr/src/kernels", "")):
        for name in reader.names(reader.fs(folder)):
            release = name[len(prefix) :]
            if name.startswith(prefix) and release[:1].isdigit() and not release.endswith("-common"):
                found.add(release)
    return sorted(found, key=version_key)
