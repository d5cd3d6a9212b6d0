# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the units of one instance on one host are made from. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from . import _matrix_engines as engines
from ._engine_gpus import Device
from ._engine_instance import Instance
from ._engine_lifecycle import Lifecycle

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

SETTINGS = "/etc/gpufleet/engines"
EXIT_GPU_LOST = 79
"""Exit status of the gate for a GPU that is not there, which is never restarted. Nothing else ends so: not sysexits, shells, systemd."""


@dataclass(frozen=True)
class Host:
    """What the host has, from its facts."""

    gate: tuple[str, ...] = ("/usr/bin/python3", "/opt/gpufleet/lib/engine_gate.py", "run")
    """Command that takes --gpu UUID … -- COMMAND, and becomes COMMAND or ends with EXIT_GPU_LOST."""
    watch: tuple[str, ...] = ("/usr/bin/python3", "/opt/gpufleet/lib/engine_gate.py", "watch")
    cdi_unit: str = "nvidia-cdi-refresh.service"
    """Writes the CDI specification. Never a unit ordered after multi-user.target (toolkit 1.19.0): that would be a cycle."""
    docker_cdi: bool = True
    """Whether Docker takes CDI names (28.2, or 25.0 with the feature on); otherwise --gpus."""

    def engine_unit(self, instance: Instance) -> str:
        """The daemon behind the runtime; Podman has none."""
        return "docker.service" if instance["runtime"] == "docker" else ""


@dataclass(frozen=True)
class Job:
    """One instance on one host, everything decided."""

    instance: Instance
    life: Lifecycle
    matrix: Matrix
    devices: t.Sequence[Device]
    environment: t.Mapping[str, str]
    planned: t.Mapping[str, t.Any] = field(default_factory=dict)
    """The planner's arguments by engine-neutral name."""
    rank: int = 0

    @property
    def title(self) -> str:
        return engines.TITLE[self.instance["engine"]]


def unit_name(instance: Instance, part: str = "") -> str:
    return f"gpufleet-engine-{instance['name']}{f'-{part}' if part else ''}.service"
