# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading the matrix: files, overlays, schema check, cache. The only part of the gate with I/O.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from ._matrix_model import Matrix


class MatrixError(ValueError):
    """A matrix or overlay file that cannot be used; the text names file, row and key."""


def load_matrix(overlays: t.Sequence[str] = ()) -> Matrix:
    """The collection's rows with the site's overlay files applied in order; cached per process. Raises MatrixError."""
    raise NotImplementedError
