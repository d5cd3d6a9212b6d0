"""Where machines are kept and what they are called (docs/testing_vm.md)."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

VM_DIR = Path(__file__).resolve().parent.parent
CHECKOUT = VM_DIR.parent.parent


class VmError(Exception):
    """Something a person can act on; printed without a traceback."""


@dataclass(frozen=True)
class Settings:
    state: Path
    """Machines of this checkout: overlay disk, firmware variables, console log, monitor."""
    cache: Path
    """Disk images by content hash, and the key that logs into them; shared by all checkouts of this machine."""

    @property
    def key(self) -> Path:
        """Made once for all images: it is in their disks, and they listen on the loopback address only."""
        path = self.cache / "vm-key"
        if not path.exists():
            part = path.with_suffix(f".{os.getpid()}")
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpufleet-vm", "-f", str(part)], check=True, timeout=60)
            part.with_suffix(part.suffix + ".pub").rename(path.with_suffix(".pub"))
            part.rename(path)
        return path


def load() -> Settings:
    state = Path(os.environ.get("VM_STATE", CHECKOUT / ".build/vm"))
    default = "/var/cache/gpufleet-lab" if os.geteuid() == 0 else Path.home() / ".cache/gpufleet-lab"
    cache = Path(os.environ.get("LAB_CACHE", default))
    for folder in (state, cache):
        folder.mkdir(parents=True, exist_ok=True)
    return Settings(state, cache)


def need(*programs: str) -> None:
    """Programs of the distribution; sbin is not on everyone's path."""
    missing = [name for name in programs if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")]
    if missing:
        raise VmError(f"{', '.join(missing)} not found; `make vm-system` installs what test machines need")


def accelerator() -> str:
    """KVM where the processor really has it: /dev/kvm alone may be a software stand-in that boots no Debian kernel."""
    flags = Path("/proc/cpuinfo").read_text().split()
    return "kvm" if {"svm", "vmx"} & set(flags) and os.access("/dev/kvm", os.R_OK | os.W_OK) else "tcg"
