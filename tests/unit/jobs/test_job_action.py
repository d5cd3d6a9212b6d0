"""The controller's half: what it asks, when it stops asking, what it hands back."""

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils import _job_action
from ansible_collections.gpufleet.inference.plugins.plugin_utils._job_action import JobAction

RUNNING = {"state": "running", "progress": {"text": "half"}}
FAILED = {"state": "failed", "reason": "full", "text": "no room", "details": {"stage": "copy"}}


class Action(JobAction):
    module, subject, timeout = "x", "thing", 100


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[str] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def display(self, text: str, color: str = "") -> None:
        self.lines.append(text)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(_job_action, "time", clock)
    monkeypatch.setattr(_job_action, "display", clock)
    return clock


def ran(answers: dict[str, t.Any], check: bool = False, **args: t.Any) -> tuple[dict[str, t.Any], list[str]]:
    """`answers`: step → its answer, or a list of one after the other, of which the last stays."""
    task = types.SimpleNamespace(args={"name": "one", **args}, check_mode=check, diff=False, async_val=0, delegate_to=None)
    action = Action.__new__(Action)
    action._task = task
    steps: list[str] = []

    def execute(module_args: dict[str, t.Any], **_more: t.Any) -> dict[str, t.Any]:
        steps.append(module_args["step"])
        answer = answers[module_args["step"]]
        return dict((answer.pop(0) if len(answer) > 1 else answer[0]) if isinstance(answer, list) else answer)

    action._execute_module = execute
    action._connection = types.SimpleNamespace(has_pipelining=False)
    return action.run(None, {}), steps


@pytest.fixture(autouse=True)
def _base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_job_action.ActionBase, "run", lambda *_args: {})


PLAN = {"changed": True, "unit": "u"}
START = {"changed": True, "unit": "u", "attached": False}


def test_nothing_to_do_is_one_step(clock: Clock) -> None:
    assert ran({"plan": {"changed": False}}) == ({"changed": False}, ["plan"])
    assert ran({"plan": PLAN}, check=True)[1] == ["plan"]


def test_the_result_of_the_work_is_the_answer(clock: Clock) -> None:
    answer, steps = ran({"plan": PLAN, "start": START, "poll": [*[RUNNING] * 9, {"state": "done", "result": {"path": "/x"}}]})
    assert answer == {"changed": True, "unit": "u", "path": "/x"}
    assert steps.count("poll") == 10
    assert "one: half" in clock.lines


def test_a_failure_says_what_whose_and_why(clock: Clock) -> None:
    answer, _steps = ran({"plan": PLAN, "start": START, "poll": FAILED})
    assert (answer["failed"], answer["reason"], answer["msg"], answer["stage"]) == (True, "full", "thing one: no room", "copy")


def test_what_cannot_start_is_not_waited_for(clock: Clock) -> None:
    answer, steps = ran({"plan": PLAN, "start": {"failed": True, "msg": "busy"}})
    assert answer["failed"]
    assert "poll" not in steps


def test_the_time_is_bounded_and_the_work_goes_on(clock: Clock) -> None:
    answer, _steps = ran({"plan": PLAN, "start": {**START, "attached": True}, "poll": RUNNING}, timeout=30)
    assert answer["reason"] == "timeout"
    assert "a re-run attaches" in answer["msg"]
    assert 30 < clock.now < 60
    assert "attached to u" in clock.lines[0]
