# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a gateway asks whether an engine is ready. Data of the matrix's life cycle rows. Pure; private to the collection."""

from __future__ import annotations

import typing as t

from ._engine_lifecycle import lifecycle

if t.TYPE_CHECKING:
    from ._matrix_model import Matrix

SECONDS = 10
"""A busy vLLM answers /health late, since it shares the event loop with all requests: one second marked it down."""
GENERATING_SECONDS = 25
"""SGLang's /health generates a token and gives up by itself after 20 seconds."""


def health_of(matrix: Matrix, engine: str, version: str) -> tuple[str, int]:
    """Path that says `ready`, and seconds that the answer may take."""
    paths = lifecycle(matrix, engine, version).paths() if version else {}
    path = paths.get("ready", "/health")
    return path, GENERATING_SECONDS if engine == "sglang" and path == "/health" else SECONDS
