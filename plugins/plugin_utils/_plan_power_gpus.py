# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes per GPU and setting. Private to the collection, pure."""

from __future__ import annotations

import hashlib
import typing as t

from ..module_utils import _paths
from ..module_utils._gpu_settings_apply import ORDER, current, equal
from ..module_utils._gpu_settings_records import CLOCKS, clocks_text
from ..module_utils._gpu_settings_targets import Target
from ..module_utils._gpu_settings_units import GOVERNOR_UNIT
from ..module_utils._gpu_settings_words import name_of, watts
from ._contracts import Change, Disruption, Finding
from ._plan_power_host import Settings
from ._plan_power_words import finding

_IDS = {"power_limit": "limit", "gpu_clocks": "clocks", "memory_clocks": "clocks"}


def gpu_changes(targets: t.Iterable[Target], settings: Settings, facts: t.Mapping[str, t.Any]) -> tuple[list[Change], list[Finding]]:
    """What differs from the targets, and ECC modes that only wait for a reboot."""
    targets = list(targets)
    files = facts.get("state_files") or {}
    ours = settings.config_is(files)
    governed = _governed(settings, facts)
    locked = _clocks_locked(targets, facts)
    changes, pending = [], []
    for target in targets:
        for key in ORDER:
            if key not in target.wanted or (key == "power_limit" and governed) or (key in CLOCKS and locked):
                continue
            before, after = current(target.device, key, {}), target.wanted[key]
            if not equal(key, before, after):
                changes.append(_change(target, key, before, after, ours))
        ecc = target.device.get("ecc") or {}
        if "ecc" in target.wanted and ecc.get("pending") == target.wanted["ecc"] != ecc.get("current"):
            pending.append(_pending(target))
    return changes, pending


def _governed(settings: Settings, facts: t.Mapping[str, t.Any]) -> bool:
    """The governor moves the limits now: its configuration is the desired state, not the momentary limit."""
    active = ((facts.get("units") or {}).get(GOVERNOR_UNIT) or {}).get("active") == "active"
    actual = ((facts.get("state_files") or {}).get("gpu_settings") or {}).get("governor")
    return bool(settings.governor) and active and actual == settings.governor


def _clocks_locked(targets: list[Target], facts: t.Mapping[str, t.Any]) -> bool:
    """Whether the record of this boot says that every range is locked as wanted; the record is known by its hash."""
    wanted = {target.device.get("uuid") or "": {key: target.wanted[key] for key in CLOCKS if key in target.wanted} for target in targets}
    text = clocks_text(wanted)
    actual = ((facts.get("state_files") or {}).get("files") or {}).get(_paths.GPU_CLOCKS)
    return text is not None and actual == hashlib.sha256(text.encode()).hexdigest()


def _change(target: Target, key: str, before: t.Any, after: t.Any, ours: bool) -> Change:
    def show(value: t.Any) -> str:
        if value is None:
            return "unknown"
        return watts(value) if key == "power_limit" else str(value).lower()

    device = target.device
    message = f"{key} of {device.get('product') or 'GPU'} at {device.get('pci_address')}: {show(before)} → {show(after)}"
    if ours and key == "power_limit" and before is not None:
        lost = before == (device.get("power") or {}).get("default_limit_mw")
        message += " (the driver was loaded anew since it was set, or persistence is off)" if lost else " (somebody else changed it)"
    disruption: Disruption = "reboot" if key == "ecc" else "none"
    text_before, text_after = (show(before), show(after)) if key == "power_limit" else (before, after)
    return Change(f"power.{_IDS.get(key, key)}", "power", name_of(device), text_before, text_after, message, disruption)


def _pending(target: Target) -> Finding:
    name = name_of(target.device)
    mode = "on" if target.wanted["ecc"] else "off"
    return finding(
        "ecc_pending",
        "warn",
        f"ECC of {name} is set to {mode} and takes effect at the next reboot.",
        found=f"pending {mode}, current {'off' if target.wanted['ecc'] else 'on'}",
        needed=f"current {mode}",
        fix="Reboot the host when it is drained.",
        subject=name,
    )


def predicted_gpus(facts: t.Mapping[str, t.Any], targets: t.Iterable[Target]) -> list[dict[str, t.Any]]:
    """The facts' GPUs as they would be afterwards."""
    wanted = {target.device.get("pci_address"): target for target in targets}
    out = []
    for gpu in facts.get("gpus") or []:
        target = wanted.get(gpu.get("pci_address"))
        out.append({**gpu, **(_after(target) if target else {})})
    return out


def _after(target: Target) -> dict[str, t.Any]:
    device, wanted = target.device, target.wanted
    after: dict[str, t.Any] = {key: wanted[key] for key in ("persistence", "compute_mode") if key in wanted}
    if "power_limit" in wanted:
        after["power"] = {**(device.get("power") or {}), "limit_mw": wanted["power_limit"]}
    if "ecc" in wanted:
        after["ecc"] = {**(device.get("ecc") or {}), "pending": wanted["ecc"]}
    return after
