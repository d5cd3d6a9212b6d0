# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd for the units of device settings: ask, decide by evidence, act with a bound. Private to the collection."""

from __future__ import annotations

import os
import typing as t

from ._errors import HostError
from ._gpu_settings_units import steps_down, steps_up
from ._subprocess import Result, run
from ._units import parse_show

_ASK = "Id,LoadState,ActiveState,SubState,UnitFileState,NeedDaemonReload"
ASK_TIMEOUT = 15.0


def running() -> bool:
    return os.path.isdir("/run/systemd/system")


def ask(names: t.Sequence[str]) -> dict[str, dict[str, t.Any]]:
    """State of the units that exist, as gpu_info's `units`."""
    return parse_show(_systemctl(["show", f"--property={_ASK}", "--", *names], ASK_TIMEOUT).out)


def bring_up(names: t.Sequence[str], stale: t.Callable[[str], bool], start_timeout: float, hopeless: t.Container[str] = ()) -> list[str]:
    """Make units enabled and active where they are not; what was done, as text. A hopeless one is not started."""
    done = reload_if_needed(names)
    shows = ask(names)
    for name in names:
        if shows.get(name, {}).get("enabled") in ("masked", "masked-runtime"):
            raise HostError(f"{name} is masked; unmask it (systemctl unmask {name}) or use persist: false")
        for verb, unit in steps_up(name, shows.get(name), stale(name), name in hopeless):
            done.append(do(verb, unit, start_timeout))
            if verb == "enable":
                done += reload_if_needed([unit], enabled=True)
    return done


def take_down(names: t.Sequence[str], timeout: float) -> list[str]:
    """Make units inactive and disabled; what was done, as text."""
    shows = ask(names)
    return [do(verb, unit, timeout) for name in names for verb, unit in steps_down(name, shows.get(name))]


def reload_if_needed(names: t.Sequence[str], enabled: bool = False) -> list[str]:
    """daemon-reload exactly when systemd holds an older view of one of these: of its file, or of whether it is `enabled`."""
    if not any(show["need_daemon_reload"] or (enabled and show["enabled"] != "enabled") for show in ask(names).values()):
        return []
    return reload()


def reload() -> list[str]:
    """Not asked whether it is needed: of a drop-in in a folder that is new, systemd 252 says no at first."""
    _systemctl(["daemon-reload"], 60.0)
    return ["daemon-reload"]


def do(verb: str, unit: str, timeout: float) -> str:
    # Enabling is a link in the file system, and systemd need not read everything again for it. Not by --no-reload:
    # newer ones (seen with 257) then say of every unit that it needs a reload.
    argv = [verb, "--root=/", unit] if verb in ("enable", "disable") else [verb, unit]
    _systemctl(argv, timeout)
    return f"{verb} {unit}"


def _systemctl(argv: list[str], timeout: float) -> Result:
    result = run(["systemctl", *argv], timeout=timeout)
    if not result.success:
        what = "systemctl " + " ".join(argv)
        why = result.err.strip() or result.out.strip() or {"ok": f"exit status {result.rc}"}.get(result.state, result.state)
        hint = f"; see journalctl -u {argv[-1]}" if argv[0] in ("start", "restart", "stop") else ""
        raise HostError(f"{what} failed: {why}{hint}")
    return result
