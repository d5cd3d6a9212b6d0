# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at an engine that can stay up answering errors, by a timer; so many failures in a row restart it. Private to the collection."""

from __future__ import annotations

import json
import time
import typing as t

from ._endpoint import Endpoint, NotReady
from ._errors import HostError
from ._files import read_text, write_text
from ._paths import RUN_DIR
from ._subprocess import run

FOLDER = RUN_DIR + "/watch"
_SHOW = "ActiveState,InvocationID,ExecMainStartTimestampMonotonic"
_TIMEOUT = 15.0
"""Seconds that the engine may take to answer: health of SGLang is a generation."""


def watch(url: str, unit: str, failures: int, grace: float, say: t.Callable[[int, str], None], folder: str = FOLDER) -> int:
    """The exit status: 0 unless the host itself does not answer. `url` is the whole address, path and all."""
    shown = _show(unit)
    if shown.get("ActiveState") != "active":
        return 0  # systemd is at work on it, or a person
    path = f"{folder}/{unit}.json"
    state = _read(path, shown.get("InvocationID", ""))
    wrong = _ask(url)
    if not wrong:
        state.update(failures=0, answered=True)
    elif state["answered"] or _age(shown) > grace:
        state["failures"] += 1
        say(4, f"{unit}: {wrong} ({state['failures']} of {failures})")
    if state["failures"] >= failures:
        say(3, f"{unit} is restarted: {failures} failures in a row, the last: {wrong}")
        state["failures"] = 0
        # Not waited for: a stop may take as long as the drain.
        answer = run(["systemctl", "restart", "--no-block", unit], timeout=30)
        if not answer.success:
            raise HostError(f"systemctl restart {unit}: {answer.err.strip() or answer.state}")
    write_text(path, json.dumps(state) + "\n")
    return 0


def _ask(url: str) -> str:
    """Why it is not healthy; empty if it is."""
    scheme, colon, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    try:
        Endpoint(scheme + colon + host, timeout=_TIMEOUT).health(slash + path or "/")
    except NotReady as exc:
        return str(exc)
    return ""


def _show(unit: str) -> dict[str, str]:
    answer = run(["systemctl", "show", f"--property={_SHOW}", unit], timeout=20)
    if not answer.success:
        raise HostError(f"systemctl show {unit}: {answer.err.strip() or answer.state}")
    return dict(line.split("=", 1) for line in answer.out.splitlines() if "=" in line)


def _age(shown: t.Mapping[str, str]) -> float:
    """Seconds since the main process started."""
    return time.clock_gettime(time.CLOCK_MONOTONIC) - int(shown.get("ExecMainStartTimestampMonotonic") or 0) / 1e6


def _read(path: str, invocation: str) -> dict[str, t.Any]:
    """What is known of this start of the unit; another start begins anew."""
    try:
        state = json.loads(read_text(path) or "{}")
    except ValueError:
        state = {}
    if not isinstance(state, dict) or state.get("invocation") != invocation:
        return {"invocation": invocation, "failures": 0, "answered": False}
    return {"invocation": invocation, "failures": int(state.get("failures") or 0), "answered": bool(state.get("answered"))}
