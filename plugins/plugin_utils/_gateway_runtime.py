# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway's own program as this controller would install it. Private to the collection."""

from __future__ import annotations

import functools
import pathlib

from ..module_utils._gateway_core import program
from ..module_utils._gpu_settings_core import digest

_SOURCES = pathlib.Path(__file__).resolve().parent.parent / "module_utils"


@functools.lru_cache(maxsize=1)
def gateway_runtime_sha256() -> str | None:
    """Hash to compare with `runtime_sha256` of gateway_info; None if the sources cannot be read."""
    try:
        return digest(program(lambda name: (_SOURCES / f"{name}.py").read_bytes()))
    except OSError:
        return None
