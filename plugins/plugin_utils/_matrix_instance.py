# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One engine instance of a target stack, with the row that judges it. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from . import _matrix_engines as engines
from ._contracts import Finding
from ._matrix_case import CONTAINER_RUNTIMES, Case, Facts
from ._matrix_findings import finding
from ._matrix_types import Row


class Instance:
    """One engine instance of the target stack with the row that judges it."""

    def __init__(self, case: Case, spec: Facts) -> None:
        self.case = case
        self.engine = str(spec.get("engine") or "")
        self.name = str(spec.get("name") or self.engine)
        self.title = engines.TITLE.get(self.engine, self.engine)
        self.spec = spec
        self.container = str(spec.get("runtime") or "") in CONTAINER_RUNTIMES
        reference = str(spec.get("image") or "")
        self.image = engines.image(case.matrix, reference) if reference else None
        asked = spec.get("version")
        self.version: str | None = str(asked) if asked else self.image.version if self.image else None
        self.release = engines.release(case.matrix, self.engine, self.version) if self.version else None

    @property
    def row(self) -> Row:
        return self.release.row if self.release else {}

    @property
    def cuda(self) -> str | None:
        """CUDA that runs: of the image, or of the wheel."""
        if self.image and self.image.cuda:
            return self.image.cuda
        row = self.row
        return row.get("image_cuda") or row.get("wheel_cuda") if self.container else row.get("wheel_cuda") or row.get("torch_cuda")

    @property
    def what(self) -> str:
        return f"{self.title} {self.version}"

    def finding(self, id: str, severity: t.Any, **fields: t.Any) -> Finding:
        """A finding about this instance; where the row only stands in for the version it cannot block."""
        if self.release and not self.release.certain and severity == "block" and fields.get("row") is self.row:
            severity = self.case.policy.unknown
        return finding(id, severity, subject=self.name, **fields)
