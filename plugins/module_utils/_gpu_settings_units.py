# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit files of device settings. Pure; private to the collection: the planner compares what the module writes."""

from __future__ import annotations

import typing as t

from . import _paths
from ._state import dump

SETTINGS_UNIT = "gpufleet-gpu-settings.service"
GOVERNOR_UNIT = "gpufleet-power-governor.service"
UNIT_DIR = "/etc/systemd/system"
TARGET = "multi-user.target"

Show = t.Mapping[str, t.Any]
"""State of a unit, as in gpu_info's `units`."""


class UnitOptions(t.NamedTuple):
    """What differs from host to host."""

    python: str = "/usr/bin/python3"
    boot_wait: float = 60.0
    nvml_timeout: float = 10.0
    nvml_library: t.Optional[str] = None
    persistence: bool = False
    """Some GPU shall have persistence mode: the daemon that keeps it is wanted where it is installed."""


# ProtectClock and DeviceAllow are left out on purpose: both close the device list, and the NVIDIA devices are only
# known to systemd once the module is loaded. MemoryDenyWriteExecute is left out for libffi, which pynvml stands on.
_HARDENING = """\
ProtectSystem=full
ProtectHome=yes
PrivateTmp=yes
NoNewPrivileges=yes
ProtectKernelTunables=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
RuntimeDirectory=gpufleet
RuntimeDirectoryPreserve=yes
UMask=0022
"""


def _command(options: UnitOptions, command: str) -> str:
    parts = [options.python, "-s", "-B", "-m", _paths.RUNTIME_DIR.rpartition("/")[2], command, f"--nvml-timeout={options.nvml_timeout:g}"]
    if command == "apply":
        parts.append(f"--wait={options.boot_wait:g}")
    if options.nvml_library:
        parts.append(f"--nvml-library={options.nvml_library}")
    return " ".join(parts)


def _environment() -> str:
    return f"Environment=PYTHONPATH={_paths.RUNTIME_DIR.rpartition('/')[0]} LC_ALL=C.UTF-8\nWorkingDirectory=/\n"


def settings_unit(options: UnitOptions) -> str:
    """The boot unit: after persistence is effective, before anything that is ordered after multi-user.target."""
    wants = "Wants=nvidia-persistenced.service\n" if options.persistence else ""
    return f"""\
# Written by gpufleet.inference (module gpu_settings). Changes are overwritten.
[Unit]
Description=Apply and verify NVIDIA GPU device settings
ConditionPathExists={_paths.GPU_SETTINGS}
{wants}After=systemd-modules-load.service systemd-udev-trigger.service nvidia-persistenced.service
StartLimitIntervalSec=1h
StartLimitBurst=4

[Service]
Type=oneshot
RemainAfterExit=yes
{_environment()}ExecStart={_command(options, "apply")}
TimeoutStartSec={options.boot_wait + 3 * options.nvml_timeout + 60:g}
Restart=on-failure
RestartSec=30
{_HARDENING}
[Install]
WantedBy={TARGET}
"""


def governor_unit(options: UnitOptions) -> str:
    """The governor: whatever ends it, the set limits come back."""
    return f"""\
# Written by gpufleet.inference (module gpu_settings). Changes are overwritten.
[Unit]
Description=Move NVIDIA GPU power limits with the temperature
ConditionPathExists={_paths.GPU_SETTINGS}
Wants={SETTINGS_UNIT}
After={SETTINGS_UNIT} nvidia-persistenced.service
StartLimitIntervalSec=1h
StartLimitBurst=6

[Service]
Type=notify
{_environment()}ExecStart={_command(options, "govern")}
ExecStopPost={_command(options, "restore")}
TimeoutStartSec={3 * options.nvml_timeout + 30:g}
TimeoutStopSec={3 * options.nvml_timeout + 60:g}
Restart=on-failure
RestartSec=15
{_HARDENING}
[Install]
WantedBy={TARGET}
"""


def wanted_files(rules: list[dict[str, t.Any]], governor: t.Any, unit: UnitOptions) -> tuple[str, dict[str, str]]:
    """Text of the configuration, and unit name → text."""
    units = {SETTINGS_UNIT: settings_unit(unit._replace(persistence=any(rule.get("persistence") for rule in rules)))}
    if governor:
        units[GOVERNOR_UNIT] = governor_unit(unit)
    return dump("gpu_settings_desired", {"rules": rules, "governor": governor}), units


def steps_up(name: str, show: t.Optional[Show], stale: bool, hopeless: bool = False) -> list[tuple[str, str]]:
    """What makes a unit enabled and active; `stale`: it runs with code or a definition that is no more; `hopeless`: it would fail."""
    show = show or {}
    steps = [] if show.get("enabled") == "enabled" else [("enable", name)]
    if hopeless:
        return steps
    if show.get("active") == "failed":
        steps.append(("reset-failed", name))
    if show.get("active") not in ("active", "reloading"):
        steps.append(("start", name))
    elif stale:
        steps.append(("restart", name))
    return steps


def steps_down(name: str, show: t.Optional[Show]) -> list[tuple[str, str]]:
    """What makes a unit inactive and disabled."""
    if not show:
        return []
    steps = [("stop", name)] if show.get("active") not in ("inactive", "", None, "failed") else []
    steps += [("reset-failed", name)] if show.get("active") == "failed" else []
    return steps + ([("disable", name)] if show.get("enabled") not in ("disabled", "", None, "static") else [])
