# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernel boots next, as GRUB, boot loader entries and systemd-boot decide it; and what compiled the kernels."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _kernel

OLD, NEW = "6.1.0-57-amd64", "6.1.0-58-amd64"
# As update-grub writes it on Debian 12, shortened: header, a simple entry for the newest, a submenu with all.
GRUB = """\
if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="DEFAULT"
fi
function gfxmode {
	set gfxpayload="${1}"
}
menuentry 'Debian GNU/Linux' --class debian --class gnu-linux $menuentry_id_option 'gnulinux-simple-abc' {
	load_video
	if [ x$grub_platform = xxen ]; then insmod xzio; fi
	echo	'Loading Linux 6.1.0-58-amd64 ...'
	linux	/boot/vmlinuz-6.1.0-58-amd64 root=UUID=abc ro  quiet
	initrd	/boot/initrd.img-6.1.0-58-amd64
}
submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced-abc' {
	menuentry 'Debian GNU/Linux, with Linux 6.1.0-58-amd64' --class debian $menuentry_id_option 'gnulinux-6.1.0-58-amd64-advanced-abc' {
		linux	/boot/vmlinuz-6.1.0-58-amd64 root=UUID=abc ro  quiet
	}
	menuentry 'Debian GNU/Linux, with Linux 6.1.0-57-amd64' --class debian $menuentry_id_option 'gnulinux-6.1.0-57-amd64-advanced-abc' {
		linux	/boot/vmlinuz-6.1.0-57-amd64 root=UUID=abc ro  quiet
	}
}
menuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {
	fwsetup
}
"""
SAVED_OLD = "saved_entry=gnulinux-advanced-abc>gnulinux-6.1.0-57-amd64-advanced-abc\n"


def next_boot(host: Any) -> tuple[str | None, str]:
    kernel = _kernel.read_kernel(host.reader())
    return kernel["next_boot"], kernel["next_boot_by"]


@pytest.fixture
def debian(host: Any) -> Any:
    for release in (OLD, NEW):
        host.write(f"boot/vmlinuz-{release}")

    def grub(default: str = "0", env: str = "") -> None:
        host.write("boot/grub/grub.cfg", GRUB.replace("DEFAULT", default))
        host.write("boot/grub/grubenv", "# GRUB Environment Block\n" + env + "####\n")

    host.grub = grub
    return host


@pytest.mark.parametrize(
    ("default", "env", "kernel"),
    [
        ("0", "", NEW),
        ("1>1", "", OLD),
        ("1", "", NEW),
        ("Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux 6.1.0-57-amd64", "", OLD),
        ("gnulinux-advanced-abc>gnulinux-6.1.0-57-amd64-advanced-abc", "", OLD),
        ("0", SAVED_OLD, NEW),  # GRUB_DEFAULT is no `saved`: what is saved does not count
        ("${saved_entry}", SAVED_OLD, OLD),
        ("${saved_entry}", "", NEW),
        ("0", "next_entry=1>1\n", OLD),  # grub-reboot
        ("${saved_entry}", SAVED_OLD + "next_entry=0\n", NEW),
        ("an entry that is gone", "", NEW),
        ("2", "", None),  # not a kernel of this host
    ],
)
def test_grub_as_debian_writes_it(debian: Any, default: str, env: str, kernel: str | None) -> None:
    debian.grub(default, env)
    assert next_boot(debian) == (kernel, "grub")


def test_default_file_counts_only_once_update_grub_ran(debian: Any) -> None:
    debian.grub()
    debian.write("etc/default/grub", 'GRUB_DEFAULT="1>1"\n')
    assert next_boot(debian) == (NEW, "grub")


EL_OLD, EL_NEW = "5.14.0-427.9.1.el9_4.x86_64", "5.14.0-427.20.1.el9_4.x86_64"
EL_GRUB = """\
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
else
   set default="${saved_entry}"
fi
insmod blscfg
blscfg
"""


def bls(host: Any, release: str, name: str = "") -> None:
    host.write(f"lib/modules/{release}/vmlinuz")
    host.write(
        f"boot/loader/entries/{name or '0123abc-' + release}.conf",
        f"title Rocky Linux ({release}) 9.4 (Blue Onyx)\nversion {release}\nlinux /vmlinuz-{release}\n",
    )


@pytest.mark.parametrize(
    ("env", "kernel"),
    [
        ("", EL_NEW),  # by version: 20 after 9
        (f"saved_entry=0123abc-{EL_OLD}\n", EL_OLD),
        (f"saved_entry=0123abc-{EL_OLD}\nnext_entry=0\n", EL_NEW),
        ("saved_entry=1\n", EL_OLD),
    ],
)
def test_grub_with_boot_loader_entries_as_on_el(host: Any, env: str, kernel: str) -> None:
    bls(host, EL_OLD)
    bls(host, EL_NEW)
    host.write("boot/grub2/grub.cfg", EL_GRUB)
    host.write("boot/grub2/grubenv", env)
    assert next_boot(host) == (kernel, "grub_bls")


def efi(host: Any, name: str, text: str) -> None:
    host.write(f"sys/firmware/efi/efivars/{name}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f", b"\6\0\0\0" + text.encode("utf-16-le") + b"\0\0")


def test_systemd_boot(host: Any) -> None:
    bls(host, EL_OLD, "old+3")
    bls(host, EL_NEW, "new")
    host.write("boot/loader/loader.conf", "timeout 3\n#default x\n")
    assert next_boot(host) == (EL_NEW, "systemd-boot")
    host.write("boot/loader/loader.conf", "default ol*\n")
    assert next_boot(host) == (EL_OLD, "systemd-boot")
    efi(host, "LoaderInfo", "systemd-boot 252")
    efi(host, "LoaderEntryOneShot", "new.conf")
    assert next_boot(host) == (EL_NEW, "systemd-boot")


def test_entry_without_tries_left_comes_last(host: Any) -> None:
    bls(host, EL_OLD)
    bls(host, EL_NEW, "new+0-3")
    host.write("boot/loader/loader.conf", "timeout 3\n")
    assert next_boot(host) == (EL_OLD, "systemd-boot")


def test_rest_of_an_old_loader_does_not_speak_for_grub(debian: Any) -> None:
    debian.grub("1>1")
    debian.write("boot/efi/loader/loader.conf", "default x\n")
    assert next_boot(debian) == (OLD, "grub")


@pytest.mark.parametrize(
    ("text", "compiler"),
    [
        ("gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0", "gcc 12.2.0"),
        ("x86_64-linux-gnu-gcc-13 (Ubuntu 13.2.0-23ubuntu4) 13.2.0", "gcc 13.2.0"),
        ("gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)", "gcc 11.4.1"),
        ("clang version 18.1.3 (Fedora 18.1.3-1)", "clang 18.1.3"),
    ],
)
def test_compiler_of_a_kernel(host: Any, text: str, compiler: str) -> None:
    host.write("boot/vmlinuz-" + NEW)
    host.write("boot/config-" + NEW, f'CONFIG_CC_VERSION_TEXT="{text}"\nCONFIG_CC_IS_GCC=y\n')
    assert _kernel.read_kernel(host.reader())["compilers"]["kernels"] == {NEW: compiler}


def test_compiler_of_the_running_kernel_is_in_its_banner_too(host: Any) -> None:
    host.write("proc/sys/kernel/osrelease", OLD + "\n")
    host.write(
        "proc/version",
        "Linux version 6.1.0-57-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0, GNU ld) #1",
    )
    host.write("usr/bin/gcc-14")
    host.write("usr/bin/gcc-ar-12")
    host.link("usr/bin/gcc", "gcc-14")
    assert _kernel.read_kernel(host.reader())["compilers"] == {"kernels": {OLD: "gcc 12.2.0"}, "default": "14", "available": ["14"]}
