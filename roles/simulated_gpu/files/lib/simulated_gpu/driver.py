# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver placed by the role instead of packages: library under its versioned name, tools, unit, record of an installed module."""

from __future__ import annotations

import filecmp
import os
import platform
import shutil
import subprocess
from pathlib import Path

from . import module, paths, state

TOOLS = ("nvidia-smi", "nvidia-persistenced")


class DriverError(ValueError):
    """Something is in the way."""


def library_folder() -> Path:
    """Where this distribution keeps shared libraries."""
    multiarch = paths.at(f"/usr/lib/{platform.machine()}-linux-gnu")
    return multiarch if multiarch.is_dir() or paths.relocated() else paths.at("/usr/lib64")


def _files(version: str, library: Path, tools: Path) -> dict[Path, Path]:
    files = {library_folder() / f"libnvidia-ml.so.{version}": library}
    files.update({paths.at("/usr/bin") / tool: tools / tool for tool in TOOLS})
    files[paths.at("/usr/lib/systemd/system/nvidia-persistenced.service")] = tools / "nvidia-persistenced.service"
    return files


def _placed() -> list[str]:
    return list(state.read(paths.lib("driver-files")))


def install(version: str, library: Path, tools: Path, open_modules: bool) -> bool:
    """True if something changed. Files that a package brought are never overwritten."""
    if not library.is_file():
        raise DriverError(f"no library {library}")
    wanted = _files(version, library, tools)
    ours = set(_placed())
    changed = False
    for target, source in wanted.items():
        if target.exists() and str(target) not in ours:
            raise DriverError(
                f"{target} is there and not from this role (a driver package?): remove it, or use simulated_gpu_driver: packaged"
            )
        if target.exists() and filecmp.cmp(source, target, shallow=False):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.new")
        shutil.copyfile(source, temporary)
        temporary.chmod(0o644 if target.suffix == ".service" else 0o755)
        os.replace(temporary, target)
        changed = True
    stale = ours - {str(path) for path in wanted}
    for path in stale:
        Path(path).unlink(missing_ok=True)
    changed |= bool(stale) | _link(version)
    state.write(paths.lib("driver-files"), {str(path): "1" for path in wanted})
    changed |= module.install(version, open_modules)
    if changed:
        _settle()
    return changed


def _link(version: str) -> bool:
    link = library_folder() / "libnvidia-ml.so.1"
    target = f"libnvidia-ml.so.{version}"
    if link.is_symlink() and os.readlink(link) == target:
        return False
    temporary = link.with_name(".libnvidia-ml.so.1.new")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    os.replace(temporary, link)
    return True


def _settle() -> None:
    """What package triggers do: the linker's cache, and systemd's view of unit files."""
    for command in (["ldconfig"], ["systemctl", "daemon-reload"]):
        if not paths.relocated() and shutil.which(command[0]):
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)


def uninstall() -> bool:
    """Only what install() placed."""
    placed: list[str] = _placed()
    if not placed:
        return False
    for path in placed:
        Path(path).unlink(missing_ok=True)
    link = library_folder() / "libnvidia-ml.so.1"
    if link.is_symlink() and not link.exists():
        link.unlink()
    paths.lib("driver-files").unlink()
    module.uninstall()
    _settle()
    return True


def version_of_role() -> str | None:
    """The version this role installed, if it did."""
    record = module.installed() if _placed() else None
    return record["version"] if record else None
