# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where this collection keeps things on a host. Private to the collection.

Everything that is ours lies in one of five folders; what lies elsewhere because the system wants it
there is listed in OWNED_FILES, so that facts can hash it and a role can remove it.
"""

from __future__ import annotations

ETC_DIR = "/etc/gpufleet"
VAR_DIR = "/var/lib/gpufleet"
RUN_DIR = "/run/gpufleet"
PYTHON_DIR = "/opt/gpufleet/python"
RUNTIME_DIR = "/opt/gpufleet/lib/gpufleet_host"

GPU_SETTINGS = ETC_DIR + "/gpu_settings.json"
GPU_SETTINGS_RECORDED = VAR_DIR + "/gpu_settings.json"
REBOOT_REQUIRED = VAR_DIR + "/reboot_required.json"
DRIVER_RECORD = VAR_DIR + "/driver.json"
DRIVER_PACKAGES = VAR_DIR + "/packages/driver"
"""One folder a driver version: the package files to go back to it."""
DRIVER_RELOAD = RUN_DIR + "/driver_reload.json"
"""A reload of the kernel modules that is not over, or failed: true of this boot alone."""
CUDA_RECORD = VAR_DIR + "/cuda.json"

CUDA_PROFILE = "/etc/profile.d/gpufleet-cuda.sh"
CUDA_LD = "/etc/ld.so.conf.d/gpufleet-cuda.conf"
CUDA_COMPAT_LD = "/etc/ld.so.conf.d/00-gpufleet-cuda-compat.conf"
"""Read first, so that libcuda of a compat package comes before the driver's."""

CONTAINER_RECORD = VAR_DIR + "/container_toolkit.json"
DOCKER_CDI_SWITCHED = VAR_DIR + "/docker_cdi.json"
"""The daemon.json files in which `features.cdi` is ours."""
TOOLKIT_APT_KEY = "/etc/apt/keyrings/gpufleet-container-toolkit.asc"
TOOLKIT_APT_SOURCE = "/etc/apt/sources.list.d/gpufleet-container-toolkit.sources"
TOOLKIT_DNF_SOURCE = "/etc/yum.repos.d/gpufleet-container-toolkit.repo"
CDI_UNIT = "/etc/systemd/system/gpufleet-cdi-refresh.service"
CDI_DROP_IN = "/etc/systemd/system/nvidia-cdi-refresh.service.d/gpufleet.conf"
CDI_FOR_ROOTLESS = VAR_DIR + "/cdi"
"""A folder outside of /etc and /run, of which rootlesskit shows links only, and CDI does not follow a folder that is a link."""
CDI_TMPFILES = "/etc/tmpfiles.d/gpufleet-cdi.conf"
DOCKER_CDI_UNIT = "/etc/systemd/system/gpufleet-docker-cdi.service"
DOCKER_CDI_USER_UNIT = "/etc/systemd/user/gpufleet-docker-cdi.service"
CONTAINER_FILES = (
    TOOLKIT_APT_KEY,
    TOOLKIT_APT_SOURCE,
    TOOLKIT_DNF_SOURCE,
    CDI_UNIT,
    DOCKER_CDI_UNIT,
    DOCKER_CDI_USER_UNIT,
    CDI_DROP_IN,
    CDI_TMPFILES,
)

KERNEL_MODULES = RUN_DIR + "/kernel_modules.json"
"""What modinfo said about files of the nvidia module, so that it unpacks each only once a boot."""

GPU_CLOCKS = RUN_DIR + "/gpu_clocks.json"
GOVERNOR_STATE = RUN_DIR + "/power_governor.json"

RUN_LOCK = "run.lock"
"""Name below the run directory."""
NVML_HUNG = "nvml_hung.json"
"""Name below the run directory."""

OWNED_FILES: tuple[str, ...] = (
    "/etc/apt/apt.conf.d/51gpufleet-nvidia",
    "/etc/apt/keyrings/gpufleet-nvidia.asc",
    "/etc/apt/preferences.d/gpufleet-nvidia",
    "/etc/apt/sources.list.d/gpufleet-nvidia.sources",
    CUDA_COMPAT_LD,
    CUDA_LD,
    "/etc/modprobe.d/gpufleet-nvidia.conf",
    "/etc/modprobe.d/gpufleet-nouveau.conf",
    "/etc/dracut.conf.d/gpufleet-nouveau.conf",
    "/etc/modules-load.d/gpufleet-nvidia.conf",
    CUDA_PROFILE,
    "/etc/systemd/system/gpufleet-gpu-settings.service",
    "/etc/systemd/system/gpufleet-power-governor.service",
    "/etc/yum.repos.d/gpufleet-nvidia.repo",
    GPU_SETTINGS,
    GPU_CLOCKS,
    GOVERNOR_STATE,
    *CONTAINER_FILES,
)
"""Files outside /var that this collection writes; `gpu_info` reports the hash of each."""

OWNED_UNIT_PREFIX = "gpufleet-"
"""Every systemd unit of ours starts with this."""
