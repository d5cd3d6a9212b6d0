"""Disk images: GPT with an EFI partition (shim, GRUB, MokManager as Debian signs them) and ext4, made without mounts."""

from __future__ import annotations

import configparser
import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import kernel
from .settings import VM_DIR, Settings, VmError, need

sys.path.insert(0, str(VM_DIR.parent / "lab"))
from labtool.image import apt_sources
from labtool.image import recipe as lab_recipe

DISK = 8 * 1024**3
ESP_START, ESP_SIZE = 1024**2, 64 * 1024**2
ROOT_START = ESP_START + ESP_SIZE
SIGNED = {
    "usr/lib/shim/shimx64.efi.signed": "EFI/BOOT/BOOTX64.EFI",
    "usr/lib/shim/mmx64.efi.signed": "EFI/BOOT/mmx64.efi",
    "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed": "EFI/BOOT/grubx64.efi",
}
# Where Debian's signed GRUB looks for its configuration; what is in the root file system decides.
GRUB_STUB = "search --no-floppy --label root --set=root\nset prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n"


def sections() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(VM_DIR / "images.ini")
    return parser


def folder(settings: Settings, name: str) -> Path:
    """Where the image lies (or will): named by the hash of its recipe."""
    parser = sections()
    if name not in parser:
        raise VmError(f"image {name!r} is not in tests/vm/images.ini; it has {', '.join(parser.sections())}")
    parts = [*_packages(name), apt_sources(parser[name]["lab_image"]), (VM_DIR / "image-hook").read_text(), Path(__file__).read_text()]
    return settings.cache / f"vm-{name}-{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:12]}"


def ensure(settings: Settings, name: str) -> Path:
    """The image's folder: disk.qcow2, vmlinux, initrd.img, release."""
    target = folder(settings, name)
    with (settings.cache / f"vm-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            need("mmdebstrap", "mke2fs", "mkfs.vfat", "mcopy", "sfdisk", "qemu-img", "zstd")
            started = time.monotonic()
            print(f"vm: making image {name} …", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(dir=settings.cache, prefix="vm-build-") as work:
                _build(settings, name, Path(work))
                (Path(work) / "out").rename(target)
            print(f"vm: image {name} made in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return target


def _packages(name: str) -> list[str]:
    section = sections()[name]
    return section["include"].split() + section["extra"].split()


def _run(*command: str | Path, timeout: float = 300) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise VmError(f"{command[0]} failed ({done.returncode}):\n{(done.stdout + done.stderr)[-3000:]}")


def _build(settings: Settings, name: str, work: Path) -> None:
    root, out = work / "root", work / "out"
    out.mkdir()
    lab_image = sections()[name]["lab_image"]
    sources = work / "debian.list"
    sources.write_text(apt_sources(lab_image))
    _run(
        "mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(_packages(name))}",
        "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--dpkgopt=path-exclude=/usr/share/doc/*", '--aptopt=APT::Install-Recommends "false"',
        f'--customize-hook={VM_DIR}/image-hook "$1" {settings.key}.pub',
        lab_recipe(lab_image)["suite"], root, sources, timeout=3600,
    )  # fmt: skip
    release = next((root / "boot").glob("vmlinuz-*")).name.removeprefix("vmlinuz-")
    kernel.unpack(root / f"boot/vmlinuz-{release}", out / "vmlinux")
    shutil.copy(root / f"boot/initrd.img-{release}", out / "initrd.img")
    (out / "release").write_text(release)
    _disk(root, work / "disk.raw", work)
    _run("qemu-img", "convert", "-O", "qcow2", work / "disk.raw", out / "disk.qcow2")


def _disk(root: Path, disk: Path, work: Path) -> None:
    with disk.open("wb") as handle:
        handle.truncate(DISK)
    table = f"label: gpt\nstart={ESP_START // 512}, size={ESP_SIZE // 512}, type=uefi\nstart={ROOT_START // 512}, type=linux\n"
    done = subprocess.run(["/usr/sbin/sfdisk", "-q", str(disk)], input=table, text=True, capture_output=True, timeout=60)
    if done.returncode != 0:
        raise VmError(f"sfdisk failed: {done.stderr}")
    esp = work / "esp.raw"
    with esp.open("wb") as handle:
        handle.truncate(ESP_SIZE)
    _run("/usr/sbin/mkfs.vfat", "-n", "ESP", esp)
    _run("mmd", "-i", esp, "::EFI", "::EFI/BOOT", "::EFI/debian")
    for source, to in SIGNED.items():
        _run("mcopy", "-i", esp, root / source, f"::{to}")
    (work / "grub.cfg").write_text(GRUB_STUB)
    _run("mcopy", "-i", esp, work / "grub.cfg", "::EFI/debian/grub.cfg")
    _run("dd", f"if={esp}", f"of={disk}", "bs=1M", f"seek={ESP_START // 1024**2}", "conv=notrunc", "status=none")
    blocks = (DISK - ROOT_START - 1024**2) // 4096
    filled: list[str | Path] = ["-b", "4096", "-L", "root", "-d", root, "-E", f"offset={ROOT_START}"]
    _run("/usr/sbin/mke2fs", "-q", "-F", "-t", "ext4", *filled, disk, str(blocks))
