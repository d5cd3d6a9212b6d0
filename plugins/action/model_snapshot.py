# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts the work of model_snapshot on a host and shows how far it is."""

from __future__ import annotations

import time
import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

display = Display()
_MODULE = "gpufleet.inference.model_snapshot"
_FIRST, _LONGEST = 0.5, 15.0
"""Seconds between looks at the work: short for a small model, bounded for a large one."""


class ActionModule(ActionBase):
    """plan → start (or attach) → poll until it ends or `timeout` is over."""

    _supports_check_mode = True
    _supports_diff = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        args = {key: value for key, value in self._task.args.items() if key != "step"}
        plan = self._step(args, "plan", task_vars)
        result.update(plan)
        if not plan.get("changed") or plan.get("failed") or args.get("state") == "absent" or self._task.check_mode:
            return self._described(result)
        begun = self._step(args, "start", task_vars)
        if begun.get("failed"):
            return begun
        if begun["attached"]:
            display.display(f"{args['name']}: attached to {begun['unit']}, which an earlier run began", color="cyan")
        end = self._wait(args, plan, task_vars)
        result.update({key: end[key] for key in ("failed", "msg", "reason", "path", "previous", "identity") if key in end})
        return self._described(result)

    def _wait(self, args: dict[str, t.Any], plan: dict[str, t.Any], task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        deadline, pause, shown = time.monotonic() + float(args.get("timeout", 7200)), _FIRST, time.monotonic()
        while True:
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST)
            status = self._step(args, "poll", task_vars)
            if status.get("failed") or status.get("unreachable"):
                return {"failed": True, "reason": "failed", **status}
            if status["state"] == "done":
                return dict(status["result"])
            if status["state"] == "failed":
                return {"failed": True, "reason": status["reason"], "msg": f"model {args['name']}: {status['text']}"}
            if time.monotonic() - shown > 5:
                shown = time.monotonic()
                display.display(_progress(args["name"], status.get("progress") or {}), color="cyan")
            if time.monotonic() > deadline:
                text = (
                    f"model {args['name']}: not there after {args.get('timeout', 7200)} s; {plan['unit']} goes on, a re-run attaches to it"
                )
                return {"failed": True, "reason": "timeout", "msg": text}

    def _step(self, args: dict[str, t.Any], step: str, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        answer = self._execute_module(module_name=_MODULE, module_args={**args, "step": step}, task_vars=task_vars)
        answer.pop("invocation", None)
        return t.cast("dict[str, t.Any]", answer)

    def _described(self, result: dict[str, t.Any]) -> dict[str, t.Any]:
        words, fetch = result.pop("plan", None), result.get("to_fetch")
        if self._task.diff and words:
            size = f" ({fetch['files']} files, {fetch['bytes'] / 2**30:.2f} GiB)" if fetch else ""
            lines = [word + (size if word == "fetch" else "") for word in words]
            result["diff"] = {"before": "", "after": "\n".join(lines) + "\n", "after_header": str(self._task.args.get("name"))}
        return result


def _progress(name: str, counts: dict[str, t.Any]) -> str:
    if not counts.get("bytes_total"):
        return f"{name}: asking what there is"
    done, total = counts["bytes_done"], counts["bytes_total"]
    rate = done / max(0.1, time.time() - counts["started"])
    left = f", {(total - done) / rate:.0f} s left" if rate > 1 and done < total else ""
    files = f"{counts['files_done']}/{counts['files_total']} files"
    return f"{name}: {100 * done / total:.0f} % of {total / 2**30:.2f} GiB, {rate / 2**20:.0f} MiB/s{left}, {files}"
