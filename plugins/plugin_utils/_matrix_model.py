# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Matrix: rows by section with indexes for the questions that rules and planners ask. Pure.

Private to the collection. See _matrix.py for the list of lookups.
"""

from __future__ import annotations

import datetime
import typing as t

from ._matrix_types import DriverChoice, DriverPackages, OsSupport, Row


class Matrix:
    """Rows of all sections, indexed once; immutable after that."""

    def gpu(self, product: str | None = None, pci_device_id: str | None = None) -> Row | None:
        """The row of a GPU by its NVML product name, or by its PCI device id (4 hex digits, any case)."""
        raise NotImplementedError

    def branch(self, number: int) -> Row | None:
        """Keys: branch, type (lts | production | new_feature), first, latest, eol, cuda, proprietary …"""
        raise NotImplementedError

    def os(self, facts_os: t.Mapping[str, t.Any], arch: str) -> OsSupport:
        """facts_os: host.os of gpu_info; arch: uname -m."""
        raise NotImplementedError

    def driver_packages(
        self, os: OsSupport, branch: int, kernel_modules: str, needs: t.Iterable[str] = (), source: str = "nvidia"
    ) -> DriverPackages:
        """Package names of a branch on a system; needs: compute_only, fabric_manager, nvlink5, imex."""
        raise NotImplementedError

    def driver_for(self, gpus: t.Iterable[str], today: datetime.date, channel: str = "lts") -> DriverChoice | None:
        """Newest driver without open advisory of a supported branch that drives all these GPUs (row ids)."""
        raise NotImplementedError

    def named_stack(self, name: str) -> Row | None:
        """A row of stacks.yml by id or name."""
        raise NotImplementedError

    def cuda_toolkit(self, version: str) -> Row | None:
        """The row of an exact toolkit, or the newest one of a minor (13.0)."""
        raise NotImplementedError
