# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Long work in a named transient systemd unit: it outlives the run that started it, and the next run waits for it.

Private to the collection.
"""

from __future__ import annotations

import os
import time
import typing as t

from ._errors import HostError
from ._files import read_text
from ._paths import RUN_DIR
from ._subprocess import run

_SHOW = "ActiveState,Result,ExecMainStatus"
_GRACE = 60.0
"""Seconds beyond the unit's own limit until systemd itself is taken to hang."""
_PAUSE = 0.5


class Outcome(t.NamedTuple):
    """`result` is systemd's word: success | exit-code | timeout | signal | …"""

    result: str
    status: int
    output: str

    @property
    def success(self) -> bool:
        return self.result == "success" and self.status == 0

    def __str__(self) -> str:
        return f"rc {self.status}" if self.result in ("success", "exit-code") else self.result


def has_result(unit: str) -> bool:
    """Whether an earlier run's work still goes on, or has ended well and nobody has taken note: `wait` then answers."""
    return _managed() and _show(unit).get("ActiveState") in ("activating", "active")


def run_unit(unit: str, argv: t.Sequence[str], timeout: int, title: str, env: t.Optional[t.Mapping[str, str]] = None) -> Outcome:
    """Run `argv` as `unit`, wait for its end, and leave no unit behind. Without systemd (an image build): as a child."""
    if not _managed():
        result = run(argv, timeout=timeout, env=env)
        word = "success" if result.success else "exit-code" if result.state == "ok" else result.state
        return Outcome(word, result.rc, result.out + result.err)
    forget(unit)
    os.makedirs(RUN_DIR, mode=0o755, exist_ok=True)
    properties = {
        "Type": "oneshot",
        # Its result stays readable, also for a later run.
        "RemainAfterExit": "yes",
        "TimeoutStartSec": str(timeout),
        "StandardOutput": f"truncate:{_output(unit)}",
        "StandardError": "inherit",
    }
    launch(unit, argv, title, properties, {"LC_ALL": "C", **(env or {})}, "--no-block")
    return wait(unit, timeout)


def launch(
    unit: str,
    argv: t.Sequence[str],
    title: str,
    properties: t.Mapping[str, str],
    env: t.Optional[t.Mapping[str, str]] = None,
    option: str = "--collect",
) -> None:
    """Start `argv` as `unit`; `option`: --collect leaves no unit behind, --no-block does not wait until it runs."""
    command = ["systemd-run", f"--unit={unit}", f"--description={title}", "--quiet", option]
    command += [f"--property={name}={value}" for name, value in properties.items()]
    command += [f"--setenv={name}={value}" for name, value in (env or {}).items()]
    started = run([*command, *argv], timeout=30)
    if not started.success:
        raise HostError(f"systemd-run cannot start {unit}: {started.err.strip() or started.state}")


def alive(unit: str) -> bool:
    """Whether it runs, or is on its way up or down. Without systemd nothing does."""
    return _managed() and _show(unit).get("ActiveState") in ("activating", "active", "deactivating", "reloading")


def wait(unit: str, timeout: float) -> Outcome:
    """Wait for the unit's end, take its result and forget it."""
    deadline = time.monotonic() + timeout + _GRACE
    while True:
        shown = _show(unit)
        if shown.get("ActiveState") not in ("activating", "deactivating", "reloading"):
            break
        if time.monotonic() > deadline:
            state = shown.get("ActiveState")
            raise HostError(f"{unit} is still {state} {_GRACE:g} s after its limit of {timeout:g} s; see systemctl status {unit}")
        time.sleep(_PAUSE)
    output = read_text(_output(unit)) or ""
    forget(unit)
    return Outcome(shown.get("Result") or "unknown", int(shown.get("ExecMainStatus") or 0), output)


def forget(unit: str) -> None:
    """The result of an earlier run, which would be in the way of the name."""
    if _show(unit).get("ActiveState") in ("active", "failed"):
        run(["systemctl", "stop", unit], timeout=30)
        run(["systemctl", "reset-failed", unit], timeout=30)


def _show(unit: str) -> dict[str, str]:
    result = run(["systemctl", "show", f"--property={_SHOW}", unit], timeout=30)
    if not result.success:
        raise HostError(f"systemctl show {unit}: {result.err.strip() or result.state}")
    return dict(line.split("=", 1) for line in result.out.splitlines() if "=" in line)


def _output(unit: str) -> str:
    return f"{RUN_DIR}/{unit.partition('.')[0]}.out"


def _managed() -> bool:
    return os.path.isdir("/run/systemd/system")
