# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What GPUs are, where no driver answered: product, architecture and compute capability from PCI ids. Pure.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from ._matrix_model import Matrix


def complete(info: dict[str, t.Any], matrix: Matrix) -> dict[str, t.Any]:
    """A gpu_info document with missing product data filled in from the matrix; the argument is not changed."""
    raise NotImplementedError
