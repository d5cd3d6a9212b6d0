# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where CUDA's packages come from: the repository that the host already has for its driver, or one that is configured.

Private to the collection, pure.
"""

from __future__ import annotations

from ._matrix_types import OsSupport
from ._plan_cuda_facts import HostCuda
from ._plan_cuda_input import Settings
from ._plan_driver_packages import NVIDIA_REPOSITORY, repository_options
from ._plan_driver_part import Part


def repository_url(settings: Settings, os: OsSupport) -> str:
    """The folder of this system below the base that the site names, or NVIDIA's."""
    base = (settings.repository_url or NVIDIA_REPOSITORY).rstrip("/")
    path = os.repository_path or ""
    return f"{base}/" if base.endswith(path) else f"{base}/{path}/"


def add_repository(part: Part, settings: Settings, host: HostCuda, os: OsSupport) -> None:
    """Options of module cuda_packages, and the change where the host has another repository or none."""
    url = repository_url(settings, os)
    options = part.details["packages"]
    options["from_url"] = url
    if host.repository_url and host.repository_url.rstrip("/") == url.rstrip("/"):
        return
    before = host.repository_url if host.repository_owned else None
    part.change("repository", url, before, url, f"use package repository {url}")
    options.update(repository_options(url, os, settings.repository_key, settings.repository_key_url, settings.repository_key_fingerprint))
