# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The default toolkit, and how shells and the loader find it.

Private to the collection, pure.
"""

from __future__ import annotations

import hashlib
import typing as t

from ..module_utils._paths import CUDA_COMPAT_LD, CUDA_LD, CUDA_PROFILE
from ._plan_cuda_compat import compat_folder
from ._plan_cuda_facts import HostCuda, folder
from ._plan_cuda_input import Settings, default_of
from ._plan_driver_part import Part

_HEAD = "# Written by gpufleet.inference, role cuda_toolkit; changes here are overwritten.\n"
PROFILE = (
    _HEAD
    + 'case ":${PATH}:" in\n    *:/usr/local/cuda/bin:*) ;;\n    *) PATH="/usr/local/cuda/bin:${PATH}" ;;\nesac\n'
    + "CUDA_HOME=/usr/local/cuda\nexport PATH CUDA_HOME\n"
)
LOADER = _HEAD + "/usr/local/cuda/lib64\n"


def wanted_files(settings: Settings, compat: str) -> dict[str, str]:
    """Path → content; empty: not wanted."""
    any_toolkit = bool(settings.versions)
    return {
        CUDA_PROFILE: PROFILE if settings.profile and any_toolkit else "",
        CUDA_LD: LOADER if settings.ldconfig and any_toolkit else "",
        CUDA_COMPAT_LD: f"{_HEAD}{compat_folder(compat)}\n" if compat else "",
    }


def environment_part(settings: Settings, host: HostCuda, compat: str) -> Part:
    """Changes of link and files; detail `environment` for converge, which also asks the compilers for their version."""
    part = Part(component="cuda", source="docs/cuda.md")
    files = wanted_files(settings, compat)
    default = folder(default_of(settings)) if settings.versions else ""
    folders = {folder(version): version for version in settings.versions}
    if default:
        _link(part, default, list(folders), host)
    for path, text in files.items():
        _file(part, path, text, host)
    part.details["environment"] = {"default": default, "toolkits": folders, "files": files}
    return part


def _link(part: Part, default: str, folders: list[str], host: HostCuda) -> None:
    link = host.link
    if link["mode"] == "folder":
        part.find(
            "link_taken",
            "block",
            "/usr/local/cuda is a folder, not a link, so it cannot lead to the default toolkit.",
            subject="/usr/local/cuda",
            found="a folder",
            needed="a link, or nothing",
            fix="Move it away (mv /usr/local/cuda /usr/local/cuda-X.Y if it is a toolkit).",
        )
        return
    offered = set(link["alternatives"])
    if link["mode"] == "manual" and link["target"] == default and offered >= set(folders):
        return
    before = f"{link['target']} ({link['mode']})" if link["target"] else None
    part.change("default", "/usr/local/cuda", before, f"{default} (manual)", f"/usr/local/cuda leads to {default}")


def _file(part: Part, path: str, text: str, host: HostCuda) -> None:
    there = host.files.get(path)
    wanted = hashlib.sha256(text.encode()).hexdigest() if text else None
    if there == wanted:
        return
    # A compat library that comes or goes below a running engine mixes the halves of two drivers in it.
    disruption: t.Literal["none", "engine_restart"] = "engine_restart" if path == CUDA_COMPAT_LD else "none"
    verb = "remove" if not text else "change" if there else "write"
    part.change("file", path, "ours" if there else None, "present" if text else None, f"{verb} {path}", disruption)
