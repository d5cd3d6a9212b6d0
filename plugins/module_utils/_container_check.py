# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs as a container sees them against GPUs as the host sees them. Private to the collection."""

from __future__ import annotations

import os
import re
import shutil
import typing as t

from ._cdi_host import read_cdi
from ._errors import HostError
from ._subprocess import PATH, Result, run

KIND = "nvidia.com/gpu"
_LISTED = re.compile(r"\(UUID: ((?:GPU|MIG)-[0-9a-f-]+)\)")
_ENTRY = re.compile(r"^\s*" + re.escape(KIND) + r"=(\S+)", re.MULTILINE)


class Seen(t.NamedTuple):
    """What the check found; `problems` is empty when all is well."""

    outside: list[str]
    wanted: list[str]
    inside: list[str]
    method: str
    problems: list[str]


def gpus_outside(timeout: float) -> list[str]:
    """UUIDs that NVML shows on the host; MIG devices instead of a GPU that is partitioned."""
    result = run(["nvidia-smi", "-L"], timeout=timeout)
    if not result.success:
        raise HostError(f"nvidia-smi -L on the host: {_why(result)}; a container cannot do better. See playbook gpufleet.inference.doctor")
    return uuids(result.out)


def uuids(listing: str) -> list[str]:
    """UUIDs in `nvidia-smi -L`; a GPU that is followed by MIG devices stands for them and is left out."""
    found: list[str] = []
    for uuid in _LISTED.findall(listing):
        if uuid.startswith("MIG-") and found and found[-1].startswith("GPU-"):
            found.pop()
        found.append(uuid)
    return found


def in_container(
    engine: str, image: str, method: str, wanted: t.Sequence[str], arguments: t.Sequence[str], command: t.Sequence[str], timeout: float
) -> list[str]:
    """UUIDs that NVML shows in a container with the wanted GPUs."""
    client = shutil.which(engine, path=PATH)
    if not client:
        raise HostError(f"engine is {engine}, whose client is not on this host")
    if method == "cdi":
        devices = [word for uuid in wanted for word in ("--device", f"{KIND}={uuid}")]
    else:
        devices = ["--runtime", "nvidia", "-e", "NVIDIA_VISIBLE_DEVICES=" + ",".join(wanted), "-e", "NVIDIA_DRIVER_CAPABILITIES=utility"]
    name = f"gpufleet-check-{os.getpid()}"
    argv = [client, "run", "--rm", "--name", name, "--pull", "never", "--network", "none", *devices, *arguments, image, *command]
    result = run(argv, timeout=timeout)
    if result.state != "ok":
        run([client, "rm", "-f", name], timeout=timeout)  # the client is gone, its container may not be
    if not result.success:
        raise HostError(f"{' '.join(argv)}: {_why(result)}")
    return uuids(result.out)


def dry_run(wanted: t.Sequence[str], timeout: float) -> tuple[list[str], list[str]]:
    """(devices that CDI would give, problems) without any container: names, paths and hook of the specification."""
    listed = run(["nvidia-ctk", "cdi", "list"], timeout=timeout)
    if not listed.success:
        return [], [f"nvidia-ctk cdi list: {_why(listed)}"]
    names = _ENTRY.findall(listed.out)
    cdi = read_cdi()
    problems = [f"{path} of the CDI specification is not there" for path, there in cdi["paths"].items() if there is None]
    hook = run(["nvidia-cdi-hook", "--version"], timeout=timeout)
    if hook.state != "ok":
        problems.append(f"nvidia-cdi-hook: {_why(hook)}")
    return [uuid for uuid in wanted if uuid in names], problems


def compare(outside: t.Sequence[str], wanted: t.Sequence[str], inside: t.Sequence[str]) -> list[str]:
    """What is wrong."""
    if not outside:
        return ["NVML shows no GPU on this host, so there is nothing to compare with"]
    problems = [f"{uuid} is asked for and not on this host" for uuid in wanted if uuid not in outside]
    problems += [f"{uuid} is not in the container" for uuid in wanted if uuid in outside and uuid not in inside]
    return problems + [f"{uuid} is in the container and was not given to it" for uuid in inside if uuid not in wanted]


def _why(result: Result) -> str:
    if result.state != "ok":
        return {"missing": "there is no such command", "timeout": "no answer in time", "hung": "it hangs and cannot be ended"}[result.state]
    return (result.err.strip() or result.out.strip() or f"exit status {result.rc}")[-600:]


def engines_here() -> list[str]:
    return [
        engine
        for engine in ("podman", "docker")
        if shutil.which(engine, path=PATH) and (engine == "podman" or os.path.exists("/run/docker.sock"))
    ]
