# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of long work on a host: plan → start (or attach) → poll until it ends or `timeout` is over.

Private to the collection. An action plugin of a module with the steps of module_utils/_job is

    class ActionModule(JobAction):
        module, subject, timeout = "gpufleet.inference.NAME", "model", 7200

and may say more by `progress`, `described` and `waits`.
"""

from __future__ import annotations

import time
import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

display = Display()
_FIRST, _LONGEST = 0.5, 15.0
"""Seconds between looks at the work: short for little work, bounded for much."""
_SHOWN = 5.0


class JobAction(ActionBase):
    """Base of the actions of long work."""

    module: t.ClassVar[str]
    subject: t.ClassVar[str]
    """What `name` is the name of, for people."""
    timeout: t.ClassVar[int]
    """Default of the module's option of this name."""

    _supports_check_mode = True
    _supports_diff = True
    _supports_async = False

    def progress(self, counts: dict[str, t.Any]) -> str:
        """A line for people; `counts` is what the work said last."""
        return str(counts.get("text") or "at work")

    def described(self, result: dict[str, t.Any]) -> dict[str, t.Any]:
        """The answer, with a diff if one is asked for."""
        return result

    def waits(self, args: dict[str, t.Any], plan: dict[str, t.Any]) -> bool:
        """Whether the plan is one that the work must carry out."""
        return bool(plan.get("changed"))

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        args = {key: value for key, value in self._task.args.items() if key != "step"}
        plan = self._step(args, "plan", task_vars)
        result.update(plan)
        if plan.get("failed") or plan.get("unreachable") or self._task.check_mode or not self.waits(args, plan):
            return self.described(result)
        begun = self._step(args, "start", task_vars)
        if begun.get("failed") or begun.get("unreachable"):
            return begun
        if begun["attached"]:
            display.display(f"{args['name']}: attached to {begun['unit']}, which an earlier run began", color="cyan")
        result.update(self._wait(args, begun["unit"], task_vars))
        return self.described(result)

    def _wait(self, args: dict[str, t.Any], unit: str, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """What the work answers, or why there is no answer."""
        title, limit = f"{self.subject} {args['name']}", float(args.get("timeout") or self.timeout)
        deadline, pause, shown = time.monotonic() + limit, _FIRST, time.monotonic()
        while True:
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST)
            status = self._step(args, "poll", task_vars)
            if status.get("failed") or status.get("unreachable"):
                return {"failed": True, "reason": "failed", **status}
            if status["state"] == "done":
                return dict(status["result"])
            if status["state"] == "failed":
                msg = f"{title}: {status['text']}"
                return {**(status.get("details") or {}), "failed": True, "reason": status["reason"], "msg": msg}
            if time.monotonic() - shown > _SHOWN:
                shown = time.monotonic()
                display.display(f"{args['name']}: {self.progress(status.get('progress') or {})}", color="cyan")
            if time.monotonic() > deadline:
                msg = f"{title}: not done after {limit:g} s; {unit} goes on, a re-run attaches to it"
                return {"failed": True, "reason": "timeout", "msg": msg}

    def _step(self, args: dict[str, t.Any], step: str, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        answer = self._execute_module(module_name=self.module, module_args={**args, "step": step}, task_vars=task_vars)
        answer.pop("invocation", None)
        return t.cast("dict[str, t.Any]", answer)
