# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that all modules of the group `gpu` share. Private to the collection.

Documented once, in doc_fragments/_nvml.py; a test keeps the two equal.
"""

from __future__ import annotations

import math
import typing as t

from . import _paths
from ._errors import HostError
from ._nvml import Options

NVML_ARGS: dict[str, dict[str, t.Any]] = {
    "nvml_timeout": {"type": "float", "default": 10.0},
    "nvml_library": {"type": "path"},
    "python_path": {"type": "path", "default": _paths.PYTHON_DIR},
    "sysfs_root": {"type": "path", "default": "/sys"},
    "procfs_root": {"type": "path", "default": "/proc"},
}


def nvml_options(params: t.Mapping[str, t.Any]) -> Options:
    """The session options that a module's parameters ask for; HostError names a value that cannot work."""
    timeout = float(params["nvml_timeout"])
    if not (math.isfinite(timeout) and 0.1 <= timeout <= 600):
        raise HostError(f"nvml_timeout is {params['nvml_timeout']}, expected seconds from 0.1 to 600; the default is 10")
    return Options(timeout=timeout, library=params["nvml_library"] or None, python_dir=params["python_path"])
