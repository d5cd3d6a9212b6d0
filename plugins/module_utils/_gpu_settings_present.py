# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module's run for state=present: judge, stage, apply, put in place, bring up. Private to the collection."""

from __future__ import annotations

import typing as t

from . import _gpu_settings_boot as _boot  # noqa: F401 - makes the host core travel with the module
from . import _gpu_settings_systemd as systemd
from ._errors import HostError
from ._files import read_text, remove
from ._gpu_settings_apply import Request, put_back
from ._gpu_settings_control import parse_governor
from ._gpu_settings_core import digest
from ._gpu_settings_device import read_all
from ._gpu_settings_governor import state_text
from ._gpu_settings_install import Staged
from ._gpu_settings_records import missing
from ._gpu_settings_result import Refused, Result, lost_gpus, summed_up
from ._gpu_settings_rules import Compiled, Names, Problem, compile_rules
from ._gpu_settings_session import Paths, governor_runs, read_config, settle
from ._gpu_settings_targets import pin_indices
from ._gpu_settings_units import GOVERNOR_UNIT, SETTINGS_UNIT, UnitOptions, steps_down, steps_up, wanted_files
from ._nvml import Options, Outcome, run_bounded
from ._pci import read_pci
from ._reader import Reader
from ._state import read_state

NOT_YET = frozenset({"no_pynvml", "no_library", "module_not_loaded"})
"""States that check mode foresees to end when the driver is there."""


class Wish(t.NamedTuple):
    """The module's options."""

    power_limit: t.Any
    persistence: t.Any
    rules: t.Any
    governor: t.Any
    persist: bool
    missing_gpus: str
    forget_missing: bool
    unit: UnitOptions
    names: Names = Names()
    governor_name: str = "governor"


class Judged(t.NamedTuple):
    """A wish without problems of form."""

    compiled: Compiled
    governor: t.Optional[dict[str, t.Any]]


def judge(wish: Wish) -> Judged:
    """Refused with everything that is wrong in itself."""
    compiled = compile_rules(wish.power_limit, wish.persistence, wish.rules, wish.names)
    governor, problems = parse_governor(wish.governor, wish.governor_name)
    if compiled.problems or problems:
        raise Refused([*compiled.problems, *problems])
    if governor and not wish.persist:
        raise HostError("a governor needs its unit: use persist: true, or leave out governor")
    return Judged(compiled, governor)


def pinned(compiled: Compiled, options: Options) -> Compiled:
    """Rules by index become rules by UUID, at the price of one look at the GPUs."""
    if not any(rule["select"].startswith("index:") for rule in compiled.rules):
        return compiled
    outcome = run_bounded(lambda session, _request: read_all(session), {}, options)
    if outcome.state != "ok":
        raise HostError(f"the GPUs cannot be read ({outcome.state}): {outcome.reason}")
    rules, problems = pin_indices(compiled.rules, compiled.origins, outcome.data)
    if problems:
        raise Refused(problems)
    return compiled._replace(rules=rules)


def present(wish: Wish, sources: t.Mapping[str, bytes], paths: Paths, options: Options, check: bool) -> Result:
    """Bring the host to the wish; `sources` is the host core as files."""
    judged = judge(wish)
    if wish.persist and not systemd.running():
        raise HostError("this host does not run systemd, so nothing can apply the settings at boot; use persist: false")
    compiled = pinned(judged.compiled, options)
    before = read_config(paths)
    governed = bool(judged.governor and before and before.governor == judged.governor and governor_runs(paths))
    config, units = wanted_files(compiled.rules, judged.governor, wish.unit)
    gone = _gone(paths)
    request = Request(compiled.rules, compiled.origins, governed, governor=judged.governor, governor_name=wish.governor_name, check=check)
    with Staged(check) as staged:
        if wish.persist:
            staged.runtime(paths.runtime, sources)
            for name, text in units.items():
                staged.text(f"{paths.units}/{name}", text)
            staged.text(paths.config, config)
        outcome = settle(request, paths, options, "module gpu_settings", not check, gone if wish.forget_missing else ())
        gpus, warnings = _judged_outcome(outcome, check)
        _commit(staged, gpus, options)
    lost = lost_gpus(gpus, {} if wish.forget_missing else gone)
    actions = _units(wish, units, sources, paths, staged, check, bool(lost)) if wish.persist else []
    return summed_up(gpus, staged, actions, warnings, lost, wish.missing_gpus == "warn")


def _gone(paths: Paths) -> dict[str, str]:
    """GPUs of the record that are not on the bus."""
    bus = [gpu["address"] for gpu in read_pci(Reader(sysfs=paths.sysfs))["gpus"]]
    return missing(read_state(paths.recorded, "gpu_settings_recorded"), [], bus)


def _judged_outcome(outcome: Outcome, check: bool) -> tuple[list[dict[str, t.Any]], list[str]]:
    """Reports of the GPUs, or an error that says why there are none."""
    if check and outcome.state in NOT_YET:
        return [], [f"the GPUs cannot be read yet ({outcome.state}: {outcome.reason}); their values are not checked"]
    if outcome.state != "ok":
        raise HostError(f"the GPUs cannot be set ({outcome.state}): {outcome.reason}; nothing was changed")
    problems = [Problem(*fields) for fields in outcome.data["problems"]]
    if any(problem.severity == "block" for problem in problems):
        raise Refused(problems)
    if outcome.data["failure"]:
        raise HostError(outcome.data["failure"] + "; nothing was changed on any GPU")
    if not outcome.data["gpus"]:
        raise HostError("NVML sees no GPU on this host; nothing was changed")
    return outcome.data["gpus"], [problem.text for problem in problems if problem.severity == "warn"]


def _commit(staged: Staged, gpus: list[dict[str, t.Any]], options: Options) -> None:
    """Files in place (none are staged in check mode); if that fails the GPUs get their old values back."""
    try:
        staged.commit()
    except HostError as exc:
        values = {
            gpu["uuid"]: {key: s["before"] for key, s in gpu["settings"].items() if s["status"] == "set" and s["before"] is not None}
            for gpu in gpus
        }
        outcome = run_bounded(lambda session, _request: put_back(session, values), {}, options)
        failed = outcome.data if outcome.state == "ok" else [outcome.reason]
        raise HostError(f"{exc}; settings of the GPUs were put back" + (f", except: {'; '.join(failed)}" if failed else "")) from exc


def _units(
    wish: Wish, units: dict[str, str], sources: t.Mapping[str, bytes], paths: Paths, staged: Staged, check: bool, lost: bool
) -> list[str]:
    """Enabled and active, by evidence; a governor that is not wanted any more goes. With a GPU lost the boot unit can only fail."""
    timeout = wish.unit.boot_wait + 3 * wish.unit.nvml_timeout + 90
    expected = state_text(digest(sources))
    unit_file = f"{paths.units}/{GOVERNOR_UNIT}"

    def stale(name: str) -> bool:
        return name == GOVERNOR_UNIT and (unit_file in staged.changed or read_text(paths.governor_state) != expected)

    if check:
        shows = systemd.ask([SETTINGS_UNIT, GOVERNOR_UNIT])
        steps = [step for name in units for step in steps_up(name, shows.get(name), stale(name), lost and name == SETTINGS_UNIT)]
        steps += steps_down(GOVERNOR_UNIT, shows.get(GOVERNOR_UNIT)) if GOVERNOR_UNIT not in units else []
        return [f"{verb} {unit}" for verb, unit in steps]
    done = [] if GOVERNOR_UNIT in units else drop_units([GOVERNOR_UNIT], paths, timeout)
    return done + systemd.bring_up(list(units), stale, timeout, {SETTINGS_UNIT} if lost else set())


def drop_units(names: t.Sequence[str], paths: Paths, timeout: float) -> list[str]:
    """Stop, disable and remove units."""
    there = [name for name in names if read_text(f"{paths.units}/{name}") is not None]
    done = systemd.take_down(there, timeout) if there else []
    for name in there:
        remove(f"{paths.units}/{name}")
        done.append(f"remove {paths.units}/{name}")
    return done + (systemd.reload_if_needed(there) if there else [])
