# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names for NVML's numbers. Pure; private to the collection."""

from __future__ import annotations

import typing as t

ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
NVLINK_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
NVLINK_REMOTES = {0: "gpu", 1: "npu", 2: "nvswitch"}
RECOVERY_ACTIONS = {
    0: "none",
    1: "reset",
    2: "reboot",
    3: "drain_p2p",
    4: "drain_and_reset",
    5: "recover_imex_domain",
    6: "bus_reset",
    7: "system_reboot",
}
FABRIC_STATES = {0: "not_supported", 1: "not_started", 2: "in_progress", 3: "completed"}
_FABRIC_PROBLEMS = ((0, "degraded_bandwidth"), (2, "route_recovery"), (4, "route_unhealthy"), (6, "access_timeout_recovery"))
_CLOCK_REASONS = (
    (0x1, "gpu_idle"),
    (0x2, "applications_clocks_setting"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal_slowdown"),
    (0x40, "hw_thermal_slowdown"),
    (0x80, "hw_power_brake_slowdown"),
    (0x100, "display_clock_setting"),
)


def named(table: t.Mapping[int, str], value: t.Optional[int]) -> t.Optional[str]:
    """The name, `code_N` for a number this version does not know, None for None."""
    return None if value is None else table.get(value, f"code_{value}")


def clock_reasons(mask: int) -> list[str]:
    return [name for bit, name in _CLOCK_REASONS if mask & bit]


def fabric_health(mask: int) -> t.Union[str, list[str], None]:
    """`healthy`, or the problems whose two-bit field says true; None where no field is supported."""
    fields = {name: mask >> shift & 3 for shift, name in _FABRIC_PROBLEMS}
    problems = [name for name, value in fields.items() if value == 1]
    if problems:
        return problems
    return "healthy" if any(fields.values()) else None


def pci_address(domain: int, bus: int, device: int) -> str:
    """As sysfs writes it."""
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"
