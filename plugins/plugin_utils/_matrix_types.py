# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of the matrix to planners: plain frozen values, no behaviour.

Private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from fnmatch import fnmatchcase

Row = dict[str, t.Any]
"""One row as written in matrix/*.yml; schemas/matrix.schema.json closes the keys of each section."""


@dataclass(frozen=True)
class OsSupport:
    """What the matrix says of one distribution release on one machine architecture."""

    supported: bool
    """False where NVIDIA has no repository for it, or this collection refuses it; `reason` says why."""
    known: bool
    """False where no row matches at all: the site's `unknown` policy decides."""
    reason: str
    """One sentence; empty when supported."""
    rule: str | None
    """Id of the row."""
    name: str
    """For people: Debian 12."""
    repository: str | None
    """Directory under REPOSITORY_BASE/: debian12, rhel9, ubuntu2404."""
    repository_arch: str | None
    """Directory below it: x86_64 or sbsa."""
    package_manager: str | None
    """apt | dnf | zypper."""
    modularity: bool
    """Whether the driver comes in dnf module streams."""
    nearest: str | None
    """Nearest supported release, where this one is refused."""
    source: str = ""
    repository_key_file: str = ""
    """Name of the key in NVIDIA's repository; empty: 3bf863cc.pub, as on most systems."""
    repository_key_fingerprint: str = ""
    """Of the key that NVIDIA signs the repository with; empty: not known."""
    gate_only: str = ""
    """Why this collection judges the system but installs no driver on it; empty where it does."""

    @property
    def repository_path(self) -> str | None:
        """debian12/x86_64, for a URL."""
        return f"{self.repository}/{self.repository_arch}" if self.repository and self.repository_arch else None


@dataclass(frozen=True)
class DriverPackages:
    """Names (no versions) of the packages of one driver branch on one system, and how they are kept together."""

    rule: str | None
    """Id of the row; None when nothing in the matrix names packages for the question (`reason` says why)."""
    reason: str
    source: t.Literal["nvidia", "distribution"]
    install: tuple[str, ...]
    """What is asked for: driver and kernel modules, then what `needs` asks for."""
    members: tuple[str, ...]
    """Glob patterns of every package whose version must equal the driver's (one transaction, held together); see is_member()."""
    not_members: tuple[str, ...]
    """Exceptions from them: libnvidia-container* is the container toolkit's."""
    same_version: tuple[str, ...]
    """Those of `install` that carry the driver's version; the rest (infiniband-diags) have their own."""
    pinning: str | None
    """Package that pins the branch (nvidia-driver-pinning-595), where the repository has one."""
    module_stream: str | None
    """dnf module stream (nvidia-driver:595-open), where the system has modularity."""
    hold: t.Literal["apt-mark", "dnf-versionlock", "zypper-lock"]
    version_format: str
    """Package version for a driver version, {version} filled in: {version}-1 or {version}-*"""
    confidence: str = "likely"
    offered: tuple[str, ...] = ()
    """Come along where the repository offers them in the driver's version: tools of a compute-only set."""

    def is_member(self, package: str) -> bool:
        """Whether a package belongs to the driver's set."""
        return any(fnmatchcase(package, glob) for glob in self.members) and not any(fnmatchcase(package, glob) for glob in self.not_members)


@dataclass(frozen=True)
class DriverChoice:
    """A driver that works for a set of GPUs."""

    branch: int
    version: str
    kernel_modules: t.Literal["open", "proprietary"]
    type: t.Literal["lts", "production", "new_feature"]
    rows: tuple[str, ...] = ()
    """Ids of the rows that decided."""
