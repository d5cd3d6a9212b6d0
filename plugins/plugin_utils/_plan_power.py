# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan of component `power`: device settings of all GPUs, and the files and units that keep them over a reboot.

Private to the collection, pure. What is right for a device is judged by the very functions that the module and the boot unit
use (module_utils/_gpu_settings_*); here they see the facts of a host instead of its devices.
"""

from __future__ import annotations

import typing as t

from ..module_utils import _paths
from ..module_utils._gpu_settings_control import judge_governor, parse_governor
from ..module_utils._gpu_settings_rules import Compiled, compile_rules
from ..module_utils._gpu_settings_targets import pin_indices, resolve
from ._contracts import Context, Plan
from ._matrix_model import Matrix
from ._plan_power_absent import plan_absent
from ._plan_power_devices import LOST, Devices, read_devices
from ._plan_power_gpus import gpu_changes, predicted_gpus
from ._plan_power_host import Settings, host_changes, predicted_host
from ._plan_power_words import GOVERNOR, NAMES, SOURCE, from_problem
from ._plan_state_files import unreadable_state


def plan(desired: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any], matrix: Matrix, context: Context) -> Plan:
    """`desired`: {state, power_limit, persistence, rules, governor, boot_wait, boot_python, nvml_timeout, nvml_library}."""
    result = Plan(component="power")
    result.findings.extend(unreadable_state("power", SOURCE, facts, (_paths.GPU_SETTINGS, _paths.GPU_SETTINGS_RECORDED)))
    if desired.get("state") == "absent":
        plan_absent(result, facts)
        return result
    compiled = compile_rules(desired.get("power_limit"), desired.get("persistence"), desired.get("rules"), NAMES)
    governor, problems = parse_governor(desired.get("governor"), GOVERNOR)
    result.findings.extend(from_problem(problem) for problem in (*compiled.problems, *problems))
    devices = read_devices(facts, matrix, context, bool(desired.get("forget_missing")))
    result.findings.extend(devices.findings)
    if not devices.usable or any(finding.severity == "block" and finding.id not in LOST for finding in result.findings):
        return result
    _present(result, compiled, governor, devices, desired, facts, context)
    return result


def _present(
    result: Plan,
    compiled: Compiled,
    governor: dict[str, t.Any] | None,
    devices: Devices,
    desired: t.Mapping[str, t.Any],
    facts: t.Mapping[str, t.Any],
    context: Context,
) -> None:
    rules, problems = pin_indices(compiled.rules, compiled.origins, devices.devices)
    resolution = resolve(rules, devices.devices, compiled.origins)
    if not problems:
        problems = [*resolution.problems, *judge_governor(governor, resolution.targets, GOVERNOR)]
    result.findings.extend(from_problem(problem) for problem in problems)
    if any(problem.severity == "block" for problem in problems):
        return
    settings = Settings.of(desired, rules, governor)
    changes, pending = gpu_changes(resolution.targets, settings, facts)
    files = host_changes(settings, devices, facts, context, bool(desired.get("forget_missing")))
    result.changes.extend([*changes, *files])
    result.findings.extend(pending)
    result.decision = "reboot" if pending else "converge" if result.changes else "nothing"
    result.details["missing_gpus"] = "fail" if devices.complete else "warn"
    if result.changes:
        result.predicted = {**predicted_host(settings, devices, facts, context), "gpus": predicted_gpus(facts, resolution.targets)}
