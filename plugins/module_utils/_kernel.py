# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running and installed kernels, their headers, and which one boots next. Private to the collection."""

from __future__ import annotations

import os
import platform
import re
import typing as t

from ._reader import Reader


def read_kernel(reader: Reader) -> dict[str, t.Any]:
    """The part `host.kernel` of gpu_info."""
    installed = _installed(reader)
    return {
        "release": reader.text(reader.proc("sys/kernel/osrelease")) or platform.release(),
        "next_boot": _next_boot(reader, installed),
        "headers": _headers(reader),
        "installed": installed,
        "cmdline": reader.text(reader.proc("cmdline")),
        "tainted": reader.number(reader.proc("sys/kernel/tainted")),
    }


def version_key(release: str) -> list[tuple[int, t.Any]]:
    """Sort key of a kernel release: runs of digits as numbers, and `6.1.0~rc1` before `6.1.0`."""
    parts = re.findall(r"\d+|[a-zA-Z]+|~", release)
    return [(2, int(part)) if part.isdigit() else (0, "") if part == "~" else (1, part) for part in parts]


def _installed(reader: Reader) -> list[str]:
    boot = [name[8:] for name in reader.names(reader.fs("/boot")) if name.startswith("vmlinuz-") and "rescue" not in name]
    modules = reader.fs("/lib/modules")
    shipped = [name for name in reader.names(modules) if os.path.exists(f"{modules}/{name}/vmlinuz")]  # EL, also without /boot
    return sorted(set(boot + shipped), key=version_key)


def _next_boot(reader: Reader, installed: list[str]) -> t.Optional[str]:
    saved = _saved_entry(reader)
    for release in reversed(installed):
        if saved and saved.endswith(release):
            return release
    for link in ("/vmlinuz", "/boot/vmlinuz"):
        target = reader.link(reader.fs(link)) or ""
        if target.startswith("vmlinuz-") and target[8:] in installed:
            return target[8:]
    return installed[-1] if installed else None


def _saved_entry(reader: Reader) -> t.Optional[str]:
    """GRUB's saved entry; on EL its name ends in the kernel release."""
    for path in ("/boot/grub2/grubenv", "/boot/grub/grubenv"):
        found = re.search(r"^saved_entry=(\S+)$", reader.text(reader.fs(path)) or "", re.MULTILINE)
        if found:
            return found.group(1)
    return None


def _headers(reader: Reader) -> list[str]:
    modules = reader.fs("/lib/modules")
    found = {name for name in reader.names(modules) if os.path.isdir(f"{modules}/{name}/build/")}
    for folder, prefix in (("/usr/src", "linux-headers-"), ("/usr/src/kernels", "")):
        for name in reader.names(reader.fs(folder)):
            release = name[len(prefix) :]
            if name.startswith(prefix) and release[:1].isdigit() and not release.endswith("-common"):
                found.add(release)
    return sorted(found, key=version_key)
