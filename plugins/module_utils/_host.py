# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine and its operating system, without GPUs. Private to the collection."""

from __future__ import annotations

import os
import platform
import re
import typing as t

from ._kernel import read_kernel
from ._reader import Reader
from ._secure_boot import read_secure_boot

_FAMILIES = (
    ("debian", ("debian", "ubuntu")),
    ("redhat", ("rhel", "fedora", "centos", "rocky", "almalinux", "ol", "amzn")),
    ("suse", ("suse", "sles", "opensuse", "opensuse-leap")),
)
_DMI = (  # part of sys_vendor or product_name → hypervisor, as systemd-detect-virt names them
    ("KVM", "kvm"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("innotek", "oracle"),
    ("Xen", "xen"),
    ("Virtual Machine", "microsoft"),
    ("Google Compute", "google"),
    ("OpenStack", "kvm"),
    ("Nutanix", "kvm"),
)


def read_host(reader: Reader) -> dict[str, t.Any]:
    """The part `host` of gpu_info."""
    return {
        "hostname": platform.node(),
        "boot_id": reader.text(reader.proc("sys/kernel/random/boot_id")),
        "machine_arch": platform.machine(),
        "os": read_os(reader),
        "kernel": read_kernel(reader),
        "secure_boot": read_secure_boot(reader),
        "virtualization": {"container": _container(reader), "hypervisor": _hypervisor(reader)},
        "init": "systemd" if os.path.isdir(reader.fs("/run/systemd/system")) else "other",
        "python": platform.python_version(),
        "cpu": {
            "count": os.cpu_count() or 1,
            "numa_nodes": max(1, len([n for n in reader.names(reader.sys("devices/system/node")) if re.match(r"node\d+$", n)])),
        },
        "memory_bytes": _memory(reader),
        "root": os.geteuid() == 0,
    }


def read_os(reader: Reader) -> dict[str, t.Any]:
    """The part `host.os`: /etc/os-release, and the family that decides about package managers."""
    text = reader.text(reader.fs("/etc/os-release")) or reader.text(reader.fs("/usr/lib/os-release")) or ""
    release = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            release[key.strip()] = value.strip().strip("\"'")
    like = release.get("ID_LIKE", "").split()
    names = [release.get("ID", ""), *like]
    family = next((family for name in names for family, members in _FAMILIES if name in members), "unknown")
    return {
        "id": release.get("ID", ""),
        "id_like": like,
        "version_id": release.get("VERSION_ID", ""),
        "codename": release.get("VERSION_CODENAME", ""),
        "pretty_name": release.get("PRETTY_NAME", ""),
        "family": family,
    }


def _container(reader: Reader) -> t.Optional[str]:
    named = reader.text(reader.fs("/run/systemd/container"))
    if named:
        return named
    if os.path.exists(reader.fs("/run/.containerenv")):
        return "podman"
    if os.path.exists(reader.fs("/.dockerenv")):
        return "docker"
    environ = reader.data(reader.proc("1/environ"), "host.virtualization.container") or b""
    return next((item[10:].decode() for item in environ.split(b"\0") if item.startswith(b"container=") and len(item) > 10), None)


def _hypervisor(reader: Reader) -> t.Optional[str]:
    kind = reader.text(reader.sys("hypervisor/type"))
    if kind:
        return kind
    dmi = " ".join(reader.text(reader.sys(f"class/dmi/id/{name}")) or "" for name in ("sys_vendor", "product_name"))
    if dmi.startswith("Amazon EC2"):
        return None if ".metal" in dmi else "amazon"
    for part, name in _DMI:
        if part in dmi:
            return name
    flags = reader.text(reader.proc("cpuinfo"), limit=8192) or ""  # the whole file costs milliseconds on large machines
    return "unknown" if re.search(r"^flags\s*:.*\bhypervisor\b", flags, re.MULTILINE) else None


def _memory(reader: Reader) -> t.Optional[int]:
    found = re.search(r"^MemTotal:\s+(\d+) kB", reader.text(reader.proc("meminfo")) or "", re.MULTILINE)
    return int(found.group(1)) * 1024 if found else None
