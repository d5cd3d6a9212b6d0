# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  nvml_timeout:
    description:
      - Seconds, 0.1 to 600, that all work with NVML may take, in a process of its own.
      - When they are over the process is killed and the state of the host is V(hung). This is not an error, and the module returns.
    type: float
    default: 10.0
  nvml_library:
    description:
      - Path of C(libnvidia-ml.so.1).
      - Normally not needed, the dynamic loader finds it.
    type: path
  python_path:
    description:
      - Directory on the host in which C(pynvml), of the distribution C(nvidia-ml-py), is looked for before the usual places.
      - The role P(gpufleet.inference.gpu_preflight#role) puts it there.
    type: path
    default: /opt/gpufleet/python
  sysfs_root:
    description: Where the host's sysfs is mounted.
    type: path
    default: /sys
  procfs_root:
    description:
      - Where the host's procfs is mounted.
      - Processes that this module starts are always looked up in C(/proc).
    type: path
    default: /proc
"""
