"""One machine: its files, its processor, its console and its snapshots."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from . import image
from .monitor import Monitor
from .settings import Settings, VmError, accelerator, need

OVMF = Path("/usr/share/OVMF")
_SSH = {
    "StrictHostKeyChecking": "no",
    "UserKnownHostsFile": "/dev/null",
    "LogLevel": "ERROR",
    "ConnectTimeout": "120",
    # Seconds less on an emulated processor than the default with its post-quantum half.
    "KexAlgorithms": "curve25519-sha256",
}
SSH_OPTIONS = tuple(word for name, value in _SSH.items() for word in ("-o", f"{name}={value}"))
FIRMWARES = ("direct", "secure")
"""direct: the emulator starts the kernel (fast; what the guest installs as kernel or initramfs is not what boots).
secure: OVMF with Microsoft's keys and Secure Boot on, shim, GRUB, as a server boots."""


class Machine:
    """State in `.build/vm/NAME`; `spec.json` says what it is made of."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.settings, self.name = settings, name
        self.folder = settings.state / name
        self.console = self.folder / "console.sock"
        self.log = self.folder / "console.log"

    @property
    def spec(self) -> dict:
        try:
            return json.loads((self.folder / "spec.json").read_text())
        except OSError:
            raise VmError(f"there is no machine {self.name}; `vm up {self.name}` makes one") from None

    @property
    def pid(self) -> int | None:
        """Of its emulator, if that runs and is ours."""
        try:
            pid = int((self.folder / "pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if str(self.folder).encode() in command else None

    def make(self, image_name: str, firmware: str, memory: int) -> None:
        base = image.ensure(self.settings, image_name)
        need("qemu-system-x86_64", "qemu-img")
        self.folder.mkdir(parents=True)
        self._overlay(base / "disk.qcow2", "qcow2", "disk.qcow2")
        if firmware == "secure":
            # qcow2, since a snapshot needs the firmware's variables too.
            variables = [str(OVMF / "OVMF_VARS_4M.ms.fd"), str(self.folder / "vars.qcow2")]
            subprocess.run(["qemu-img", "convert", "-O", "qcow2", *variables], check=True, timeout=60)
        spec = {"image": image_name, "base": str(base), "firmware": firmware, "memory": memory, "port": _free_port()}
        (self.folder / "spec.json").write_text(json.dumps(spec))

    def _overlay(self, base: Path, kind: str, name: str) -> None:
        command = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(base), "-F", kind, str(self.folder / name)]
        subprocess.run(command, check=True, timeout=60)

    def start(self, snapshot: str | None = None) -> None:
        if self.pid:
            return
        command = self._command() + (["-loadvm", snapshot] if snapshot else [])
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise VmError(f"{self.name} does not start: {done.stderr.strip()}")

    def _command(self) -> list[str]:
        spec, base = self.spec, Path(self.spec["base"])
        fast = accelerator()
        # Without a bound the translation cache grows to a gigabyte and more.
        processor = ["-accel", "kvm", "-cpu", "host"] if fast == "kvm" else ["-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max"]
        if spec["firmware"] == "secure":
            machine = "q35,smm=on"
            boot = [
                "-global", "driver=cfi.pflash01,property=secure,value=on",
                "-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={OVMF}/OVMF_CODE_4M.secboot.fd",
                "-drive", f"if=pflash,unit=1,format=qcow2,file={self.folder}/vars.qcow2",
            ]  # fmt: skip
        else:
            machine = "q35"
            arguments = "root=LABEL=root rw console=ttyS0 quiet"
            boot = ["-kernel", str(base / "vmlinux"), "-initrd", str(base / "initrd.img"), "-append", arguments]
        return [
            "qemu-system-x86_64", "-name", self.name, "-machine", machine, *processor, "-smp", "2", "-m", str(spec["memory"]),
            "-nodefaults", "-display", "none", *boot,
            "-drive", f"file={self.folder}/disk.qcow2,if=virtio,cache=unsafe,discard=unmap",
            "-netdev", f"user,id=n0,hostfwd=tcp:127.0.0.1:{spec['port']}-:22", "-device", "virtio-net-pci,netdev=n0",
            "-device", "virtio-rng-pci",
            "-chardev", f"socket,id=console,path={self.console},server=on,wait=off,logfile={self.log},logappend=on",
            "-serial", "chardev:console",
            "-monitor", f"unix:{self.folder}/monitor.sock,server=on,wait=off", "-daemonize", "-pidfile", str(self.folder / "pid"),
        ]  # fmt: skip

    def wait(self, timeout: float = 900, boot_not: str = "") -> str:
        """Until ssh answers (from another boot than `boot_not`); the boot id."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if not self.pid:
                raise VmError(f"{self.name}: the emulator ended; see {self.log}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                done = self.ssh("cat /proc/sys/kernel/random/boot_id", timeout=150)
                if done.returncode == 0 and done.stdout.strip() != boot_not:
                    return done.stdout.strip()
            time.sleep(1)
        tail = self.log.read_bytes()[-600:].decode(errors="replace") if self.log.exists() else ""
        raise VmError(f"{self.name} did not answer by ssh in {timeout:.0f} s; the console's last words:\n{tail}")

    def ssh_command(self) -> list[str]:
        return ["ssh", "-i", str(self.settings.key), *SSH_OPTIONS, "-p", str(self.spec["port"]), "ops@127.0.0.1"]

    def ssh(self, command: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.ssh_command(), command], capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)

    def monitor(self) -> Monitor:
        return Monitor(self.folder / "monitor.sock")

    def snapshot(self, name: str) -> None:
        self.monitor().ask(f"savevm {name}")

    def restore(self, name: str) -> None:
        """Back to a snapshot, memory and firmware variables included; also where the machine is off."""
        if self.pid:
            self.monitor().ask(f"loadvm {name}")
            self.monitor().ask("cont")  # a paused machine stays paused
        else:
            self.start(name)

    def pause(self) -> None:
        """Until it is restored."""
        if self.pid:
            self.monitor().ask("stop")

    def reboot(self, timeout: float = 900) -> str:
        before = self.ssh("cat /proc/sys/kernel/random/boot_id").stdout.strip()
        self.ssh("sudo systemctl reboot", timeout=60)
        return self.wait(timeout, boot_not=before)

    def stop(self) -> None:
        pid = self.pid
        if pid:
            os.kill(pid, signal.SIGKILL)
            while Path(f"/proc/{pid}").exists() and self.pid == pid:
                time.sleep(0.05)

    def down(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
