# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environment of an engine's process: GPUs, caches, hub, network. Pure.

Private to the collection. Interface: environment(instance, life, devices, rank) -> (variables, findings).
"""

from __future__ import annotations

import typing as t

from . import _engine_nodes
from ._contracts import Finding
from ._engine_gpus import Device
from ._engine_instance import Instance, bad
from ._engine_lifecycle import Lifecycle

STATE = "/var/lib/gpufleet/engines"
CONTAINER_STATE = "/var/lib/engine"
MARKER = "GPUFLEET_ENGINE"


def cache(instance: Instance) -> str:
    """Caches are kept by version: a compiled kernel of another release is worse than none."""
    root = f"{STATE}/{instance['name']}" if instance["runtime"] == "venv" else CONTAINER_STATE
    return f"{root}/cache/{instance['engine']}-{instance['version']}"


def environment(instance: Instance, life: Lifecycle, devices: t.Sequence[Device], rank: int = 0) -> tuple[dict[str, str], list[Finding]]:
    """Variables by name, ours and the site's; a site's variable that would undo ours is a finding."""
    where = cache(instance)
    ours = {
        MARKER: instance["name"],
        "HOME": where.partition("/cache/")[0],
        "XDG_CACHE_HOME": where,
        "HF_HOME": f"{where.partition('/cache/')[0]}/huggingface",
        "TRITON_CACHE_DIR": f"{where}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{where}/inductor",
        "FLASHINFER_WORKSPACE_BASE": where,
        **({"VLLM_CACHE_ROOT": f"{where}/vllm"} if life.engine == "vllm" else {}),
        **({"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"} if instance["offline"] else {}),
        **life.part("environment"),
        **_engine_nodes.environment(instance, life, rank),
    }
    findings: list[Finding] = []
    if instance["runtime"] == "venv":
        visible, findings = _visible(instance, life, devices)
        # Kernels are compiled at run time: ninja is in the venv, nvcc in the toolkit.
        ours.update(
            visible, PATH=f"{instance['venv']}/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        )
    # In a container the devices count from 0 again: what it sees is what it was given.
    fixed = {MARKER, "HOME", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"}
    for name, value in instance["env"].items():
        if name in fixed and value != ours.get(name):
            findings.append(bad(f"{instance['name']}.env.{name}", value, "is decided by gpus and name of the instance; remove it"))
    return {**ours, **{name: value for name, value in instance["env"].items() if name not in fixed}}, findings


def _visible(instance: Instance, life: Lifecycle, devices: t.Sequence[Device]) -> tuple[dict[str, str], list[Finding]]:
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if life.gpus_by_uuid:
        return {**order, "CUDA_VISIBLE_DEVICES": ",".join(device.uuid for device in devices)}, []
    mig = next((device for device in devices if device.index is None), None)
    if mig:
        what = f"cannot be used by vLLM {instance['version']} in a venv: it takes only indices, and a MIG device has none"
        return order, [bad(f"{instance['name']}.gpus", mig.uuid, what, "runtime podman, or vLLM 0.24.0 or newer")]
    return {**order, "CUDA_VISIBLE_DEVICES": ",".join(str(device.index) for device in devices)}, []
