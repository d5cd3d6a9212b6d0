# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the transactions of driver and CUDA need of a package manager, and the one that this host has. Private to the collection."""

from __future__ import annotations

import os
import typing as t

from ._apt import LOCK_TIMEOUT, Apt
from ._dnf import Dnf
from ._host import read_os
from ._package_answers import PackageError, Simulation
from ._reader import Reader

APT = "/usr/bin/apt-get"


class PackageManager(t.Protocol):
    """Apt (_apt.py) and Dnf (_dnf.py). Versions are package versions, [epoch:]upstream-revision; specs are name=version, name, name-."""

    timeout: float

    def versions(self, names: t.Sequence[str]) -> dict[str, list[tuple[str, str]]]: ...

    def depends(self, specs: t.Mapping[str, str]) -> dict[str, list[list[str]]]: ...

    def lower_bounds(self, specs: t.Mapping[str, str]) -> dict[str, dict[str, str]]: ...

    def installed(self) -> dict[str, tuple[str, str]]: ...

    def holds(self) -> set[str]: ...

    def check_holds(self, check: bool = False) -> tuple[str, ...]: ...

    def set_holds(self, add: t.Iterable[str] = (), remove: t.Iterable[str] = ()) -> None: ...

    def simulate(self, specs: t.Sequence[str], downgrade: bool = False) -> Simulation: ...

    def update(self, parts: t.Optional[str] = None) -> None: ...

    def download(self, specs: t.Sequence[str], downgrade: bool) -> None: ...

    def install(self, specs: t.Sequence[str], downgrade: bool) -> None: ...

    def remove(self, names: t.Sequence[str], simulate: bool = False) -> Simulation: ...

    def unneeded(self) -> list[str]: ...

    def configure(self) -> str: ...

    def download_size(self, specs: t.Sequence[str], downgrade: bool) -> t.Optional[int]: ...

    def fetch_files(self, specs: t.Mapping[str, str], folder: str) -> dict[str, str]: ...

    def install_files(
        self, paths: t.Sequence[str], downgrade: bool, remove: t.Sequence[str] = (), simulate: bool = False
    ) -> Simulation: ...

    def exclude(self, names: t.Iterable[str]) -> bool: ...


def package_manager(timeout: float, stream: str = "", lock_timeout: int = LOCK_TIMEOUT, root: str = "/") -> PackageManager:
    """By the system's family, not by what programs it has: Debian can have dnf, and EL apt."""
    family = read_os(Reader(rootfs=root))["family"]
    if family == "redhat":
        return Dnf(timeout, stream)
    if not os.path.exists(APT):
        raise PackageError("unresolvable", f"{APT} is not there; this module knows apt, and dnf on systems of the Red Hat family")
    return Apt(timeout, lock_timeout)
