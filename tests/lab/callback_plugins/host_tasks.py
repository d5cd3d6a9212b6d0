"""Counts host-tasks: every result that a host delivers, skipped ones and includes too, as the controller pays for each.

Enabled by the tests with ANSIBLE_CALLBACK_PLUGINS and ANSIBLE_CALLBACKS_ENABLED=host_tasks; writes JSON to $HOST_TASKS_FILE.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
    name: host_tasks
    type: aggregate
    short_description: Count of host-tasks as JSON
    description: Counts task results per host and writes them to the file that HOST_TASKS_FILE names.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "host_tasks"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.hosts: dict[str, Counter[str]] = defaultdict(Counter)
        self.tasks: dict[str, list[str]] = defaultdict(list)

    def _count(self, result: Any, outcome: str) -> None:
        host = result.host.get_name()
        if outcome == "ok" and result.result.get("changed"):
            outcome = "changed"
        self.hosts[host][outcome] += 1
        self.hosts[host]["total"] += 1
        self.tasks[host].append(f"{outcome}: {result.task.get_name()}")

    def v2_runner_on_ok(self, result: Any) -> None:
        self._count(result, "ok")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._count(result, "failed")

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._count(result, "skipped")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._count(result, "unreachable")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        path = os.environ.get("HOST_TASKS_FILE")
        if path:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            with open(path, "w", encoding="utf-8") as handle:
                json.dump({"hosts": self.hosts, "tasks": self.tasks}, handle, indent=1)
