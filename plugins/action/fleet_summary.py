# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run found, over all hosts, from their registered checks."""

from __future__ import annotations

import datetime
import typing as t

from ansible.plugins.action import ActionBase

from ..plugin_utils._summary import host_row, summary, table

ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "hosts": {"type": "list", "elements": "str", "required": True},
    "plans": {"type": "dict", "required": True},
    "end_marker": {"type": "str", "required": True},
    "show": {"type": "bool", "default": True},
}


class ActionModule(ActionBase):
    """Reads hostvars only; see the module documentation of fleet_summary."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        hostvars = (task_vars or {})["hostvars"]
        args = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)[1]
        rows = [_row(name, hostvars[name], args["plans"], args["end_marker"]) for name in args["hosts"]]
        text = table(rows)
        if args["show"]:
            self._display.display("\n" + text + "\n")
        now = datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds")
        return {**result, "changed": False, "rows": rows, "summary": summary(rows), "table": text, "time": now}


def _row(name: str, host: t.Mapping[str, t.Any], names: t.Mapping[str, str], end_marker: str) -> dict[str, t.Any]:
    plans = {component: host[variable] for component, variable in names.items() if variable in host}
    # Registered results are there for hosts that failed too; facts set by a failed task are not.
    end = host.get(end_marker) or {}
    if end.get("host"):
        plans["end"] = end
    return host_row(name, plans, finished=bool(end) and not end.get("failed") and not end.get("unreachable"))
