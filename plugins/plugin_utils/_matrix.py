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
blocks. Rows of confidence `unverified` never block.
"""

from __future__ import annotations

import typing as t

from ._contracts import Context, Finding
from ._matrix_model import Matrix

Stack = t.Mapping[str, t.Any]


def evaluate(matrix: Matrix, facts: t.Mapping[str, t.Any], stack: Stack, policy: Context) -> list[Finding]:
    """All findings of the built-in rules for one host, sorted by severity, id, subject."""
    raise NotImplementedError


def judge(matrix: Matrix, facts: t.Mapping[str, t.Any], stack: Stack, policy: Context) -> list[Finding]:
    """What a gate reports: evaluate(), the site's policies, then the allow-list over all of them."""
    raise NotImplementedError
