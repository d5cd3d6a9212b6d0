# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPU gets which value: rules on devices, checked against each device's own constraints. Pure.

Private to the collection. A device has the form of an entry of gpu_info's `gpus`, so that the planner on the
controller, the module and the boot unit judge alike.
"""

from __future__ import annotations

import typing as t

from . import _gpu_settings_words as words
from ._gpu_settings_rules import Problem, Rule
from ._gpu_settings_values import PARSERS, number, product_matches
from ._gpu_settings_words import Device

VOLATILE = frozenset({"power_limit", "compute_mode", "gpu_clocks", "memory_clocks"})


class Target(t.NamedTuple):
    """What one GPU should have."""

    device: Device
    wanted: dict[str, t.Any]
    """Setting → value; power_limit in milliwatts."""
    unsupported: frozenset[str]
    """Settings that this device does not have; they stay out of `wanted`."""


class Resolution(t.NamedTuple):
    """All targets, and all that is wrong."""

    targets: list[Target]
    problems: list[Problem]


def matches(selector: str, device: Device) -> bool:
    if selector == "all":
        return True
    if selector.startswith("product:"):
        return product_matches(selector[len("product:") :], device.get("product") or "")
    if selector.startswith("GPU-"):
        return selector.lower() == (device.get("uuid") or "").lower()
    if selector.startswith("index:"):
        return device.get("index") is not None and selector == f"index:{device['index']}"
    return selector == device.get("pci_address")


def pin_indices(rules: list[Rule], origins: list[str], devices: list[Device]) -> tuple[list[Rule], list[Problem]]:
    """`index:N` replaced by the UUID it means now: an index is not stable over reboots and must not be kept."""
    out, problems = [], []
    for rule, where in zip(rules, origins):
        if rule["select"].startswith("index:"):
            device = next((d for d in devices if matches(rule["select"], d)), None)
            if device is None:
                problems.append(words.unmatched(rule["select"], f"{where}.select", devices, "block"))
                continue
            out.append({**rule, "select": words.name_of(device)})
        else:
            out.append(rule)
    return out, problems


def resolve(rules: list[Rule], devices: list[Device], origins: t.Optional[list[str]] = None) -> Resolution:
    """Targets of all devices that answer.

    `origins` are given where people's options are judged: then two rules that disagree about one setting of one GPU
    are a problem. Without them (boot unit, governor) the rules were judged before; in both, a default for all GPUs
    (the options outside `rules`, in the file every rule for `all`) yields to any other selector.
    """
    problems = _unmatched_rules(rules, devices, origins) if origins is not None else []
    targets = []
    for device in devices:
        if device.get("state", "ok") != "ok":
            continue
        wanted: dict[str, t.Any] = {}
        unsupported = set()
        for key in PARSERS:
            choice, conflict = _choose(key, rules, device, origins)
            problems.extend(conflict)
            if choice is None:
                continue
            value = rules[choice][key]
            text = words.asked(origins[choice] if origins else None, rules[choice]["select"], key, value)
            if not supported(device, key):
                unsupported.add(key)
                problems.append(words.unsupported(key, text, device))
                continue
            target, problem = _value(key, value, text, device)
            if problem:
                problems.append(problem)
            else:
                wanted[key] = target
        if origins is not None and wanted.keys() & VOLATILE and not wanted.get("persistence", device.get("persistence")):
            problems.append(words.not_kept(device))
        targets.append(Target(device, wanted, frozenset(unsupported)))
    return Resolution(targets, problems)


def supported(device: Device, key: str) -> bool:
    """Whether the device has the setting at all, as far as reading it tells."""
    if key in (device.get("refused") or ()):
        return False
    if key == "power_limit":
        power = device.get("power") or {}
        return bool(power.get("supported", power.get("limit_mw") is not None))
    if key == "ecc":
        return (device.get("ecc") or {}).get("pending") is not None
    if key in ("gpu_clocks", "memory_clocks"):
        return True  # cannot be read: trying tells
    return device.get(key) is not None


def limit_mw(value: str, device: Device) -> t.Optional[int]:
    """Milliwatts of `300W`, `70%` or `default` on this device, to the whole watt; None without a default to refer to."""
    if value.endswith("W"):
        return round(float(value[:-1]) * 1000)
    default = (device.get("power") or {}).get("default_limit_mw")
    if default is None:
        return None
    return int(default) if value == "default" else round(default * float(value[:-1]) / 100 / 1000) * 1000


def _choose(key: str, rules: list[Rule], device: Device, origins: t.Optional[list[str]]) -> tuple[t.Optional[int], list[Problem]]:
    """Number of the rule that decides, and what disagrees with it."""
    hits = [index for index, rule in enumerate(rules) if key in rule and matches(rule["select"], device)]
    strong = [index for index in hits if not _is_default(rules[index], origins[index] if origins else None)]
    if not strong:
        return (hits[-1] if hits else None), []
    if origins is None:
        return strong[-1], []
    first = strong[0]
    rivals = [number for number in strong[1:] if _effect(key, rules[number][key], device) != _effect(key, rules[first][key], device)]
    return first, [words.conflict(key, device, rules, origins, first, rival) for rival in rivals]


def _is_default(rule: Rule, origin: t.Optional[str]) -> bool:
    return rule["select"] == "all" and (origin is None or "[" not in origin)


def _effect(key: str, value: t.Any, device: Device) -> t.Any:
    return (limit_mw(value, device) or value) if key == "power_limit" else value


def _value(key: str, value: t.Any, asked: str, device: Device) -> tuple[t.Any, t.Optional[Problem]]:
    if key in ("gpu_clocks", "memory_clocks"):
        top = (device.get("clocks_mhz") or {}).get("max_graphics" if key == "gpu_clocks" else "max_memory")
        if value != "reset" and top and int(value.split(",")[1]) > top:
            text = f"{asked} MHz: above the highest clock of {words.title(device)}, {top} MHz"
            nearest = f"{min(int(value.split(',')[0]), top)},{top}"
            return None, words.out_of_range(asked, f"{value} MHz", f"at most {top} MHz", text, device, nearest)
        return value, None
    if key != "power_limit":
        return value, None
    target = limit_mw(value, device)
    if target is None:
        text = f"{asked}: {words.title(device)} reports no default limit, so this is a percentage of nothing"
        return None, Problem("no_default", asked, value, "watts", text, "Give the limit of this GPU in watts.", words.name_of(device))
    power = device["power"]
    low, high = power.get("min_limit_mw"), power.get("max_limit_mw")
    if (low is not None and target < low) or (high is not None and target > high):
        side = "below the minimum" if low is not None and target < low else "above the maximum"
        nearest = low if side.startswith("below") else high
        needed = f"{words.watts(low) if low is not None else '?'} to {words.watts(high) if high is not None else '?'}"
        amount = "" if value.endswith("W") else f" ({words.watts(target)})"
        text = f"{asked}{amount} on {words.title(device)}: {side} of that device, which takes {needed}"
        return None, words.out_of_range(asked, words.watts(target), needed, text, device, f"{number(nearest / 1000)}W")
    return target, None


def _unmatched_rules(rules: list[Rule], devices: list[Device], origins: list[str]) -> list[Problem]:
    """Selectors that name no GPU here.

    A note, since variables of a group name the products of all its hosts; an error where a whole map of
    products, or everything that was given, names nothing.
    """
    silent = [index for index, rule in enumerate(rules) if not any(matches(rule["select"], device) for device in devices)]
    loud_map = any(_of_map(where) for index, where in enumerate(origins) if index not in silent)
    problems = []
    for index in silent:
        lost = len(silent) == len(rules) or (_of_map(origins[index]) and not loud_map)
        problems.append(words.unmatched(rules[index]["select"], origins[index], devices, "block" if lost else "info"))
    return problems


def _of_map(where: str) -> bool:
    return "['" in where or '["' in where
