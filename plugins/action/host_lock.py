# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names the run that takes a host's lock, and knows whether an owner on this controller still lives."""

from __future__ import annotations

import getpass
import os
import typing as t

from ansible.plugins.action import ActionBase

from ..module_utils._wait import start_time
from ..plugin_utils import _facts


class ActionModule(ActionBase):
    """One module execution; a second one only to take over the lock of a dead run."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        if self._task.check_mode:
            return {**result, "changed": False}
        args = {**self._task.args, "run_id": _facts.run_id(), "owner": owner()}
        answer = self._execute(args, task_vars)
        locked_by = answer.get("locked_by")
        if locked_by and is_dead(locked_by["owner"]):
            answer = self._execute({**args, "dead_run_id": locked_by["run_id"]}, task_vars)
        fact = _facts.read(task_vars or {})
        if fact and args.get("state", "present") == "present" and not answer.get("failed"):
            answer["ansible_facts"] = {_facts.FACT: _facts.outdated(fact)}
        return {**result, **answer}

    def _execute(self, args: dict[str, t.Any], task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        return t.cast(
            "dict[str, t.Any]",
            self._execute_module(module_name="gpufleet.inference.host_lock", module_args=args, task_vars=task_vars),
        )


def owner() -> dict[str, t.Any]:
    """This ansible-playbook process: actions run in workers forked from it."""
    pid = os.getppid()
    return {"controller": os.uname().nodename, "pid": pid, "start_time": str(start_time(pid) or 0), "user": getpass.getuser()}


def is_dead(other: t.Mapping[str, t.Any]) -> bool:
    """Whether the owner ran here and runs no more; of owners on other controllers nothing is known."""
    return other["controller"] == os.uname().nodename and str(start_time(int(other["pid"])) or 0) != other["start_time"]
