# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of the systemd units of an engine instance. Pure.

Private to the collection. Interface: units(job, host) -> {unit name: text}; see docs/engines.md.

The main process is the GPU gate, which looks for the instance's GPUs and becomes the engine (exec). It is no ExecStartPre: systemd 252
restarts a service whose ExecStartPre failed whatever RestartPreventExitStatus says; only the main process' exit status is asked.
"""

from __future__ import annotations

import typing as t

from . import _engine_container, _engine_nodes
from ._engine_argv import argv
from ._engine_env import STATE
from ._engine_files import files
from ._engine_job import EXIT_GPU_LOST, Host, Job, unit_name
from ._engine_systemd import assignment, line, section

_HEADER = "# Written by Ansible (gpufleet.inference, role engine_service). Changes are overwritten.\n"
_BOOT = (
    "network-online.target",
    "nvidia-persistenced.service",
    "nvidia-fabricmanager.service",
    "nvidia-mig-manager.service",
    "gpufleet-gpu-settings.service",
    "gpufleet-power-governor.service",
)
# An engine compiles kernels at run time, so memory may be written and executed; everything else that it does not need is closed.
_HARDENING = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "PrivateTmp": "yes",
    "ProtectClock": "yes",
    "ProtectControlGroups": "yes",
    "ProtectHostname": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelTunables": "yes",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "SystemCallArchitectures": "native",
    "DevicePolicy": "closed",
    "UMask": "0077",
}


def units(job: Job, host: Host) -> dict[str, str]:
    """Unit name → text: the server's, Ray's on each member, the watchdog's where the engine needs one."""
    out = {}
    kind = _engine_nodes.launcher(job.instance, job.life)
    if kind == "ray":
        out[unit_name(job.instance, "ray")] = _ray(job, host)
    if _engine_nodes.runs_server(job.instance, job.life, job.rank):
        out[unit_name(job.instance)] = _server(job, host, after_ray=kind == "ray")
        if job.life.watchdog and job.rank == 0:
            out.update(_watchdog(job, host))
    return out


def _server(job: Job, host: Host, after_ray: bool) -> str:
    instance = job.instance
    container = instance["runtime"] != "venv"
    ray = [unit_name(instance, "ray")] if after_ray else []
    unit = {
        "Description": f"{job.title} {instance['version']} instance {instance['name']}",
        "Wants": ["network-online.target", *([host.engine_unit(instance)] if container and host.engine_unit(instance) else [])],
        "After": [*_BOOT, *([host.cdi_unit, host.engine_unit(instance)] if container else []), *ray],
        "BindsTo": ray,
        # Five starts, then it is left failed: as slow as it fails, so that a start that takes minutes counts as well.
        "StartLimitIntervalSec": max(900, 5 * (instance["ready_seconds"] + 30)),
        "StartLimitBurst": 5,
    }
    return _text(unit, {**_running(job), **(_engine_container.service(job, host) if container else _venv(job, host))})


def _running(job: Job) -> dict[str, t.Any]:
    """What start, stop and restart have in common, whatever the runtime."""
    resources = job.instance["resources"]
    return {
        "Type": "exec",
        "Restart": "always",  # vLLM ends with 0 when its engine process dies
        "RestartSec": 10,
        "RestartPreventExitStatus": EXIT_GPU_LOST,
        "SuccessExitStatus": "SIGTERM 143",
        "KillMode": "mixed",
        "TimeoutStartSec": 120,
        "TimeoutStopSec": job.instance["drain_seconds"] + max(20, int(job.life.part("drain").get("margin", 20))),
        "LimitNOFILE": resources.get("open_files", 65535),
        "LimitMEMLOCK": "infinity",
        "LimitCORE": 0,
        "TasksMax": "infinity",
        "MemoryMax": resources.get("memory_max"),
        "CPUAffinity": resources.get("cpus"),
    }


def _venv(job: Job, host: Host) -> dict[str, t.Any]:
    instance, name = job.instance, unit_name(job.instance)
    credentials = f"/run/credentials/{name}"
    beside = {path.rpartition("/")[2]: (path, secret) for path, (_text_of, secret) in files(job).items()}
    loaded = {file: path for file, (path, secret) in beside.items() if secret}
    where = {file: f"{credentials}/{file}" if secret else path for file, (path, secret) in beside.items()}
    command = argv(instance, job.life, job.matrix, job.planned, job.rank, where)
    if _engine_nodes.launcher(instance, job.life) == "mpi":
        command = [*_engine_nodes.mpi_prefix(instance, len(job.devices)), *command]
    environment = dict(job.environment)
    if "hf_token" in loaded:
        environment["HF_TOKEN_PATH"] = f"{credentials}/hf_token"
    home = any(instance[key].startswith(("/home/", "/root/")) for key in ("model", "venv"))
    rdma = {"DeviceAllow": ["char-nvidia* rw", "char-infiniband* rw"]} if instance["nodes"] else {"DeviceAllow": ["char-nvidia* rw"]}
    return {
        "User": instance["user"],
        "StateDirectory": f"gpufleet/engines/{instance['name']}",
        "StateDirectoryMode": "0700",
        "WorkingDirectory": f"{STATE}/{instance['name']}",
        "LoadCredential": [f"{file}:{path}" for file, path in sorted(loaded.items())],
        "Environment": [assignment(key, value) for key, value in sorted(environment.items())],
        "ExecStart": line([*host.gate, *(word for device in job.devices for word in ("--gpu", device.uuid)), "--", *command]),
        **_HARDENING,
        "ProtectHome": "read-only" if home else "yes",
        "CapabilityBoundingSet": "CAP_IPC_LOCK" if instance["nodes"] else "",
        **rdma,
    }


def _ray(job: Job, host: Host) -> str:
    """Ray of one member. The server on the head is bound to it: without its cluster it is of no use."""
    instance = job.instance
    unit = {
        "Description": f"Ray for {job.title} instance {instance['name']} (member {job.rank})",
        "Wants": ["network-online.target"],
        "After": list(_BOOT),
        "StartLimitIntervalSec": 900,
        "StartLimitBurst": 5,
    }
    command = _engine_nodes.ray_argv(instance, job.rank, len(job.devices))
    gate = [*host.gate, *(word for device in job.devices for word in ("--gpu", device.uuid)), "--"]
    return _text(
        unit,
        {
            **_running(job),
            **_venv(job, host),
            "ExecStart": line([*gate, *command]),
            "StateDirectory": f"gpufleet/engines/{instance['name']}",
        },
    )


def _watchdog(job: Job, host: Host) -> dict[str, str]:
    """For an engine that can stay up answering errors: restart it after three failures in a row."""
    instance = job.instance
    at = "127.0.0.1" if instance["host"] in ("0.0.0.0", "::") else instance["host"]  # noqa: S104 - compared with, not bound to
    url = f"http://{f'[{at}]' if ':' in at else at}:{instance['port']}{job.life.paths()['health']}"
    server, name = unit_name(instance), unit_name(instance, "watchdog")
    check = [*host.watch, "--url", url, "--unit", server, "--failures", "3", "--grace", str(instance["ready_seconds"])]
    service = {"Type": "oneshot", "ExecStart": line(check), "TimeoutStartSec": 60}
    timer = section("Timer", {"OnActiveSec": 60, "OnUnitInactiveSec": 20, "AccuracySec": 5}) + section(
        "Install", {"WantedBy": "timers.target"}
    )
    about = {"Description": f"Watch over {server}"}
    return {
        name: _text(about, service, install=False),
        name.replace(".service", ".timer"): _HEADER + section("Unit", about) + timer.rstrip("\n") + "\n",
    }


def _text(unit: dict[str, t.Any], service: dict[str, t.Any], install: bool = True) -> str:
    end = section("Install", {"WantedBy": "multi-user.target"}) if install else ""
    return (_HEADER + section("Unit", unit) + section("Service", service) + end).rstrip("\n") + "\n"
