# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate: facts from the host, everything else on the controller."""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import importlib
import os
import typing as t

import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..plugin_utils import _facts, _render
from ..plugin_utils._conduct import judge_conduct
from ..plugin_utils._contracts import DISRUPTIONS, Context, Finding, Plan
from ..plugin_utils._lock import group_of
from ..plugin_utils._lock_drift import drift
from ..plugin_utils._matrix import judge
from ..plugin_utils._matrix_load import MatrixError, load_matrix, warm
from ..plugin_utils._products import complete
from ..plugin_utils._runtime import host_core_sha256
from ..plugin_utils._summary import host_summary

# This import happens once, in the main process of ansible-playbook: its forked workers inherit the parsed rows.
warm()

# Which findings of the matrix stop which component. A role answers for its own ground only:
# an engine's advisory must not keep the power limit of a host from being set.
GATES: dict[str, frozenset[str] | None] = {
    "host": None,
    "driver": frozenset({"os", "gpu", "driver", "fabric", "matrix", "policy"}),
    "cuda": frozenset({"cuda", "cudnn", "nccl", "matrix", "policy"}),
    "power": frozenset({"power", "matrix", "policy"}),
    "container_toolkit": frozenset({"container_toolkit", "container_engine", "matrix", "policy"}),
    "engines": frozenset({"engine", "model", "matrix", "policy"}),
    "gateway": frozenset({"gateway", "matrix", "policy"}),
}

# Components whose planner needs more than the shared facts. The answer stays within the check: it may hold credentials.
DETAILS: dict[str, tuple[str, tuple[str, ...]]] = {
    "container_toolkit": ("container_info", ("rootless_users",)),
    "engines": ("engine_info", ()),
    "gateway": ("gateway_info", ()),
}

GPU_INFO_OPTIONS = ("nvml_timeout", "nvml_library", "python_path", "sysfs_root", "procfs_root", "expected_gpus")

ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "component": {"type": "str", "required": True, "choices": list(GATES)},
    "desired": {"type": "dict", "default": {}},
    "stack": {"type": "dict", "default": {}},
    "lock": {"type": "path"},
    "unknown": {"type": "str", "default": "block", "choices": ["warn", "block"]},
    "allow": {"type": "list", "elements": "dict", "default": []},
    "matrix_overlay": {"type": "list", "elements": "path", "default": []},
    "disruption_max": {"type": "str"},
    "take_over": {"type": "list", "elements": "str", "default": []},
    "refresh": {"type": "bool", "default": False},
    "verify": {"type": "bool", "default": False},
    "report_only": {"type": "bool", "default": False},
    "nvml_timeout": {"type": "float"},
    "nvml_library": {"type": "path"},
    "python_path": {"type": "path"},
    "sysfs_root": {"type": "path"},
    "procfs_root": {"type": "path"},
    "expected_gpus": {"type": "int", "default": 0},
}


class ActionModule(ActionBase):
    """Facts → gate → plan. Never changes the host; see the module documentation of stack_check."""

    _supports_check_mode = True
    _supports_diff = True
    # A gate that runs in the background stops nothing.
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        args = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)[1]
        _known_stack(args["stack"])
        host = str(task_vars.get("inventory_hostname"))
        lock = _read_lock(args["lock"])
        context = self._context(args, group_of(lock, host) if lock else None)
        try:
            matrix = load_matrix(overlays=args["matrix_overlay"])
        except MatrixError as error:
            raise AnsibleActionFail(str(error)) from error

        run = _facts.run_id()
        fact = _facts.read(task_vars)
        collected = args["refresh"] or not _facts.fresh(fact, run)
        if collected:
            answer = self._collect(args, task_vars)
            if answer.get("failed") or answer.get("unreachable"):
                return {**result, **answer}
            fact = _facts.collected(fact, run, complete(answer["gpu_info"], matrix))
        facts = _facts.effective(fact)
        more = self._details(args, task_vars)
        if more.get("failed") or more.get("unreachable"):
            return {**result, **more}
        facts.update(more)

        plan = self._plan(args, facts, matrix, context)
        stack = _facts.merge(args["stack"], plan.details.get("stack") or {})
        # The allow-list holds for findings of any origin; the gate's own ground only limits those of the matrix.
        own = [*plan.findings, *judge_conduct(plan, facts, context), *_unconverged(args, plan)]
        if lock and args["component"] == "host":
            own += drift(lock, host, facts)
        gate = GATES[args["component"]]
        mine = {(finding.id, finding.subject) for finding in own}
        findings = judge(matrix, facts, stack, context, own)
        plan.findings = [f for f in findings if gate is None or f.component in gate or (f.id, f.subject) in mine]

        check_mode = bool(self._task.check_mode)
        if check_mode and plan.predicted:
            fact["predicted"] = _facts.merge(fact.get("predicted") or {}, plan.predicted)
        if collected or (check_mode and plan.predicted):
            result["ansible_facts"] = {_facts.FACT: fact}
        blocking = [finding for finding in plan.findings if finding.severity == "block"]
        result.update(plan.to_dict(), host=host_summary(facts))
        result["converge"] = bool(plan.changes) and not check_mode and not blocking
        result["changed"] = bool(plan.changes) and check_mode
        if check_mode and plan.changes and self._task.diff:
            result["diff"] = _render.diff(plan.component, plan.changes)
        if blocking and not args["report_only"]:
            # What a person reads when a host is stopped: the findings, not the facts behind them.
            for key in ("ansible_facts", "details", "diff", "predicted"):
                result.pop(key, None)
            result.update(failed=True, changed=False, msg=_render.refusal(args["component"], blocking, args["verify"]))
        return result

    def _context(self, args: dict[str, t.Any], lock: dict[str, t.Any] | None) -> Context:
        limit = args["disruption_max"] or None
        if limit is not None and limit not in DISRUPTIONS:
            raise AnsibleActionFail(f"disruption_max is {limit!r}; expected one of {', '.join(DISRUPTIONS)}, or empty for the default")
        return Context(
            today=datetime.date.today(),
            unknown=args["unknown"],
            allow=tuple(args["allow"]),
            disruption_max=limit,
            take_over=frozenset(args["take_over"]),
            check_mode=bool(self._task.check_mode),
            runtime_sha256=host_core_sha256(),
            lock=lock,
            local_connection=self._connection.transport == "local",
        )

    def _collect(self, args: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        # No number of GPUs is expected where the option is 0.
        options = {name: args[name] for name in GPU_INFO_OPTIONS if args.get(name) is not None and (name != "expected_gpus" or args[name])}
        return self._execute_module(module_name="gpufleet.inference.gpu_info", module_args=options, task_vars=task_vars)

    def _details(self, args: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        """What the component's own module reads, under the module's name, and the models it asks for; nothing for most components."""
        if args["component"] not in DETAILS:
            return {}
        name, options = DETAILS[args["component"]]
        given = {option: args["desired"][option] for option in options if isinstance(args["desired"].get(option), list)}
        answer = self._execute_module(module_name=f"gpufleet.inference.{name}", module_args=given, task_vars=task_vars)
        if name not in answer:
            return answer
        wanted = getattr(_planner(args["component"]), "models", None)
        return {name: answer[name], **({"model_info": self._models(wanted(args["desired"]), task_vars)} if wanted else {})}

    def _models(self, folders: t.Sequence[str], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        """Folder → what model_info says, or {error: text}: a model that cannot be read is a finding of the planner."""
        found = {}
        for folder in folders:
            answer = self._execute_module(module_name="gpufleet.inference.model_info", module_args={"path": folder}, task_vars=task_vars)
            found[folder] = answer.get("model_info") or {"error": str(answer.get("msg") or "no answer").rstrip(".")}
        return found

    def _plan(self, args: dict[str, t.Any], facts: dict[str, t.Any], matrix: t.Any, context: Context) -> Plan:
        return t.cast(Plan, _planner(args["component"]).plan(args["desired"], facts, matrix, context))


def _planner(component: str) -> t.Any:
    return importlib.import_module(f"..plugin_utils._plan_{component}", __package__)


# What may be asked for; the keys of `driver` and the others are judged by the rules that read them.
STACK = ("name", "component", "driver", "cuda", "cudnn", "nccl", "container_toolkit", "engines")
STACK_DRIVER = ("branch", "version", "kernel_modules", "source")


def _known_stack(stack: dict[str, t.Any]) -> None:
    """A key that nothing reads would be a wish that nobody hears."""
    driver = stack.get("driver")
    for where, given, known in (("stack", stack, STACK), ("stack.driver", driver if isinstance(driver, dict) else {}, STACK_DRIVER)):
        for key in given:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, 1)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
                raise AnsibleActionFail(f"{where} has a key {key!r} that means nothing (gpu_stack_wanted, gpu_preflight_stack): {hint}")


def _read_lock(path: str | None) -> dict[str, t.Any] | None:
    """The stack lock; a path that is set must lead to one that can be read."""
    if not path:
        return None
    if not os.path.exists(path):
        raise AnsibleActionFail(
            f"The stack lock {path} does not exist. Write it with playbook gpufleet.inference.lock, or leave gpu_stack_lock empty."
        )
    try:
        with open(path, encoding="utf-8") as stream:
            document = yaml.safe_load(stream)
        group_of(document, "")
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise AnsibleActionFail(f"The stack lock {path} cannot be used: {error}") from error
    return t.cast("dict[str, t.Any]", document)


def _unconverged(args: dict[str, t.Any], plan: Plan) -> list[Finding]:
    """After converge, what is still different is a failure with a name."""
    if not args["verify"]:
        return []
    return [
        dataclasses.replace(
            _NOT_CONVERGED,
            component=change.component,
            id=f"{change.component}.not_converged",
            subject=change.subject,
            found=str(change.before),
            needed=str(change.after),
            message=f"Converge ended, but this is still to do: {change.message}.",
        )
        for change in plan.changes
    ]


_NOT_CONVERGED = Finding(
    id="host.not_converged",
    severity="block",
    component="host",
    found="",
    needed="",
    message="",
    fix="Read the host's journal for the subject named here; run again with -v to see what converge did.",
    source="verification after converge",
)
