# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads an engine's configuration, merges on the controller, and has the host write what differs."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..plugin_utils._engine_common import Wanted
from ..plugin_utils._engines import DAEMONS, EnginePlan, plan_engine, plan_rootless, switched
from ..plugin_utils._render import finding_text

ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "engine": {"type": "str", "required": True, "choices": list(DAEMONS)},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "default_runtime": {"type": "str", "choices": ["keep", "nvidia", "engine"], "default": "keep"},
    "cdi": {"type": "bool", "default": True},
    "user": {"type": "str", "default": ""},
    "restart": {"type": "str", "choices": ["safe", "always", "never"], "default": "safe"},
    "start_timeout": {"type": "float", "default": 60},
}


class ActionModule(ActionBase):
    """container_info on the host → pure merge here → the module of the same name on the host, if something differs."""

    _supports_check_mode = True
    _supports_diff = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)[1]
        plan = self._read_and_plan(args, task_vars or {}, result)
        if plan is None:
            return result
        restart_needed = plan.need == "restart" and not _allowed(args["restart"], plan)
        if restart_needed:
            plan.need = "none"
        result.update(
            changed=plan.work,
            files={file.path: list(file.parts) for file in plan.answer.files},
            service_action=plan.need if plan.need in ("reload", "restart") else "none",
            restart_needed=restart_needed,
        )
        if self._task.diff and plan.work:
            result["diff"] = {
                "before_header": args["engine"],
                "after_header": args["engine"],
                "before": "",
                "after": "\n".join(plan.summary()) + "\n",
            }
        if plan.work and not self._task.check_mode:
            job = {**args, "job": plan.job()}
            answer = self._execute_module(module_name="gpufleet.inference.container_engine_config", module_args=job, task_vars=task_vars)
            answer.pop("invocation", None)
            result.update(answer)
        return result

    def _read_and_plan(self, args: dict[str, t.Any], task_vars: dict[str, t.Any], result: dict[str, t.Any]) -> EnginePlan | None:
        users = [args["user"]] if args["user"] else []
        answer = self._execute_module(
            module_name="gpufleet.inference.container_info", module_args={"rootless_users": users}, task_vars=task_vars
        )
        if answer.get("failed") or answer.get("unreachable"):
            result.update(answer)
            return None
        info = t.cast("dict[str, t.Any]", answer["container_info"])
        engine, facts = args["engine"], info["engines"].get(args["engine"])
        if facts is None:
            there = ", ".join(sorted(info["engines"])) or "none"
            raise AnsibleActionFail(f"engine is {engine!r}, which is not installed on this host; engines here: {there}")
        wanted = Wanted(
            present=args["state"] == "present",
            default_runtime=args["default_runtime"],
            cdi=args["cdi"],
            cdi_switched=switched(info),
        )
        if users and facts["rootless"][0]["uid"] is None:
            raise AnsibleActionFail(f"user is {args['user']!r}, and there is no such user on this host")
        plan = plan_rootless(facts["rootless"][0], facts, wanted) if users else plan_engine(engine, facts, wanted, info)
        blocking = [finding for finding in plan.answer.findings if finding.severity == "block"]
        if blocking:
            raise AnsibleActionFail("\n".join(finding_text(finding) for finding in blocking))
        return plan


def _allowed(restart: str, plan: EnginePlan) -> bool:
    return restart == "always" or (restart == "safe" and plan.disruption == "none")
