# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How devices, values and problems with them are called. Pure; private to the collection."""

from __future__ import annotations

import re
import typing as t

from ._gpu_settings_rules import Problem, Rule
from ._gpu_settings_values import number

Device = dict[str, t.Any]
"""In the form of an entry of gpu_info's `gpus`."""


def name_of(device: Device) -> str:
    """UUID, or the PCI address of a GPU that does not answer."""
    return device.get("uuid") or device.get("pci_address") or f"index {device.get('index')}"


def title(device: Device) -> str:
    return f"{name_of(device)} ({device.get('product') or 'unknown product'})"


def watts(milliwatts: float) -> str:
    return f"{number(milliwatts / 1000)} W"


def asked(origin: t.Optional[str], selector: str, key: str, value: t.Any) -> str:
    """The option and its value: gpu_power_rules[1].power_limit 300W, gpu_power_limit 70%; in the file, product:H200 power_limit 70%."""
    if origin is None:
        return f"{selector} {key} {value}"
    return f"{origin}.{key} {value}" if re.search(r"\[[0-9]+\]$", origin) else f"{origin} {value}"


def out_of_range(option: str, found: str, needed: str, text: str, device: Device, nearest: str) -> Problem:
    return Problem("out_of_range", option, found, needed, text, f"Use a value of {needed} for this GPU.", name_of(device), nearest)


def unsupported(key: str, option: str, device: Device) -> Problem:
    text = f"{option}: {title(device)} does not support {key}; it is left as it is"
    fix = "Nothing to do; narrow the selector to be rid of this note."
    return Problem("unsupported", option, "not supported", f"a device with {key}", text, fix, name_of(device), severity="info")


def conflict(key: str, device: Device, rules: list[Rule], origins: list[str], one: int, other: int) -> Problem:
    first, second = (f"{origins[n]} ({rules[n]['select']}) says {rules[n][key]}" for n in (one, other))
    text = f"two selectors disagree about {key} of {title(device)}: {first}, {second}"
    fix = "Narrow one selector, or give both the same value. Defaults for all GPUs belong into the options outside the rules."
    return Problem("conflict", origins[other], f"{rules[one][key]} and {rules[other][key]}", "one value", text, fix, name_of(device))


def not_kept(device: Device) -> Problem:
    text = f"persistence mode of {title(device)} is off, so the driver forgets its settings as soon as nothing uses the GPU"
    fix = "Ask for persistence on this GPU, or leave its other settings alone."
    return Problem("not_kept", "persistence", "off", "persistence mode on", text, fix, name_of(device), severity="warn")


def unmatched(selector: str, where: str, devices: list[Device], severity: str) -> Problem:
    present = ", ".join(sorted({d.get("product") or name_of(d) for d in devices})) or "none"
    text = f"{where}: {selector} names no GPU of this host; present: {present}"
    fix = "Correct the selector, or leave it out of this host's variables."
    return Problem("unmatched", where, f"{selector} matches nothing", f"one of {present}", text, fix, selector, severity=severity)
