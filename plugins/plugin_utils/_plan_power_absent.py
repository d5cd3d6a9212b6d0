# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan of gpu_power_state: absent. Private to the collection, pure."""

from __future__ import annotations

import typing as t

from ..module_utils import _paths
from ..module_utils._gpu_settings_units import GOVERNOR_UNIT, SETTINGS_UNIT, UNIT_DIR, steps_down
from ._contracts import Change, Plan
from ._plan_power_host import reload_class

_UNITS = (GOVERNOR_UNIT, SETTINGS_UNIT)


def plan_absent(result: Plan, facts: t.Mapping[str, t.Any]) -> None:
    """Whatever of ours is left on the host makes the module run; what it undoes on the GPUs it knows from the configuration."""
    state = facts.get("state_files") or {}
    files, units = state.get("files") or {}, facts.get("units") or {}
    for name in _UNITS:
        for verb, unit in steps_down(name, units.get(name)):
            result.changes.append(Change("power.service", "power", unit, units[name].get("active"), verb, f"systemctl {verb} {unit}"))
    for path in (*(f"{UNIT_DIR}/{name}" for name in _UNITS), _paths.GPU_CLOCKS, _paths.GPU_SETTINGS):
        if files.get(path):
            message = "device settings go back to the driver's defaults" if path == _paths.GPU_SETTINGS else f"{path} is removed"
            result.changes.append(Change("power.absent", "power", path, files[path], None, message))
    there = [name for name in _UNITS if files.get(f"{UNIT_DIR}/{name}")]
    if there:
        message = "systemd reads its units again, because some of ours are gone"
        result.changes.append(Change("power.daemon_reload", "power", there[0], None, None, message, reload_class(facts)))
    if state.get("gpu_settings_recorded"):
        record = _paths.GPU_SETTINGS_RECORDED
        result.changes.append(Change("power.absent", "power", record, "present", None, "the record of GPUs is removed"))
    if state.get("runtime_sha256"):
        result.changes.append(
            Change("power.absent", "power", _paths.RUNTIME_DIR, state["runtime_sha256"], None, "the code of the boot unit is removed")
        )
    if result.changes:
        result.decision = "converge"
        gone = dict.fromkeys((*(f"{UNIT_DIR}/{name}" for name in _UNITS), _paths.GPU_CLOCKS, _paths.GPU_SETTINGS))
        result.predicted = {
            "units": {name: None for name in _UNITS if name in units},
            "state_files": {"files": gone, "gpu_settings": None, "gpu_settings_recorded": None, "runtime_sha256": None},
        }
