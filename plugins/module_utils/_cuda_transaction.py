# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA's packages in one transaction. Private to the collection."""

from __future__ import annotations

from ._cuda_record import read_record, update_record
from ._cuda_resolve import CudaRequest, needed_by_others, resolve_cuda
from ._driver_steps import Done
from ._driver_transaction import Ground, change_packages, remove_packages
from ._package_manager import PackageManager

GROUND = Ground("CUDA", lambda name: False, resolve_cuda, read_record, update_record)
"""Nobody else's package may go, be it of CUDA by name: it was not put there by us."""


def change(apt: PackageManager, request: CudaRequest, hold: bool, check: bool) -> Done:
    """Make the packages what is asked for."""
    recorded = read_record()
    ours = frozenset({*recorded["packages"], *(recorded.get("pending") or {})})
    return change_packages(apt, request._replace(recorded=ours), "nvidia", hold, check, GROUND)


def remove(apt: PackageManager, check: bool) -> Done:
    """Purge all that we put there, except what others need by now."""
    record = read_record()
    ours = {*record["packages"], *(record.get("pending") or {})}
    stay = needed_by_others(ours, apt.installed(), apt)
    return remove_packages(apt, sorted(ours - stay), check, GROUND)
