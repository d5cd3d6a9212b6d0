"""One container engine, podman or docker, behind the few verbs that the lab needs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from .settings import LAB_DIR, LabError, Settings


class Engine:
    def __init__(self, settings: Settings) -> None:
        self.kind = settings.engine
        self.base = [str(LAB_DIR / "lab-ns"), "podman"] if self.kind == "podman" else ["docker"]

    def call(
        self, *args: str, check: bool = True, timeout: float = 120, stdin: Any = subprocess.DEVNULL
    ) -> subprocess.CompletedProcess[str]:
        try:
            done = subprocess.run([*self.base, *args], text=True, capture_output=True, timeout=timeout, stdin=stdin)
        except subprocess.TimeoutExpired:
            raise LabError(f"{self.kind} {args[0]}: no answer within {timeout:.0f} s") from None
        if check and done.returncode != 0:
            raise LabError(f"{self.kind} {' '.join(args[:2])} failed ({done.returncode}): {done.stderr.strip() or done.stdout.strip()}")
        return done

    def inspect(self, container: str) -> dict[str, Any] | None:
        done = self.call("container", "inspect", container, check=False)
        found = json.loads(done.stdout or "[]") if done.returncode == 0 else []
        return found[0] if found else None

    def containers(self, lab: str) -> list[str]:
        """Names of this lab's containers, in any state."""
        done = self.call("ps", "-a", "--filter", f"label=gpufleet.lab={lab}", "--format", "{{.Names}}")
        return sorted(done.stdout.split())

    def strays(self) -> list[str]:
        """Lab containers whose checkout is gone."""
        template = '{{.Names}}\t{{index .Labels "gpufleet.state"}}' if self.kind == "podman" else '{{.Names}}\t{{.Label "gpufleet.state"}}'
        done = self.call("ps", "-a", "--filter", "label=gpufleet.state", "--format", template, check=False)
        pairs = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
        return [name for name, state in pairs if state and not Path(state).exists()]

    def remove(self, *containers: str) -> None:
        for container in containers:
            arguments = ["rm", "-f", "-t", "0", container] if self.kind == "podman" else ["rm", "-f", container]
            done = self.call(*arguments, check=False)
            if done.returncode != 0 and self.inspect(container) is not None:
                # A run killed half way can leave a container whose state file is gone; the second attempt gets through.
                self.call(*arguments)

    def has_image(self, tag: str) -> bool:
        return self.call("image", "inspect", tag, check=False).returncode == 0

    def run_flags(self, privileged: bool) -> list[str]:
        if self.kind == "docker":
            # Unprivileged systemd with a cgroup namespace of its own does not start under docker.
            return ["--privileged", "--cgroupns=private", "--tmpfs", "/run", "--tmpfs", "/run/lock", "-e", "container=docker"]
        flags = ["--systemd=always", "--security-opt", "apparmor=unconfined", "--security-opt", "label=disable"]
        if privileged:
            return [*flags, "--privileged"]
        # SYS_ADMIN: without it systemd silently leaves out ProtectSystem= and its like. MKNOD: device nodes of simulated GPUs.
        return [*flags, *(f"--cap-add={cap}" for cap in ("SYS_ADMIN", "MKNOD", "AUDIT_WRITE", "NET_ADMIN", "NET_RAW", "SYS_PTRACE"))]
