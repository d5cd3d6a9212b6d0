# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Open or proprietary kernel modules: what the GPUs demand, what the site asks for, what is there. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from ._contracts import Finding
from ._matrix_model import Matrix
from ._plan_driver_facts import HostDriver
from ._plan_driver_input import Settings, branch_of
from ._plan_driver_refusals import contradiction

OPEN_BY_DEFAULT = 560
"""First branch whose installer takes the open modules unless told otherwise (matrix/drivers.yml, branch 560)."""


def kernel_modules(
    settings: Settings, host: HostDriver, matrix: Matrix, branch: int
) -> tuple[t.Literal["open", "proprietary"] | None, list[Finding]]:
    """auto: from what the GPUs demand, then what is installed, then the branch. A contradiction is no choice at all."""
    demands = host.module_demands(matrix)
    only_open = sorted({name for name, demand in demands if demand == "required"})
    only_proprietary = sorted({name for name, demand in demands if demand == "unsupported"})
    if only_open and only_proprietary:
        return None, [contradiction("auto", only_open, only_proprietary, "a host whose GPUs accept the same kind of kernel modules")]
    demanded = "open" if only_open else "proprietary" if only_proprietary else None
    if settings.kernel_modules != "auto":
        asked = t.cast("t.Literal['open', 'proprietary']", settings.kernel_modules)
        if demanded and asked != demanded:
            return None, [contradiction(asked, only_open, only_proprietary, demanded)]
        return asked, []
    if demanded:
        return t.cast("t.Literal['open', 'proprietary']", demanded), []
    if host.kernel_modules in ("open", "proprietary") and host.version and branch_of(host.version) == branch:
        return t.cast("t.Literal['open', 'proprietary']", host.kernel_modules), []
    return ("open" if branch >= OPEN_BY_DEFAULT else "proprietary"), []
