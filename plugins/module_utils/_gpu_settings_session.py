# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One application of rules on this host: locks, records and the bounded NVML session around `apply`.

Private to the collection. Module, boot unit and governor all go through `settle`.
"""

from __future__ import annotations

import contextlib
import datetime
import typing as t

from . import _paths
from ._files import read_text, remove, write_text
from ._gpu_settings_apply import Request, apply
from ._gpu_settings_device import Session
from ._gpu_settings_lock import APPLY_LOCK, held, hold
from ._gpu_settings_records import clocks_done, clocks_handled, clocks_text, refused, remember, remember_refused
from ._gpu_settings_targets import Target
from ._gpu_settings_words import Device
from ._nvml import Options, Outcome, run_bounded
from ._state import read_state, write_state

GOVERNOR_LOCK = "power_governor.lock"
APPLY_WAIT = 30.0


class Paths(t.NamedTuple):
    """Where things are; `below` moves all of them for tests."""

    config: str = _paths.GPU_SETTINGS
    recorded: str = _paths.GPU_SETTINGS_RECORDED
    clocks: str = _paths.GPU_CLOCKS
    governor_state: str = _paths.GOVERNOR_STATE
    run_dir: str = _paths.RUN_DIR
    runtime: str = _paths.RUNTIME_DIR
    units: str = "/etc/systemd/system"
    sysfs: str = "/sys"

    @classmethod
    def below(cls, root: str) -> Paths:
        return cls(*(root.rstrip("/") + path for path in cls()))


class Config(t.NamedTuple):
    """Content of gpu_settings.json."""

    rules: list[dict[str, t.Any]]
    governor: t.Optional[dict[str, t.Any]]


def read_config(paths: Paths) -> t.Optional[Config]:
    """The desired state on this host, None when there is none."""
    state = read_state(paths.config, "gpu_settings_desired")
    return None if state is None else Config(list(state.get("rules") or []), state.get("governor") or None)


def settle(request: Request, paths: Paths, options: Options, what: str, record: bool = False, forget: t.Collection[str] = ()) -> Outcome:
    """Apply `request`; outcome.data is the result of `apply`. With `record` GPUs and persistent settings are noted first."""
    state = read_state(paths.recorded, "gpu_settings_recorded")
    handled = clocks_handled(read_text(paths.clocks))
    request = request._replace(handled=handled, refused=refused(state))

    def note(devices: list[Device], targets: list[Target]) -> None:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        write_state(paths.recorded, "gpu_settings_recorded", remember(state, devices, targets, now, forget))

    def work(session: Session, _request: dict[str, t.Any]) -> dict[str, t.Any]:
        return apply(session, request, note if record else None)

    lock: t.ContextManager[None] = contextlib.nullcontext()
    if not request.check:
        lock = hold(paths.run_dir, APPLY_LOCK, what, APPLY_WAIT)
    with lock:
        outcome = run_bounded(work, {}, options)
        if outcome.state == "ok" and outcome.data["gpus"] and not request.check and request.only is None:
            _after(outcome.data["gpus"], paths, record)
    return outcome


def _after(gpus: list[dict[str, t.Any]], paths: Paths, record: bool) -> None:
    text = clocks_text(clocks_done(gpus))
    if text is not None:
        write_text(paths.clocks, text)
    else:
        remove(paths.clocks)
    state = read_state(paths.recorded, "gpu_settings_recorded") if record else None
    if state is not None:
        write_state(paths.recorded, "gpu_settings_recorded", remember_refused(state, gpus))


def governor_runs(paths: Paths) -> bool:
    """Whether a governor moves the limits of this host right now."""
    return held(paths.run_dir, GOVERNOR_LOCK)
