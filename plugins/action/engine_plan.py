# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans an engine instance: the model's files and the GPUs are read on the host, everything else is computed on the controller."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._cache_metrics import cache_of
from ..module_utils._nvml_args import NVML_ARGS
from ..plugin_utils import _facts
from ..plugin_utils._contracts import Finding
from ..plugin_utils._engine_plan import WHOLE_NUMBERS, plan
from ..plugin_utils._engine_plan_advice import WORKLOADS, advise
from ..plugin_utils._engine_plan_check import compare_cache
from ..plugin_utils._engine_plan_input import choose_gpus, model_of
from ..plugin_utils._engine_plan_rows import constants_for, too_old
from ..plugin_utils._engine_plan_types import ENGINES, EnginePlan, Wish
from ..plugin_utils._matrix_load import MatrixError, load_matrix
from ..plugin_utils._memory_weights import Parallel
from ..plugin_utils._products import complete
from ..plugin_utils._render import finding_text

ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "model": {"type": "path"},
    "config": {"type": "dict"},
    "weights_bytes": {"type": "int"},
    "engine": {"type": "str", "required": True, "choices": list(ENGINES)},
    "version": {"type": "str", "required": True},
    "gpus": {"type": "list", "elements": "str", "default": []},
    "count_used": {"type": "bool", "default": True},
    **{name: {"type": "int"} for name in WHOLE_NUMBERS},
    "memory_fraction": {"type": "float"},
    "kv_cache_dtype": {"type": "str", "default": "auto"},
    "expert_parallel": {"type": "bool", "default": False},
    "prefix_caching": {"type": "bool"},
    "hybrid_kv_cache": {"type": "bool", "default": True},
    "cuda_graphs": {"type": "bool", "default": True},
    "speculative_tokens": {"type": "int", "default": 0},
    "nodes": {"type": "int", "default": 1},
    "measured": {"type": "dict", "default": {}},
    "metrics": {"type": "str"},
    "cache": {"type": "dict"},
    "workload": {"type": "str", "choices": list(WORKLOADS)},
    "model_id": {"type": "str", "default": ""},
    "unknown": {"type": "str", "choices": ["warn", "block"], "default": "block"},
    "matrix_overlay": {"type": "list", "elements": "path", "default": []},
    **NVML_ARGS,
}
_WISH = (
    *WHOLE_NUMBERS,
    "engine",
    "version",
    "memory_fraction",
    "kv_cache_dtype",
    "expert_parallel",
    "prefix_caching",
    "hybrid_kv_cache",
    "cuda_graphs",
    "speculative_tokens",
    "nodes",
)


class ActionModule(ActionBase):
    """See the module documentation of engine_plan."""

    _supports_check_mode = True
    _supports_diff = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(
            argument_spec=ARGUMENT_SPEC,
            mutually_exclusive=[("model", "config"), ("model", "weights_bytes"), ("metrics", "cache")],
            required_one_of=[("model", "config")],
        )[1]
        try:
            matrix = load_matrix(overlays=args["matrix_overlay"])
            constants = constants_for(matrix, args["engine"], args["version"], args["measured"])
        except MatrixError as error:
            raise AnsibleActionFail(str(error)) from error
        model = self._model(args, task_vars or {}, result)
        facts = None if model is None else self._facts(args, matrix, task_vars or {}, result)
        if facts is None or model is None:
            return result
        shape, findings = model_of(model, args["unknown"])
        gpus, wrong = choose_gpus(facts, args["gpus"], args["count_used"])
        findings += wrong + [finding for finding in [too_old(matrix, args["engine"], args["version"])] if finding]
        answer = EnginePlan(False, Parallel())
        if shape is not None and not wrong:
            answer = plan(shape, gpus, Wish(**{name: args[name] for name in _WISH}), constants)
        answer.findings = findings + answer.findings
        document = answer.to_dict()
        if (args["metrics"] is not None or args["cache"] is not None) and answer.predicted is not None:
            cache = _cache(args["cache"]) if args["cache"] is not None else cache_of(args["metrics"])
            seen = compare_cache(document, cache, gpus[0].total)
            answer.findings += seen
            document["findings"] += [finding.to_dict() for finding in seen]
        result.update(changed=False, plan=document)
        if args["workload"]:
            gpu = gpus[0] if gpus else None
            product, capability = (gpu.name, gpu.compute_capability) if gpu else ("", None)
            result["advice"] = advise(matrix, args["workload"], product, capability, args["model_id"])
        self._conclude(answer.findings, result)
        return result

    def _conclude(self, findings: list[Finding], result: dict[str, t.Any]) -> None:
        for finding in findings:
            if finding.severity == "warn":
                self._display.warning(finding.message)
        blocking = [finding for finding in findings if finding.severity == "block"]
        if blocking:
            result.update(failed=True, msg="\n".join(map(finding_text, blocking)))

    def _facts(
        self, args: dict[str, t.Any], matrix: t.Any, task_vars: dict[str, t.Any], result: dict[str, t.Any]
    ) -> dict[str, t.Any] | None:
        """The host's facts of this run, read now if there are none; None: `result` says why."""
        fact, run = _facts.read(task_vars), _facts.run_id()
        if not _facts.fresh(fact, run):
            options = {name: args[name] for name in NVML_ARGS if args[name] is not None}
            answer = self._execute_module(module_name="gpufleet.inference.gpu_info", module_args=options, task_vars=task_vars)
            if answer.get("failed") or answer.get("unreachable"):
                result.update(answer)
                return None
            fact = _facts.collected(fact, run, complete(t.cast("dict[str, t.Any]", answer["gpu_info"]), matrix))
            result["ansible_facts"] = {_facts.FACT: fact}
        return _facts.effective(fact)

    def _model(self, args: dict[str, t.Any], task_vars: dict[str, t.Any], result: dict[str, t.Any]) -> dict[str, t.Any] | None:
        if args["config"] is not None:
            weights = {"loaded_bytes": args["weights_bytes"]} if args["weights_bytes"] else None
            return {"path": None, "config": args["config"], "weights": weights}
        answer = self._execute_module(module_name="gpufleet.inference.model_info", module_args={"path": args["model"]}, task_vars=task_vars)
        if answer.get("failed") or answer.get("unreachable"):
            result.update(answer)
            return None
        return t.cast("dict[str, t.Any]", answer["model_info"])


def _cache(given: dict[str, t.Any]) -> dict[str, t.Any]:
    """endpoint_check's answer, checked as far as it is read here."""
    tokens, labels = given.get("tokens"), given.get("labels") or {}
    if not isinstance(tokens, int) or isinstance(tokens, bool) or not isinstance(labels, dict):
        raise AnsibleActionFail(f"cache is {given!r}; expected what endpoint_check returns as cache, with tokens and labels")
    return {"metric": "cache", **given, "tokens": tokens, "labels": labels}
