# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who else manages parts of this host, with the evidence. Private to the collection.

A manager counts when it is at work here, not when its package merely is installed.
"""

from __future__ import annotations

import os
import re
import typing as t

from ._reader import Reader

Units = t.Mapping[str, t.Mapping[str, t.Any]]

_BY_UNIT = (  # manager, components, units
    ("vgpu_guest", ("driver",), ("nvidia-gridd.service",)),
    ("kubelet", ("engine",), ("kubelet.service", "k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service")),
    ("slurmd", ("engine",), ("slurmd.service",)),
    ("mig_manager", ("mig",), ("nvidia-mig-manager.service",)),
    ("cdi_refresh", ("cdi",), ("nvidia-cdi-refresh.service", "nvidia-cdi-refresh.path")),
    ("powerd", ("power",), ("nvidia-powerd.service",)),
)
_BY_PATH = (  # manager, components, path that is there only where it works
    ("gpu_operator", ("driver",), "/run/nvidia/driver/usr"),
    ("gpu_operator", ("container_toolkit",), "/run/nvidia/validations/toolkit-ready"),
    ("gpu_operator", ("container_toolkit",), "/usr/local/nvidia/toolkit/nvidia-container-runtime"),
    ("dgx_os", ("driver", "fabric", "container_toolkit"), "/etc/dgx-release"),
    ("vgpu_guest", ("driver",), "/etc/nvidia/gridd.conf"),
)
_SCRIPTS = ("/etc/rc.local", "/etc/rc.d/rc.local", "/etc/crontab")
_SCRIPT_DIRS = ("/etc/cron.d",)
_POWER = re.compile(r"^(?!\s*#).*nvidia-smi\b.*\s(?:-pl|--power-limit|-lgc|--lock-gpu-clocks)\b", re.MULTILINE)


def read_managers(reader: Reader, units: Units, power_units: t.Iterable[str]) -> list[dict[str, t.Any]]:
    """The part `managers` of gpu_info; one entry per manager."""
    found: dict[str, dict[str, t.Any]] = {}

    def add(name: str, components: t.Iterable[str], evidence: str) -> None:
        entry = found.setdefault(name, {"name": name, "components": [], "evidence": evidence})
        entry["components"] += [component for component in components if component not in entry["components"]]

    for name, components, path in _BY_PATH:
        if os.path.exists(reader.fs(path)):
            add(name, components, path)
    for name, components, candidates in _BY_UNIT:
        for unit in candidates:
            if _at_work(units.get(unit)):
                add(name, components, _state(unit, units))
    for unit in power_units:
        if not units or _at_work(units.get(unit)):  # without systemd's word the file alone must do
            add("power_unit", ("power",), _state(unit, units) + " sets limits by nvidia-smi")
    for path in _scripts(reader):
        if _POWER.search(reader.text(reader.fs(path)) or ""):
            add("power_unit", ("power",), f"{path} sets limits by nvidia-smi")
    return list(found.values())


def _at_work(unit: t.Optional[t.Mapping[str, t.Any]]) -> bool:
    if not unit or unit["load"] != "loaded":
        return False
    return unit["active"] in ("active", "activating", "reloading") or unit["enabled"] in ("enabled", "enabled-runtime")


def _state(unit: str, units: Units) -> str:
    known = units.get(unit)
    return f"{unit} is {known['enabled'] or 'not enabled'}, {known['active']}" if known else unit


def _scripts(reader: Reader) -> t.Iterator[str]:
    yield from _SCRIPTS
    for folder in _SCRIPT_DIRS:
        for name in reader.names(reader.fs(folder)):
            yield f"{folder}/{name}"
