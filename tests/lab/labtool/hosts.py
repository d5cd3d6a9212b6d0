"""The hosts of a lab: containers that run systemd, reached by ssh."""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from . import image, network, repository
from .engine import Engine
from .settings import LAB_DIR, LabError, Settings

RUNNING_STATES = {"running", "degraded"}


@dataclass
class Host:
    name: str
    address: str
    image: str
    profile: str = ""
    privileged: bool = False


def parse(spec: str, default_image: str) -> Host:
    """NAME[:PROFILE][@IMAGE][+privileged] -> Host without an address."""
    rest, _, option = spec.partition("+")
    rest, _, image_name = rest.partition("@")
    host_name, _, profile = rest.partition(":")
    if option not in {"", "privileged"}:
        raise LabError(f"{spec!r}: unknown option +{option}; there is +privileged")
    if not host_name.replace("-", "").isalnum() or len(host_name) > 40:
        raise LabError(f"{spec!r}: expected NAME[:PROFILE][@IMAGE][+privileged] with a host name of letters, digits and '-'")
    return Host(host_name, "", image_name or default_image, profile, option == "privileged")


class Fleet:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.engine = Engine(settings)
        self.list_file = settings.state / "hosts.json"
        self.key = settings.state / "id_ed25519"

    # -- what is recorded ---------------------------------------------------------------------------------------------

    def known(self) -> dict[str, Host]:
        try:
            return {entry["name"]: Host(**entry) for entry in json.loads(self.list_file.read_text())}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError):
            self.list_file.unlink()  # written by a killed run or an older lab: the hosts are made anew
            return {}

    def existing(self) -> set[str]:
        """Hosts that are recorded, and those that only the engine still knows after a killed run."""
        prefix = f"{self.settings.prefix}-"
        return set(self.known()) | {container.removeprefix(prefix) for container in self.engine.containers(self.settings.prefix)}

    def record(self, hosts: dict[str, Host]) -> None:
        part = self.list_file.with_suffix(".part")
        part.write_text(json.dumps([asdict(host) for host in hosts.values()], indent=1) + "\n")
        part.replace(self.list_file)

    def container(self, host: str) -> str:
        return f"{self.settings.prefix}-{host}"

    def get(self, host: str) -> Host:
        known = self.known()
        if host not in known:
            raise LabError(f"no host {host!r} in lab {self.settings.name}; it has {', '.join(known) or 'none'}")
        return known[host]

    # -- making and unmaking ------------------------------------------------------------------------------------------

    def up(self, wanted: list[Host]) -> list[str]:
        """Bring the hosts up, healing what is broken; the names of those that were (re)made."""
        self._ensure_key()
        subnet = network.ensure(self.settings, self.engine)
        hosts = self.known()
        tags = {name: image.ensure(self.settings, self.engine, name) for name in sorted({host.image for host in wanted})}
        made = []
        for host in wanted:
            old = hosts.get(host.name)
            host.address = old.address if old and ipaddress.ip_address(old.address) in subnet else self._free_address(subnet, hosts)
            hosts[host.name] = host
            self.record(hosts)
            if not self._usable(host, tags[host.image]):
                self._create(host, tags[host.image], subnet)
                made.append(host.name)
        self._heal(wanted, made, tags, subnet)
        return made

    def _heal(self, wanted: list[Host], made: list[str], tags: dict[str, str], subnet: ipaddress.IPv4Network) -> None:
        """Wait for the hosts; one that was kept and turns out to be dead is made anew, once."""
        for host in wanted:
            if host.name not in made and not self._answers(host, 15):
                self._create(host, tags[host.image], subnet)
                made.append(host.name)
        self.wait([host.name for host in wanted])

    def _answers(self, host: Host, timeout: float) -> bool:
        try:
            self._wait_one(host.name, timeout)
        except LabError:
            return False
        return True

    def _usable(self, host: Host, tag: str) -> bool:
        found = self.engine.inspect(self.container(host.name))
        if not found or not found["State"]["Running"] or not self._alive(found["State"]["Pid"]):
            return False
        labels = found["Config"].get("Labels") or {}
        return bool(labels.get("gpufleet.spec") == self._spec(host, tag))

    @staticmethod
    def _alive(pid: int) -> bool:
        """The engine's word is stale where its monitor was killed too: look at the process itself."""
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
        except (OSError, IndexError):
            return False

    def _spec(self, host: Host, tag: str) -> str:
        return f"{tag} {host.image} {host.address} {host.privileged} {self.settings.state}"

    def _create(self, host: Host, tag: str, subnet: ipaddress.IPv4Network) -> None:
        container = self.container(host.name)
        self.engine.remove(container)
        site = self._site(host)
        gateway = str(next(subnet.hosts()))
        flags = [
            "--name", container, "--hostname", host.name,
            "--label", f"gpufleet.lab={self.settings.prefix}", "--label", f"gpufleet.spec={self._spec(host, tag)}",
            "--label", f"gpufleet.state={self.settings.state}",
            "--network", network.name(self.settings), "--ip", host.address, "--network-alias", host.name,
            "--add-host", f"repo.lab:{gateway}",
            "--restart=always", "-v", f"{LAB_DIR}/host:/opt/lab:ro", "-v", f"{site}:/opt/lab-site:ro",
        ]  # fmt: skip
        if host.image.endswith("-containers"):
            flags += ["-v", f"{container}-containers:/var/lib/containers"]
        self.engine.call("run", "-d", *flags, *self.engine.run_flags(host.privileged), tag, "/opt/lab/init")

    def _site(self, host: Host) -> Path:
        site = self.settings.state / "site" / host.name
        (site / "apt").mkdir(parents=True, exist_ok=True)
        (site / "repository.asc").write_bytes(repository.public_key(self.settings))
        (site / "os-release").write_text(image.identity(host.image))
        (site / "authorized_keys").write_text(self.key.with_suffix(".pub").read_text())
        return site

    def down(self, names: list[str]) -> None:
        hosts = self.known()
        for name in names:
            self.engine.remove(self.container(name))
            self.engine.call("volume", "rm", "-f", f"{self.container(name)}-containers", check=False)
            hosts.pop(name, None)
            self.record(hosts)

    def reset(self, names: list[str]) -> None:
        """The named hosts (all, if none) as freshly made."""
        hosts = [self.get(name) for name in names or self.known()]
        for host in hosts:
            self.engine.remove(self.container(host.name))
        self.up(hosts)

    def reboot(self, names: list[str]) -> None:
        hosts = [self.get(name) for name in names or self.known()]
        before = {host.name: self.boot_id(host.name) for host in hosts}
        for host in hosts:
            self.execute(host.name, "systemctl", "reboot")
        deadline = time.monotonic() + 150
        for host in hosts:
            while self.boot_id(host.name) in ("", before[host.name]):
                if time.monotonic() > deadline:
                    raise LabError(f"{host.name} did not come back from its reboot within 150 s")
                time.sleep(0.2)
        self.wait([host.name for host in hosts])

    def _free_address(self, subnet: ipaddress.IPv4Network, hosts: dict[str, Host]) -> str:
        used = {host.address for host in hosts.values()}
        return next(str(address) for address in list(subnet.hosts())[10:] if str(address) not in used)

    # -- talking to them ----------------------------------------------------------------------------------------------

    def execute(self, host: str, *command: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return self.engine.call("exec", self.container(host), *command, check=False, timeout=timeout)

    def boot_id(self, host: str) -> str:
        done = self.execute(host, "cat", "/proc/sys/kernel/random/boot_id")
        return done.stdout.strip() if done.returncode == 0 else ""

    def state(self, host: str) -> str:
        return self.execute(host, "systemctl", "is-system-running").stdout.strip() or "down"

    def wait(self, names: list[str], timeout: float = 90) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: self._wait_one(name, timeout), names))

    def _wait_one(self, name: str, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        address = self.get(name).address
        state = "down"
        while time.monotonic() < deadline:
            if not self._ssh_open(address):  # asking this way costs nothing; the engine's exec costs 0.1 s of CPU
                time.sleep(0.1)
                continue
            state = self.state(name)
            if state in RUNNING_STATES:
                return
            time.sleep(0.3)
        tail = self.engine.call("logs", "--tail", "15", self.container(name), check=False)
        raise LabError(f"{name} ({address}) is not ready after {timeout:.0f} s: systemd is {state}\n{tail.stdout}{tail.stderr}")

    @staticmethod
    def _ssh_open(address: str) -> bool:
        try:
            with socket.create_connection((address, 22), timeout=1) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def ssh_command(self, host: str, user: str = "ops") -> list[str]:
        return [
            "ssh", "-i", str(self.key), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
            "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", f"{user}@{self.get(host).address}",
        ]  # fmt: skip

    def _ensure_key(self) -> None:
        if self.key.exists() and self.key.with_suffix(".pub").exists():
            return
        self.key.unlink(missing_ok=True)
        comment = f"lab {self.settings.name} of {os.uname().nodename}"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(self.key)], check=True, timeout=30)
