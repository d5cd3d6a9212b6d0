# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gates a TensorRT engine's release and arguments by the matrix, then starts its build on the host and shows how far it is."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ..plugin_utils import _matrix_engines as engines
from ..plugin_utils._contracts import Finding
from ..plugin_utils._engine_build import ENGINE, check_build, check_gpu, words
from ..plugin_utils._job_action import JobAction
from ..plugin_utils._matrix_load import MatrixError, load_matrix
from ..plugin_utils._render import finding_text

_GATED: dict[str, dict[str, t.Any]] = {
    "state": {"type": "str", "default": "present"},
    "name": {"type": "str", "required": True},
    "version": {"type": "str"},
    "runtime": {"type": "str", "default": "venv"},
    "args": {"type": "raw", "default": {}},
    "unknown": {"type": "str", "choices": ["warn", "block"], "default": "block"},
    "matrix_overlay": {"type": "list", "elements": "path", "default": []},
}
"""What is needed before the module runs; all else it checks itself."""


class ActionModule(JobAction):
    """gate → plan → start (or attach) → poll."""

    module, subject, timeout = "gpufleet.inference.trtllm_engine", "TensorRT engine", 14400

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        checked = ArgumentSpecValidator(_GATED).validate({key: value for key, value in self._task.args.items() if key in _GATED})
        if checked.error_messages:
            raise AnsibleActionFail("; ".join(checked.error_messages))
        self._given = checked.validated_parameters
        if self._given["state"] != "present" or not self._given["version"]:
            return super().run(tmp, task_vars)
        findings = self._gate()
        answer = _judged(findings)
        if not answer.get("failed"):
            answer.update(super().run(tmp, task_vars))
        return {**answer, "findings": [finding.to_dict() for finding in findings]}

    def _gate(self) -> list[Finding]:
        given, version = self._given, self._given["version"]
        if not isinstance(given["args"], (dict, list, str)):
            raise AnsibleActionFail(f"args is {given['args']!r}; expected a mapping such as {{max_batch_size: 64}}, or words")
        try:
            self._matrix = load_matrix(overlays=given["matrix_overlay"])
        except MatrixError as error:
            raise AnsibleActionFail(str(error)) from error
        findings = check_build(self._matrix, version, given["args"], given["name"], given["unknown"])
        for finding in findings:
            if finding.severity == "warn":
                self._display.warning(finding.message)
        self._task.args["words"] = words(self._matrix, version, given["args"])
        release = engines.release(self._matrix, ENGINE, version)
        if given["runtime"] != "venv" and release and release.exact and release.row.get("image"):
            self._task.args.setdefault("image", release.row["image"])
        return findings

    def _step(self, args: dict[str, t.Any], step: str, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        answer = super()._step(args, step, task_vars)
        if step == "plan" and answer.get("stamp") and not answer.get("failed"):
            stamp = answer["stamp"]
            answer.update(_judged(check_gpu(self._matrix, stamp["tensorrt_llm"], stamp["compute_capability"], self._given["name"])))
        return answer

    def waits(self, args: dict[str, t.Any], plan: dict[str, t.Any]) -> bool:
        return bool(plan.get("changed")) and self._given["state"] == "present"

    def progress(self, counts: dict[str, t.Any]) -> str:
        minutes, seconds = divmod(int(counts.get("seconds") or 0), 60)
        return f"{minutes} min {seconds:02d} s, {counts.get('text') or 'nothing said yet'}"

    def described(self, result: dict[str, t.Any]) -> dict[str, t.Any]:
        before, build = result.pop("before", {}), result.pop("build", None)
        if self._task.diff and result.get("stamp") and result.get("changed"):
            name = str(self._task.args.get("name"))
            after = "" if build else "an earlier engine is switched back to\n"
            stamp = result["stamp"]
            result["diff"] = {
                "before": "".join(f"{key}: {before[key]}\n" for key in sorted(stamp) if key in before),
                "after": after + "".join(f"{key}: {stamp[key]}\n" for key in sorted(stamp)),
                "before_header": name,
                "after_header": name,
            }
        return result


def _judged(findings: list[Finding]) -> dict[str, t.Any]:
    """A failure that holds all blocking findings, or nothing."""
    blocking = [finding for finding in findings if finding.severity == "block"]
    return {"failed": True, "changed": False, "msg": "\n".join(map(finding_text, blocking))} if blocking else {}
