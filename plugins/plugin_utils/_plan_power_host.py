# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of files and units that keep device settings over a reboot. Private to the collection, pure."""

from __future__ import annotations

import hashlib
import re
import typing as t
from dataclasses import dataclass

from ..module_utils import _paths
from ..module_utils._gpu_settings_governor import state_text
from ..module_utils._gpu_settings_units import GOVERNOR_UNIT, SETTINGS_UNIT, UNIT_DIR, UnitOptions, steps_down, steps_up, wanted_files
from ._contracts import Change, Context, Disruption
from ._plan_power_devices import Devices

_CONTAINER = re.compile(r"(?:docker|libpod|crio|cri-containerd|nerdctl)|[0-9a-f]{64}")


@dataclass(frozen=True)
class Settings:
    """What the module would write."""

    rules: list[dict[str, t.Any]]
    governor: dict[str, t.Any] | None
    config: str
    units: dict[str, str]

    @classmethod
    def of(cls, desired: t.Mapping[str, t.Any], rules: list[dict[str, t.Any]], governor: dict[str, t.Any] | None) -> Settings:
        options = UnitOptions(
            python=str(desired.get("boot_python") or UnitOptions().python),
            boot_wait=float(desired.get("boot_wait", UnitOptions().boot_wait)),
            nvml_timeout=float(desired.get("nvml_timeout") or UnitOptions().nvml_timeout),
            nvml_library=desired.get("nvml_library") or None,
        )
        config, units = wanted_files(rules, governor, options)
        return cls(rules, governor, config, units)

    def config_is(self, state_files: t.Mapping[str, t.Any]) -> bool:
        """Whether the host already holds this configuration."""
        return bool((state_files.get("files") or {}).get(_paths.GPU_SETTINGS) == _sha(self.config))


def host_changes(
    settings: Settings, devices: Devices, facts: t.Mapping[str, t.Any], context: Context, forget: bool = False
) -> list[Change]:
    """Configuration, host core, records, unit files, then what systemd has to do."""
    state = facts.get("state_files") or {}
    files = state.get("files") or {}
    changes = []
    if not settings.config_is(state):
        before = state.get("gpu_settings")
        after = {"rules": settings.rules, "governor": settings.governor}
        changes.append(_file("config", _paths.GPU_SETTINGS, before, after, "the configuration for the boot unit is written"))
    if context.runtime_sha256 and state.get("runtime_sha256") != context.runtime_sha256:
        code = (state.get("runtime_sha256"), context.runtime_sha256)
        changes.append(_file("runtime", _paths.RUNTIME_DIR, *code, "the code of the boot unit is written"))
    known = set(((state.get("gpu_settings_recorded") or {}).get("gpus")) or {})
    new = sorted(str(device["uuid"]) for device in devices.devices if device.get("uuid") and device["uuid"] not in known)
    old = set(devices.gone) if forget else set()
    if new or old:
        gpus = sorted({*known, *new} - old)
        changes.append(_file("recorded", _paths.GPU_SETTINGS_RECORDED, sorted(known), gpus, "the GPUs of this host are recorded"))
    for name, text in settings.units.items():
        changes.extend(_unit(name, text, files, facts, context, not devices.complete and name == SETTINGS_UNIT))
    if GOVERNOR_UNIT not in settings.units:
        changes.extend(_removed(GOVERNOR_UNIT, files, facts))
    return changes


def _unit(
    name: str, text: str, files: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any], context: Context, hopeless: bool
) -> list[Change]:
    path, show = f"{UNIT_DIR}/{name}", (facts.get("units") or {}).get(name)
    changes = []
    differs = files.get(path) != _sha(text)
    if differs:
        changes.append(_file("unit", path, files.get(path), _sha(text), f"unit file {name} is written"))
    if (differs and show) or (show or {}).get("need_daemon_reload"):
        message = f"systemd reads its units again, because {name} changed"
        changes.append(Change("power.daemon_reload", "power", name, None, None, message, reload_class(facts)))
    expected = state_text(context.runtime_sha256)
    old_code = context.runtime_sha256 is not None and files.get(_paths.GOVERNOR_STATE) != _sha(expected)
    stale = name == GOVERNOR_UNIT and (differs or old_code)
    # Of a unit that it has loaded systemd may keep an old view of whether it is enabled: a reload cures that.
    view = reload_class(facts) if show else "none"
    return changes + [_step(verb, unit, show, view if verb == "enable" else "none") for verb, unit in steps_up(name, show, stale, hopeless)]


def _removed(name: str, files: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> list[Change]:
    path, show = f"{UNIT_DIR}/{name}", (facts.get("units") or {}).get(name)
    changes = [_step(verb, unit, show) for verb, unit in steps_down(name, show)]
    if files.get(path):
        changes.append(_file("unit", path, files[path], None, f"unit file {name} is removed"))
    return changes


def _step(verb: str, unit: str, show: t.Mapping[str, t.Any] | None, disruption: Disruption = "none") -> Change:
    before = f"{show.get('enabled') or 'not enabled'}, {show.get('active')}" if show else None
    return Change("power.service", "power", unit, before, verb, f"systemctl {verb} {unit}", disruption)


def _file(name: str, path: str, before: t.Any, after: t.Any, message: str) -> Change:
    return Change(f"power.{name}", "power", path, before, after, message)


def reload_class(facts: t.Mapping[str, t.Any]) -> Disruption:
    """After a daemon-reload systemd applies its own list of devices, and containers that got GPUs behind its back lose them."""
    users = [process.get("unit") or "" for gpu in facts.get("gpus") or [] for process in gpu.get("processes") or []]
    return "host_service_restart" if any(_CONTAINER.search(unit) for unit in users) else "none"


def predicted_host(settings: Settings, devices: Devices, facts: t.Mapping[str, t.Any], context: Context) -> dict[str, t.Any]:
    """Files and units as they would be afterwards."""
    up = {"load": "loaded", "active": "active", "sub": "exited", "enabled": "enabled", "need_daemon_reload": False}
    recorded: dict[str, t.Any] = {"gpus": {device["uuid"]: {} for device in devices.devices if device.get("uuid")}}
    files: dict[str, t.Any] = {f"{UNIT_DIR}/{name}": _sha(text) for name, text in settings.units.items()}
    files[_paths.GPU_SETTINGS] = _sha(settings.config)
    if GOVERNOR_UNIT in settings.units:
        files[_paths.GOVERNOR_STATE] = _sha(state_text(context.runtime_sha256))
    state: dict[str, t.Any] = {
        "gpu_settings": {"schema": 1, "rules": settings.rules, "governor": settings.governor},
        "gpu_settings_recorded": recorded,
        "files": files,
    }
    if context.runtime_sha256:
        state["runtime_sha256"] = context.runtime_sha256
    return {"units": dict.fromkeys(settings.units, up), "state_files": state}


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
