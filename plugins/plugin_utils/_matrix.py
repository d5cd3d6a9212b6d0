# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evaluator: matrix rows × facts of a host × target stack → findings. Pure.

Private to the collection. Interfaces for actions and planners:

    matrix = load_matrix(overlays=[path, …])                    # _matrix_load
    info = complete(facts, matrix)                              # _products: product, architecture from PCI ids
    findings = judge(matrix, info, stack, policy)               # evaluate + site policies + allow-list, sorted
    findings = evaluate(matrix, info, stack, policy)            # the rules alone, sorted

Lookups of Matrix (all total: they answer None or an answer with a reason, never raise on odd input):

    matrix.gpu(product=None, pci_device_id=None) -> Row | None
    matrix.branch(580) -> Row | None
    matrix.os(facts["host"]["os"], facts["host"]["machine_arch"]) -> OsSupport
    matrix.driver_packages(os, branch, kernel_modules, needs=(), source="nvidia") -> DriverPackages
        os: what matrix.os() answered; kernel_modules: "open" | "proprietary";
        needs: any of "compute_only", "fabric_manager", "nvlink5", "imex"
    matrix.driver_for(gpus, today, channel="lts"|"production"|"newest") -> DriverChoice | None
        gpus: GPU row ids of one host (mixed hosts: the choice works for all of them)
    matrix.named_stack("id or name") -> Row | None
    matrix.cuda_toolkit("13.0.2" | "13.0") -> Row | None

Severity follows one principle: a relation blocks when the target stack asks for one of its sides; where both sides are
merely found on the host it warns, because the run neither made it nor would change it. A broken state of the host itself
blocks, except for the run that repairs it. Rows of confidence `unverified` never block.

The stack may carry two keys more than docs/architecture.md lists: `name` (a named stack, whose parts stand under the site's own words) and
`component` (who asks; `driver` makes broken driver states work instead of obstacles; without it, a stack that asks for a driver does).
"""

from __future__ import annotations

import typing as t

from . import (
    _allow,
    _matrix_rules_arguments,
    _matrix_rules_containers,
    _matrix_rules_cuda,
    _matrix_rules_driver,
    _matrix_rules_driver_support,
    _matrix_rules_engine,
    _matrix_rules_fabric,
    _matrix_rules_gpu,
    _matrix_rules_host,
    _matrix_rules_libraries,
    _matrix_rules_model,
    _matrix_rules_modules,
    _matrix_rules_site,
    _matrix_rules_state,
    _policy,
)
from ._contracts import Context, Finding
from ._matrix_case import Case
from ._matrix_model import Matrix

Stack = t.Mapping[str, t.Any]

RULES: tuple[t.Callable[[Case], t.Iterator[Finding]], ...] = (
    _matrix_rules_state.rules,
    _matrix_rules_host.rules,
    _matrix_rules_gpu.rules,
    _matrix_rules_driver.rules,
    _matrix_rules_modules.rules,
    _matrix_rules_driver_support.rules,
    _matrix_rules_fabric.rules,
    _matrix_rules_cuda.rules,
    _matrix_rules_libraries.rules,
    _matrix_rules_containers.rules,
    _matrix_rules_engine.rules,
    _matrix_rules_arguments.rules,
    _matrix_rules_model.rules,
    _matrix_rules_site.rules,
)


def evaluate(matrix: Matrix, facts: t.Mapping[str, t.Any], stack: Stack, policy: Context) -> list[Finding]:
    """All findings of the built-in rules for one host, sorted by severity, id, subject."""
    case = Case(matrix, facts, stack, policy)
    return sorted((finding for rules in RULES for finding in rules(case)), key=Finding.sort_key)


def judge(matrix: Matrix, facts: t.Mapping[str, t.Any], stack: Stack, policy: Context, extra: t.Iterable[Finding] = ()) -> list[Finding]:
    """What a gate reports: evaluate(), the site's policies and `extra` (a planner's findings), then the allow-list over all of them."""
    found = [*evaluate(matrix, facts, stack, policy), *_policy.findings(matrix, facts, stack, policy), *extra]
    return _allow.apply(found, policy)
