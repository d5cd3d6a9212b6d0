# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance over several hosts: ranks, flags, units beside the server. Pure.

Private to the collection. The first member is the head: it answers HTTP. Start the head first and stop it first; a member that
dies takes the whole group with it, so the group is restarted as one.
"""

from __future__ import annotations

import typing as t

from . import _engine_interface
from ._engine_instance import Instance
from ._engine_lifecycle import Lifecycle

RAY_PORT = 6379


def launcher(instance: Instance, life: Lifecycle) -> str | None:
    """mp | ray | sglang | mpi; None on a single host."""
    nodes = instance["nodes"]
    return (nodes.get("launcher") or life.launchers[0]) if nodes else None


def rank_of(instance: Instance, host: str) -> int:
    """Rank of an inventory host; 0 on a single host."""
    hosts = [member["host"] for member in (instance["nodes"] or {}).get("members", ())]
    return hosts.index(host) if host in hosts else 0


def runs_server(instance: Instance, life: Lifecycle, rank: int) -> bool:
    """Whether a rank runs the engine's server at all: over Ray and MPI only the head does."""
    return rank == 0 or launcher(instance, life) in ("mp", "sglang")


def flags(instance: Instance, life: Lifecycle, rank: int) -> dict[str, t.Any]:
    kind, nodes = launcher(instance, life), instance["nodes"]
    if not kind:
        return {}
    head, count = nodes["members"][0]["address"], len(nodes["members"])
    port = nodes.get("port") or life.part("nodes")["port"]
    if kind == "mp":
        out: dict[str, t.Any] = {"nnodes": count, "node-rank": rank, "master-addr": head, "master-port": port}
        return {**out, "headless": True} if rank else out
    if kind == "sglang":
        return {"nnodes": count, "node-rank": rank, "dist-init-addr": f"[{head}]:{port}" if ":" in head else f"{head}:{port}"}
    return {"distributed-executor-backend": "ray"} if kind == "ray" else {}


def environment(instance: Instance, life: Lifecycle, rank: int) -> dict[str, str]:
    """Addresses and interfaces of one member."""
    nodes = instance["nodes"]
    if not nodes:
        return {}
    out = {}
    if life.engine == "vllm":
        out["VLLM_HOST_IP"] = nodes["members"][rank]["address"]
    if life.engine == "sglang":
        out["SGLANG_HOST_IP"] = nodes["members"][rank]["address"]
    if nodes.get("interface"):
        out.update(_engine_interface.variables(nodes["interface"]))
    if nodes.get("rdma"):
        out["NCCL_IB_HCA"] = nodes["rdma"]
    return out


def ray_argv(instance: Instance, rank: int, gpus: int) -> list[str]:
    """The Ray process of one member, in the foreground so that systemd sees it end."""
    member, head = instance["nodes"]["members"][rank]["address"], instance["nodes"]["members"][0]["address"]
    where = ["--head", f"--port={RAY_PORT}", "--include-dashboard=false"] if rank == 0 else [f"--address={head}:{RAY_PORT}"]
    return [
        f"{instance['venv']}/bin/ray",
        "start",
        "--block",
        "--disable-usage-stats",
        f"--node-ip-address={member}",
        f"--num-gpus={gpus}",
        *where,
    ]


def mpi_prefix(instance: Instance, gpus: int) -> list[str]:
    """TensorRT-LLM: one task a GPU over all members, started from the head (same paths everywhere, ssh without passwords)."""
    members = ",".join(f"{member['address']}:{gpus}" for member in instance["nodes"]["members"])
    ranks = gpus * len(instance["nodes"]["members"])
    return ["/usr/bin/mpirun", "--allow-run-as-root", "-n", str(ranks), "--host", members, f"{instance['venv']}/bin/trtllm-llmapi-launch"]
