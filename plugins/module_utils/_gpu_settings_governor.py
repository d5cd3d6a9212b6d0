# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The power governor: lowers the limit of a hot GPU and gives it back, until it is told to stop. Private to the collection.

Each tick is one bounded NVML session. Whatever ends the loop, the set limits are put back; the unit does the same
once more in ExecStopPost, for an end that leaves us no time.
"""

from __future__ import annotations

import json
import os
import typing as t

from ._errors import HostError
from ._files import remove, write_text
from ._gpu_settings_apply import GOOD, Request
from ._gpu_settings_control import law_for, next_limit
from ._gpu_settings_core import installed_sha256
from ._gpu_settings_device import Session, read, temperature, write
from ._gpu_settings_lock import APPLY_LOCK, Locked, hold
from ._gpu_settings_session import GOVERNOR_LOCK, Config, Paths, read_config, settle
from ._gpu_settings_targets import limit_mw, resolve, supported
from ._gpu_settings_words import name_of
from ._nvml import Options, Outcome, run_bounded
from ._nvml_errors import NvmlError

Log = t.Callable[[str], None]
Wait = t.Callable[[float], bool]
"""Sleeps up to so many seconds; True when it is time to stop."""
GIVE_UP = 5
"""Ticks in a row without NVML after which the governor ends with an error (and the unit tries again)."""
_DEFAULT = {"select": "all", "power_limit": "default"}


def state_text(runtime_sha256: t.Optional[str]) -> str:
    """Content of the state file: with which code the running governor was started."""
    return json.dumps({"schema": 1, "runtime_sha256": runtime_sha256}, sort_keys=True) + "\n"


def limit_rules(rules: list[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Rules for the limit alone; a GPU that no rule names has its default limit as set limit."""
    return [_DEFAULT, *({"select": r["select"], "power_limit": r["power_limit"]} for r in rules if "power_limit" in r)]


def tick(session: Session, config: Config) -> list[dict[str, t.Any]]:
    """One look at every GPU: {uuid, before, after, why, error} of each that has a power limit."""
    governor = config.governor or {}
    out = []
    for index in range(session.call("nvmlDeviceGetCount")):
        device, handle = read(session, index)
        if device["state"] != "ok" or not supported(device, "power_limit"):
            continue
        wanted = resolve(limit_rules(config.rules), [device]).targets[0].wanted.get("power_limit")
        set_mw = wanted if wanted is not None else limit_mw("default", device)
        if set_mw is None:
            continue
        law, _clamped = law_for(governor, device, set_mw)
        entry: dict[str, t.Any] = {"uuid": name_of(device), "before": device["power"]["limit_mw"], "error": "", "why": ""}
        try:
            entry["after"], entry["why"] = next_limit(entry["before"], temperature(session, handle, governor["sensor"]), law)
            if entry["after"] != entry["before"]:
                write(session, handle, "power_limit", entry["after"])
        except NvmlError as exc:
            entry["error"] = exc.name
        out.append(entry)
    return out


def govern(paths: Paths, options: Options, wait: Wait, log: Log, ready: t.Callable[[], None] = lambda: None) -> int:
    """Run until told to stop (0), until the configuration has no governor any more (0), or until NVML is gone (1)."""
    with hold(paths.run_dir, GOVERNOR_LOCK, "power governor", 3.0):
        write_text(paths.governor_state, state_text(installed_sha256(os.path.dirname(os.path.abspath(__file__)))))
        try:
            return _loop(paths, options, wait, log, ready)
        finally:
            restore(paths, options, log)
            remove(paths.governor_state)


def _loop(paths: Paths, options: Options, wait: Wait, log: Log, ready: t.Callable[[], None]) -> int:
    failures = 0
    silent: set[str] = set()
    while True:
        config = read_config(paths)
        if config is None or config.governor is None:
            log("the configuration has no governor: ending")
            return 0
        outcome = _bounded_tick(config, paths, options)
        if outcome is not None and outcome.state == "ok":
            failures = 0
            _tell(outcome.data, silent, log)
        elif outcome is not None:
            failures += 1
            log(f"{outcome.state}: {outcome.reason}; limits stay as they are")
            if failures >= GIVE_UP or outcome.hung:
                return 1
        ready()
        if wait(config.governor["interval_seconds"]):
            log("told to stop")
            return 0


def _bounded_tick(config: Config, paths: Paths, options: Options) -> t.Optional[Outcome]:
    """None while settings are being applied by someone else: the next tick sees the result."""
    try:
        with hold(paths.run_dir, APPLY_LOCK, "power governor", 1.0):
            return run_bounded(lambda session, _request: tick(session, config), {}, options)
    except Locked:
        return None


def _tell(entries: list[dict[str, t.Any]], silent: set[str], log: Log) -> None:
    """A line for each step, and one when a GPU stops or starts to answer."""
    for entry in entries:
        uuid, trouble = entry["uuid"], entry["error"] or ("no temperature" if entry["why"].startswith("no ") else "")
        if trouble and uuid not in silent:
            silent.add(uuid)
            log(f"{uuid}: {entry['error'] or entry['why']}")
        elif not trouble:
            silent.discard(uuid)
        if not entry["error"] and entry["after"] != entry["before"]:
            log(f"{uuid}: {entry['before'] / 1000:g} W → {entry['after'] / 1000:g} W ({entry['why']})")


def restore(paths: Paths, options: Options, log: Log) -> int:
    """Give every GPU its set limit; 0 when all have it."""
    try:
        config = read_config(paths)
        rules = limit_rules(config.rules if config else [])
        outcome = settle(Request(rules=rules, only=("power_limit",)), paths, options, "restore of the set limits")
    except HostError as exc:
        log(f"the set limits could not be restored: {exc}")
        return 1
    if outcome.state != "ok":
        log(f"the set limits could not be restored: {outcome.state}: {outcome.reason}")
        return 1
    bad = 0
    for gpu in outcome.data["gpus"]:
        setting = gpu["settings"].get("power_limit")
        if setting is None:
            continue
        bad += setting["status"] not in GOOD
        if setting["status"] != "unchanged":
            log(f"{gpu['uuid']}: set limit {setting.get('wanted', 0) / 1000:g} W, {setting['status']}")
    return 1 if bad else 0
