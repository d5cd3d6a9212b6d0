# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs that an engine is built on: they must be those that it will run on. Private to the collection."""

from __future__ import annotations

import typing as t

from ._errors import WorkError
from ._nvml import Options, Session, run_bounded


class Gpus(t.NamedTuple):
    """What of them decides whether an engine fits."""

    driver: str
    product: str
    compute_capability: str
    uuids: tuple[str, ...]


def read_gpus(wanted: t.Sequence[str], options: t.Optional[Options] = None) -> Gpus:
    """The GPUs by index or UUID, all if `wanted` is empty. WorkError `no_gpu`: not there, or of several models."""
    outcome = run_bounded(_read, {}, options)
    if outcome.state != "ok":
        raise WorkError("no_gpu", f"an engine is built on the GPU that it is for, and NVML does not answer: {outcome.reason}")
    found: list[dict[str, str]] = outcome.data["gpus"]
    chosen = [_one(found, name) for name in wanted] if wanted else found
    if not chosen:
        raise WorkError("no_gpu", "an engine is built on the GPU that it is for, and this host has none")
    kinds = sorted({(gpu["name"], gpu["compute_capability"]) for gpu in chosen})
    if len(kinds) > 1:
        shown = ", ".join(f"{name} ({capability})" for name, capability in kinds)
        raise WorkError("no_gpu", f"gpus are of several models: {shown}; an engine is for one of them: name its GPUs in gpus")
    return Gpus(outcome.data["driver"], *kinds[0], tuple(gpu["uuid"] for gpu in chosen))


def _one(found: t.Sequence[dict[str, str]], name: str) -> dict[str, str]:
    match = [gpu for index, gpu in enumerate(found) if name in (str(index), gpu["uuid"])]
    if not match:
        have = ", ".join(f"{index} ({gpu['uuid']})" for index, gpu in enumerate(found)) or "no GPU"
        raise WorkError("no_gpu", f"gpus names {name!r}; this host has {have}")
    return match[0]


def _read(session: Session, _request: dict[str, t.Any]) -> dict[str, t.Any]:
    gpus = []
    for index in range(session.call("nvmlDeviceGetCount")):
        handle = session.call("nvmlDeviceGetHandleByIndex", index)
        major, minor = session.call("nvmlDeviceGetCudaComputeCapability", handle)
        uuid, product = session.call("nvmlDeviceGetUUID", handle), session.call("nvmlDeviceGetName", handle)
        gpus.append({"uuid": _text(uuid), "name": _text(product), "compute_capability": f"{major}.{minor}"})
    return {"driver": _text(session.call("nvmlSystemGetDriverVersion")), "gpus": gpus}


def _text(value: t.Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
