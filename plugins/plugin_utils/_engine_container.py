# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The [Service] part of an instance in a container: docker or podman in the foreground of the unit. Pure.

Private to the collection. A plain unit for Podman too, not a Quadlet: a Quadlet writes ExecStart itself, so nothing could come
before the engine that ends with the exit status that is not restarted.
"""

from __future__ import annotations

import typing as t

from . import _engine_nodes
from ._engine_argv import argv
from ._engine_env import CONTAINER_STATE, STATE
from ._engine_files import files
from ._engine_job import Host, Job, unit_name
from ._engine_systemd import line

SECRETS = "/run/secrets/gpufleet"
OPTIONS = "/etc/gpufleet-engine"


def service(job: Job, host: Host) -> dict[str, t.Any]:
    instance, beside = job.instance, files(job)
    program, name = f"/usr/bin/{instance['runtime']}", unit_name(instance).removesuffix(".service")
    inside = {
        path.rpartition("/")[2]: f"{SECRETS if secret else OPTIONS}/{path.rpartition('/')[2]}" for path, (_text, secret) in beside.items()
    }
    environment = {**job.environment, **({"HF_TOKEN_PATH": inside["hf_token"]} if "hf_token" in inside else {})}
    command = argv(instance, job.life, job.matrix, job.planned, job.rank, inside)
    mounts = [f"{STATE}/{instance['name']}:{CONTAINER_STATE}"]
    mounts += [f"{path}:{inside[path.rpartition('/')[2]]}:ro" for path in beside]
    mounts += [f"{instance['model']}:{instance['model']}:ro"] if instance["model"].startswith("/") else []
    run = [
        *(program, "run", "--rm", "--name", name, "--network", "host"),
        *(("--replace", "--cgroups", "split") if instance["runtime"] == "podman" else ()),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *_gpus(job, host),
        *_limits(job),
        *(word for key, value in sorted(environment.items()) for word in ("--env", f"{key}={value}")),
        *(word for mount in mounts for word in ("--volume", mount)),
        *("--entrypoint", command[0], instance["image"], *command[1:]),
    ]
    gate = [*host.gate, *(word for device in job.devices for word in ("--gpu", device.uuid)), "--"]
    drain = str(instance["drain_seconds"])
    return {
        "StateDirectory": f"gpufleet/engines/{instance['name']}",
        "StateDirectoryMode": "0700",
        "Delegate": "yes" if instance["runtime"] == "podman" else None,
        # What a killed run left would keep the name.
        "ExecStartPre": f"-{line([program, 'rm', '--force', name])}",
        "ExecStart": line([*gate, *run]),
        "ExecStop": f"-{line([program, 'stop', '-t', drain, name])}",
        "ExecStopPost": f"-{line([program, 'rm', '--force', name])}",
        "UMask": "0077",
    }


def _gpus(job: Job, host: Host) -> list[str]:
    if job.instance["runtime"] == "docker" and not host.docker_cdi:
        # The inner quotes are Docker's: without them the comma ends the option.
        return ["--gpus", f'"device={",".join(device.uuid for device in job.devices)}"']
    return [word for device in job.devices for word in ("--device", f"nvidia.com/gpu={device.uuid}")]


def _limits(job: Job) -> list[str]:
    """Shared memory and limits. Workers map segments of hundreds of MB each; 64 MB is the default."""
    resources, data = job.instance["resources"], job.life.part("container")
    shm = resources.get("shm_bytes") or int(data.get("shm_gib", 16)) * 2**30
    memory = ["--ipc", "host"] if data.get("ipc_host") and "shm_bytes" not in resources else ["--shm-size", str(shm)]
    rdma = (
        ["--cap-add", "IPC_LOCK", "--device", "/dev/infiniband"]
        if _engine_nodes.launcher(job.instance, job.life) and job.instance["nodes"].get("rdma")
        else []
    )
    files = str(resources.get("open_files", 65535))
    return [*memory, "--ulimit", "memlock=-1", "--ulimit", "stack=67108864", "--ulimit", f"nofile={files}:{files}", *rdma]
