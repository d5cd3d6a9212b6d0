# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine and its operating system, from files laid out as distributions do."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _host, _kernel, _secure_boot


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ('ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n', "debian"),
        ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n', "debian"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n', "redhat"),
        ("ID=almalinux\n", "redhat"),
        ("ID=sles\nID_LIKE=suse\n", "suse"),
        ("ID=pop\nID_LIKE='ubuntu debian'\n", "debian"),
        ("ID=arch\n", "unknown"),
        ("", "unknown"),
    ],
)
def test_families(host: Any, text: str, family: str) -> None:
    host.write("etc/os-release", text)
    assert _host.read_os(host.reader())["family"] == family


def test_os_release_is_read_as_written(host: Any) -> None:
    host.write(
        "usr/lib/os-release",
        '# comment\nID="rocky"\nVERSION_ID=\'9.4\'\nPRETTY_NAME="Rocky Linux 9.4 (Blue Onyx)"\nID_LIKE="rhel fedora"\n',
    )
    found = _host.read_os(host.reader())
    assert found == {
        "id": "rocky",
        "id_like": ["rhel", "fedora"],
        "version_id": "9.4",
        "codename": "",
        "pretty_name": "Rocky Linux 9.4 (Blue Onyx)",
        "family": "redhat",
    }


def test_kernels_on_debian(host: Any) -> None:
    for release in ("6.1.0-9-amd64", "6.1.0-37-amd64", "6.1.0-10-amd64"):
        host.write(f"boot/vmlinuz-{release}")
    host.write("boot/vmlinuz-0-rescue-abc")
    host.write("usr/src/linux-headers-6.1.0-37-amd64/Makefile")
    host.write("usr/src/linux-headers-6.1.0-37-common/Makefile")
    host.write("usr/src/linux-headers-6.1.0-9-amd64/Makefile")
    host.link("lib/modules/6.1.0-9-amd64/build", "../../../usr/src/linux-headers-6.1.0-9-amd64")
    host.link("lib/modules/6.1.0-10-amd64/build", "/gone")
    host.write("proc/sys/kernel/osrelease", "6.1.0-9-amd64\n")
    host.write("proc/sys/kernel/tainted", "4097\n")
    host.write("proc/cmdline", "root=LABEL=root quiet\n")
    kernel = _kernel.read_kernel(host.reader())
    assert kernel == {
        "release": "6.1.0-9-amd64",
        "next_boot": "6.1.0-37-amd64",
        "installed": ["6.1.0-9-amd64", "6.1.0-10-amd64", "6.1.0-37-amd64"],
        "initramfs_tool": None,
        "headers": ["6.1.0-9-amd64", "6.1.0-37-amd64"],
        "next_boot_by": "newest",
        "compilers": {"kernels": {}, "default": None, "available": []},
        "cmdline": "root=LABEL=root quiet",
        "tainted": 4097,
    }
    host.link("vmlinuz", "boot/vmlinuz-6.1.0-10-amd64")  # the administrator pinned an older one
    assert _kernel.read_kernel(host.reader())["next_boot"] == "6.1.0-10-amd64"


def test_kernels_on_el(host: Any) -> None:
    old, new = "5.14.0-427.13.1.el9_4.x86_64", "5.14.0-427.20.1.el9_4.x86_64"
    for release in (old, new):
        host.write(f"lib/modules/{release}/vmlinuz")
    host.write(f"usr/src/kernels/{old}/Makefile")
    kernel = _kernel.read_kernel(host.reader())
    assert (kernel["installed"], kernel["next_boot"], kernel["headers"]) == ([old, new], new, [old])
    host.write("boot/grub2/grubenv", f"# GRUB Environment Block\nsaved_entry=0123abc-{old}\nboot_success=1\n####\n")
    assert _kernel.read_kernel(host.reader())["next_boot"] == old


@pytest.mark.parametrize(
    ("files", "tool"),
    [
        ([], None),
        (["usr/sbin/update-initramfs", "etc/kernel/postinst.d/initramfs-tools"], "initramfs-tools"),
        (["usr/sbin/update-initramfs", "usr/bin/dracut", "etc/kernel/postinst.d/dracut"], "dracut"),
        (["usr/sbin/update-initramfs", "usr/bin/dracut"], "initramfs-tools"),
        (["usr/bin/dracut"], "dracut"),
    ],
)
def test_what_makes_the_initramfs(host: Any, files: list[str], tool: str | None) -> None:
    for path in files:
        host.write(path)
    assert _kernel.read_kernel(host.reader())["initramfs_tool"] == tool


def test_a_container_has_no_next_kernel(host: Any) -> None:
    assert _kernel.read_kernel(host.reader())["next_boot"] is None


EFIVARS = "sys/firmware/efi/efivars/"


@pytest.mark.parametrize(("value", "state"), [(b"\6\0\0\0\1", "enabled"), (b"\6\0\0\0\0", "disabled"), (b"", "unknown")])
def test_secure_boot(host: Any, value: bytes, state: str) -> None:
    host.write(EFIVARS + "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", value)
    host.write("sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    found = _secure_boot.read_secure_boot(host.reader())
    assert (found["state"], found["lockdown"], found["mok_enrolled"]) == (state, "integrity", None)


def test_secure_boot_without_efi(host: Any) -> None:
    host.write("sys/firmware/acpi/tables/x")
    assert _secure_boot.read_secure_boot(host.reader())["state"] == "unsupported"


def test_secure_boot_in_a_container_that_hides_firmware(host: Any) -> None:
    (host.root / "sys/firmware").mkdir()
    assert _secure_boot.read_secure_boot(host.reader())["state"] == "unknown"


@pytest.mark.parametrize(
    ("files", "container", "hypervisor"),
    [
        ({}, None, None),
        ({"run/systemd/container": "podman\n"}, "podman", None),
        ({"run/.containerenv": ""}, "podman", None),
        ({".dockerenv": ""}, "docker", None),
        ({"proc/1/environ": "A=1\0container=lxc\0B=2"}, "lxc", None),
        ({"sys/class/dmi/id/sys_vendor": "QEMU", "sys/class/dmi/id/product_name": "Standard PC"}, None, "qemu"),
        ({"sys/class/dmi/id/sys_vendor": "Amazon EC2", "sys/class/dmi/id/product_name": "p5.48xlarge"}, None, "amazon"),
        ({"sys/class/dmi/id/sys_vendor": "Amazon EC2", "sys/class/dmi/id/product_name": "g4dn.metal"}, None, None),
        ({"sys/class/dmi/id/sys_vendor": "NVIDIA", "sys/class/dmi/id/product_name": "DGXH100"}, None, None),
        ({"proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu hypervisor lm\n"}, None, "unknown"),
    ],
)
def test_virtualization(host: Any, files: dict[str, str], container: str | None, hypervisor: str | None) -> None:
    for path, content in files.items():
        host.write(path, content)
    found = _host.read_host(host.reader())["virtualization"]
    assert found == {"container": container, "hypervisor": hypervisor}


def test_memory_and_numa(host: Any) -> None:
    host.write("proc/meminfo", "MemTotal:       2113421312 kB\nMemFree: 1 kB\n")
    for node in (0, 1):
        (host.root / f"sys/devices/system/node/node{node}").mkdir(parents=True)
    found = _host.read_host(host.reader())
    assert found["memory_bytes"] == 2113421312 * 1024
    assert found["cpu"]["numa_nodes"] == 2
    assert found["root"] is (os.geteuid() == 0)


def test_what_may_not_be_read_is_said(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permission errors are real for everybody but root; here they come from the opener."""
    path = host.write("proc/1/environ", "container=lxc")
    plain = open

    def guarded(file: Any, *args: Any, **options: Any) -> Any:
        if str(file) == str(path):
            raise PermissionError(13, "Permission denied")
        return plain(file, *args, **options)

    monkeypatch.setattr("builtins.open", guarded)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    reader = host.reader()
    assert _host.read_host(reader)["virtualization"]["container"] is None
    assert reader.unread == [{"part": "host.virtualization.container", "reason": "/proc/1/environ: permission denied", "needs_root": True}]
