# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for an endpoint: until every check passed, the time is over, or its unit is gone. Private to the collection."""

from __future__ import annotations

import re
import time
import typing as t

from ._endpoint import Answer, Endpoint, NotReady
from ._errors import HostError
from ._subprocess import run

_UNIT = "ActiveState,SubState,Result,ExecMainStatus,ExecMainCode,NRestarts"
_INTERVAL = 1.0
_FAR, _CAUSES = 600, 4
_ERROR = re.compile(r"(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt): .+")


class Wish(t.NamedTuple):
    """What must be so."""

    health: str
    """Path that must answer 200; empty asks none."""
    model: str
    """Name that must be served; empty takes the first that is."""
    checks: t.Sequence[str]
    """completion, chat, image, stream, embedding"""
    prompt: str
    tokens: int
    expect: str
    """Regular expression that generated text must match; empty takes any text."""


class Gone(HostError):
    """The unit ended for good: waiting would be for nothing."""


def check(endpoint: Endpoint, wish: Wish) -> dict[str, t.Any]:
    """One look at everything; NotReady says what is missing."""
    if wish.health:
        endpoint.health(wish.health)
    served = endpoint.models()
    if wish.model and wish.model not in served:
        raise NotReady("wrong", f"model {wish.model!r} is not served here; served: {', '.join(served) or 'none'}")
    if not served:
        raise NotReady("starting", "no model is served yet")
    model = wish.model or served[0]
    result: dict[str, t.Any] = {"models": served, "checks": {}}
    for name in wish.checks:
        result["checks"][name] = _one(endpoint, name, model, wish)
    return result


def _one(endpoint: Endpoint, name: str, model: str, wish: Wish) -> dict[str, t.Any]:
    if name == "embedding":
        return {"length": endpoint.embed(model, wish.prompt)}
    answer: Answer
    if name == "completion":
        answer = endpoint.complete(model, wish.prompt, wish.tokens)
    elif name in ("chat", "image"):
        answer = endpoint.chat(model, wish.prompt, wish.tokens, image=name == "image")
    else:
        answer = endpoint.stream(model, wish.prompt, wish.tokens, chat="chat" in wish.checks)
    if wish.expect and not re.search(wish.expect, answer.text):
        raise NotReady("wrong", f"{name} gave {answer.text[:200]!r}, which does not match {wish.expect!r}")
    measured = {"text": answer.text[:2000], "tokens": answer.tokens, "seconds": round(answer.total, 3)}
    if name == "stream":
        measured["ttft_ms"] = round(answer.first * 1000, 1)
        if answer.tokens > 1:
            measured["tpot_ms"] = round((answer.total - answer.first) * 1000 / (answer.tokens - 1), 2)
    return measured


def wait(
    endpoint: Endpoint,
    wish: Wish,
    timeout: float,
    unit: str = "",
    unit_state: t.Optional[t.Callable[[str], t.Mapping[str, str]]] = None,
    sleep: t.Callable[[float], None] = time.sleep,
) -> dict[str, t.Any]:
    """`check` until it passes. A wrong answer is given one more chance: an engine may answer before it is whole."""
    look, begun, wrong, restarts = unit_state or read_unit, time.monotonic(), 0, ""
    while True:
        try:
            return {**check(endpoint, wish), "waited": round(time.monotonic() - begun, 1)}
        except NotReady as exc:
            missing = exc
        if unit:
            state = look(unit)
            restarts = restarts or state.get("NRestarts", "0")
            _refuse_gone(unit, state, restarts)
        wrong = wrong + 1 if missing.state == "wrong" else 0
        if wrong > 1 or time.monotonic() - begun + _INTERVAL > timeout:
            break
        sleep(_INTERVAL)
    text = f"{missing} (waited {time.monotonic() - begun:.0f} s of {timeout:g})"
    raise NotReady(missing.state, text)


def _refuse_gone(unit: str, state: t.Mapping[str, str], restarts: str) -> None:
    """Ended, or on its way round: an engine that was restarted while we wait did not come up the first time either."""
    active, now = state.get("ActiveState", ""), state.get("NRestarts", "0")
    how = f"{state.get('Result') or 'unknown'}, status {state.get('ExecMainStatus') or '?'}"
    if active in ("failed", "inactive"):
        raise Gone(f"{unit} is {active} ({how}); see journalctl -u {unit}")
    if now.isdigit() and restarts.isdigit() and int(now) > int(restarts):
        raise Gone(f"{unit} ended and was restarted while it was waited for ({how}); see journalctl -u {unit}")


def read_unit(unit: str) -> dict[str, str]:
    result = run(["systemctl", "show", f"--property={_UNIT}", unit], timeout=10)
    return dict(line.split("=", 1) for line in result.out.splitlines() if "=" in line)


def last_lines(unit: str, count: int = 15) -> list[str]:
    """What the unit said last, for people, after the errors that it named before: an engine's root cause stands far above its end."""
    result = run(["journalctl", "--no-pager", "-o", "cat", "-n", str(_FAR), "-u", unit], timeout=10)
    lines = [line[:500] for line in result.out.splitlines() if line.strip()]
    return [*errors(lines[:-count])[:_CAUSES], *lines[-count:]]


def errors(lines: t.Iterable[str]) -> list[str]:
    """Ends of Python's tracebacks in these lines, each once, without what a logger put before them; the first is nearest to the cause."""
    found = (match.group(0) for match in map(_ERROR.search, lines) if match)
    return list(dict.fromkeys(found))
