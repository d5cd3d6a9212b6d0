# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where things are. SIMULATED_GPU_ROOT moves all of it below one folder."""

from __future__ import annotations

import os
from pathlib import Path


def root() -> str:
    return os.environ.get("SIMULATED_GPU_ROOT", "").rstrip("/")


def relocated() -> bool:
    return bool(root())


def at(path: str) -> Path:
    """An absolute path of the host, moved below the root."""
    return Path(root() + path)


def etc(name: str) -> Path:
    return at("/etc/simulated-gpu/" + name)


def run(name: str) -> Path:
    return at("/run/simulated-gpu/" + name)


def lib(name: str) -> Path:
    return at("/var/lib/simulated-gpu/" + name)


def home() -> Path:
    """Where this program's own files are: one folder up when installed, two in the role's files."""
    up = Path(__file__).resolve().parent.parent
    return up if (up / "profiles").is_dir() else up.parent
