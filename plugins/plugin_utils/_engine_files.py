# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From an instance to the job that units are made of, and the files that lie beside them. Pure.

Private to the collection. Interface: make_job(instance, matrix, devices, planned, rank) -> (Job, findings),
files(job) -> {path: (text, secret)}.
"""

from __future__ import annotations

import typing as t

from ._contracts import Finding
from ._engine_argv import OPTIONS_FILE, SECRET_FILE, options_file, secret_file
from ._engine_env import environment
from ._engine_gpus import Device
from ._engine_instance import Instance
from ._engine_job import SETTINGS, Job
from ._engine_lifecycle import lifecycle

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix


def make_job(
    instance: Instance, matrix: Matrix, devices: t.Sequence[Device], planned: t.Mapping[str, t.Any] | None = None, rank: int = 0
) -> tuple[Job, list[Finding]]:
    """Everything decided; the findings are about GPUs and environment (the instance's own are read()'s)."""
    life = lifecycle(matrix, instance["engine"], instance["version"])
    variables, findings = environment(instance, life, devices, rank)
    return Job(instance, life, matrix, devices, variables, planned or {}, rank), findings


def files(job: Job) -> dict[str, tuple[str, bool]]:
    """Path → (text, secret) of what lies beside the units. A secret is 0600 root's; a credential or a mount takes it to the engine."""
    folder, instance = f"{SETTINGS}/{job.instance['name']}", job.instance
    found = {
        SECRET_FILE: (secret_file(instance, job.life), True),
        "hf_token": (instance.get("hf_token"), True),
        OPTIONS_FILE: (options_file(instance), False),
    }
    return {f"{folder}/{name}": (text, secret) for name, (text, secret) in found.items() if text}
