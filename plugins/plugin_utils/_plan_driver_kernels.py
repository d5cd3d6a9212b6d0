# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The running and the next-boot kernel: whether each has its module, and the compiler that builds one.

Private to the collection, pure.
"""

from __future__ import annotations

import re

from ._plan_driver_facts import HostDriver
from ._plan_driver_part import Part


def next_boot_version(host: HostDriver) -> str | None:
    """Version of the module that the next kernel has; '' is none, None: it cannot be told."""
    kernel = host.next_kernel
    if not kernel:
        return None
    if any(entry.get("kernel") == kernel and entry.get("state") == "installed" for entry in host.dkms):
        built = next(entry for entry in host.dkms if entry.get("kernel") == kernel and entry.get("state") == "installed")
        return str(built.get("version") or "")
    if kernel in host.modules:
        return str((host.modules[kernel] or {}).get("version") or "")
    return "" if host.dkms else None


def next_boot_part(host: HostDriver, version: str, reboots: bool) -> Part:
    """Rebooting into a kernel without the module would take a working host away: blocks our reboot, warns of anyone's."""
    part = Part(source="docs/driver_running.md")
    kernel = host.next_kernel
    found = next_boot_version(host)
    if found is None or not host.gpus or (found and (not version or found == version)):
        return part
    if not reboots and kernel == host.kernel.get("release"):
        return part
    told = host.kernel.get("next_boot_by")
    headers = "present" if kernel in (host.kernel.get("headers") or []) else "missing"
    states = "; ".join(f"{entry.get('version')} for {entry.get('kernel') or '?'}: {entry.get('state')}" for entry in host.dkms)
    compiler = compiler_missing(host, str(kernel))
    part.find(
        "module_missing_next_boot",
        "block" if reboots else "warn",
        f"The next boot takes kernel {kernel}{f' (told by {told})' if told else ''}, for which "
        + (f"only nvidia module {found} is there, not {version}" if found else "there is no nvidia module")
        + f" (headers {headers}{'; ' + compiler if compiler else ''}); a reboot would leave the host without "
        + ("the asked driver." if found else "GPUs."),
        found=states or found or "no nvidia module, and DKMS knows none",
        needed=f"module {version} for {kernel}".replace("  ", " "),
        fix=f"Install {_headers_package(host, str(kernel))} and run `dkms autoinstall -k {kernel}`, "
        "or let the boot loader take a kernel that has the module.",
        subject=str(kernel),
    )
    return part


def compiler_part(host: HostDriver) -> Part:
    """Before DKMS builds: a kernel whose compiler the host does not have."""
    part = Part(source="docs/driver_running.md")
    for kernel in host.kernels:
        text = compiler_missing(host, kernel)
        if text:
            part.find(
                "compiler_mismatch",
                "warn",
                f"Kernel {kernel} was built with another compiler than this host has: {text}. "
                "A module built with that one may not compile, or not load.",
                found=", ".join(f"gcc {major}" for major in host.compilers.get("available") or []),
                needed=str((host.compilers.get("kernels") or {}).get(kernel)),
                fix=f"Install {_package(host, kernel)}; DKMS takes the compiler that the kernel's configuration names.",
                subject=kernel,
            )
    return part


def compiler_missing(host: HostDriver, kernel: str) -> str:
    """'built with gcc 13.2.0, here is gcc 12'; empty where they fit, or nothing can be said (DKMS brings a compiler along)."""
    built = str((host.compilers.get("kernels") or {}).get(kernel) or "")
    available = [str(major) for major in host.compilers.get("available") or []]
    if not built or not available:
        return ""
    name, _space, version = built.partition(" ")
    if name == "gcc" and version.split(".")[0] in available:
        return ""
    return f"built with {built}, here is {', '.join(f'gcc {major}' for major in available)}"


def _headers_package(host: HostDriver, kernel: str) -> str:
    return f"kernel-devel-{kernel}" if host.manager == "dnf" else f"linux-headers-{kernel}"


def _package(host: HostDriver, kernel: str) -> str:
    found = re.match(r"(\w+) (\d+)", str((host.compilers.get("kernels") or {}).get(kernel) or ""))
    name, major = found.groups() if found else ("gcc", "")
    return name if host.manager == "dnf" else f"{name}-{major}"
