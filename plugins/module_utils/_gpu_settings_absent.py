# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module's run for state=absent: what this collection set goes back, what it put there goes. Private to the collection.

Only what the configuration on this host says that we manage is touched. The configuration goes last: a run that is
killed anywhere leaves it, and the next one starts over.
"""

from __future__ import annotations

import shutil
import typing as t

from . import _gpu_settings_systemd as systemd
from ._files import read_text, remove
from ._gpu_settings_apply import GOOD, Request
from ._gpu_settings_core import installed_sha256
from ._gpu_settings_present import drop_units
from ._gpu_settings_records import ecc_to_restore
from ._gpu_settings_result import Result, setting_diffs
from ._gpu_settings_session import Config, Paths, read_config, settle
from ._gpu_settings_units import GOVERNOR_UNIT, SETTINGS_UNIT, steps_down
from ._nvml import Options
from ._state import read_state

_DRIVER_DEFAULTS = {"power_limit": "default", "compute_mode": "default", "gpu_clocks": "reset", "memory_clocks": "reset"}
PERSISTENCED = "nvidia-persistenced.service"
STOP_TIMEOUT = 120.0


def way_back(config: Config, ecc: t.Mapping[str, bool], keep_persistence: bool) -> list[dict[str, t.Any]]:
    """Rules that undo `config`: driver defaults for what is volatile, the recorded value for what is not. Pure."""
    rules = []
    for rule in config.rules:
        back: dict[str, t.Any] = {key: _DRIVER_DEFAULTS[key] for key in rule if key in _DRIVER_DEFAULTS}
        if rule.get("persistence") and not keep_persistence:
            back["persistence"] = False
        if back:
            rules.append({"select": rule["select"], **back})
    if config.governor and not any("power_limit" in rule for rule in rules):
        rules.append({"select": "all", "power_limit": "default"})
    if any("ecc" in rule for rule in config.rules):
        rules.extend({"select": uuid, "ecc": mode} for uuid, mode in ecc.items())
    return rules


def absent(paths: Paths, options: Options, check: bool) -> Result:
    """Undo everything."""
    config = read_config(paths)
    units = [GOVERNOR_UNIT, SETTINGS_UNIT]
    with_systemd = systemd.running()
    shows = systemd.ask([*units, PERSISTENCED]) if with_systemd else {}
    actions: list[str] = []
    if check:
        actions = [f"{verb} {unit}" for name in units for verb, unit in steps_down(name, shows.get(name))]
    elif with_systemd:
        actions = drop_units(units, paths, STOP_TIMEOUT)
    gpus: list[dict[str, t.Any]] = []
    warnings: list[str] = []
    recorded = read_state(paths.recorded, "gpu_settings_recorded")
    if config is not None:
        ecc = ecc_to_restore(recorded)
        # Where the daemon runs, persistence mode is its default and not ours to take away.
        rules = way_back(config, ecc, shows.get(PERSISTENCED, {}).get("active") == "active")
        outcome = settle(Request(rules, check=check), paths, options, "module gpu_settings")
        if outcome.state == "ok":
            gpus = outcome.data["gpus"]
            warnings += _left(config, gpus)
        else:
            why = f"{outcome.state}: {outcome.reason}"
            warnings.append(f"the GPUs cannot be reached ({why}); volatile settings end with the driver's next load")
    bad = [
        f"{key} of {gpu['uuid']}: {s['status']} ({s.get('error', '')})"
        for gpu in gpus
        for key, s in gpu["settings"].items()
        if s["status"] not in GOOD
    ]
    files: list[str] = []
    diffs = setting_diffs(gpus)
    if not bad:
        files, more = _remove_files(paths, check)
        diffs += more
    changed = bool(actions or files) or any(s["status"] == "set" for gpu in gpus for s in gpu["settings"].values())
    return Result(changed, gpus, files, actions, diffs, warnings, "; ".join(bad))


def _left(config: Config, gpus: list[dict[str, t.Any]]) -> list[str]:
    """Persistent settings that stay, since nobody recorded what they were."""
    if not any("ecc" in rule for rule in config.rules):
        return []
    notes = [f"ECC mode of {gpu['uuid']} takes effect at the next reboot" for gpu in gpus if gpu["reboot_needed"]]
    kept = [f"ECC mode of {gpu['uuid']} is left: we never changed it" for gpu in gpus if "ecc" not in gpu["settings"]]
    return notes + kept


def _remove_files(paths: Paths, check: bool) -> tuple[list[str], list[dict[str, str]]]:
    files, diffs = [], []
    if installed_sha256(paths.runtime):
        files.append(paths.runtime)
        if not check:
            shutil.rmtree(paths.runtime, ignore_errors=True)
    leftovers = [f"{paths.units}/{name}" for name in (GOVERNOR_UNIT, SETTINGS_UNIT)] if check or not systemd.running() else []
    for path in [*leftovers, paths.clocks, paths.governor_state, paths.recorded, paths.config]:
        if read_text(path) is None:
            continue
        written = remove(path, check=check)
        files.append(path)
        diffs.append(written.diff)
    return files, diffs
