# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role asks for, made so in one go: machine, library, driver, boot, lasting faults. Check mode only says what would change."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any, Callable, Optional

from . import boot, driver, faults, paths, profile, state

Wanted = dict[str, Any]
Follow = Callable[[profile.Machine, str, bool, Optional[str]], None]


def _replace(path: Path, text: str, check: bool) -> bool:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    if not check:
        state.replace(path, text)
    return True


def machine(wanted: Wanted, check: bool) -> bool:
    """profile.conf, from a profile's name or a profile itself."""
    folder = paths.home() / "profiles"
    chosen = wanted["profile"]
    data = profile.checked(chosen, "simulated_gpu_profile") if isinstance(chosen, dict) else profile.load(str(chosen), folder)
    return _replace(paths.etc("profile.conf"), profile.flatten(data, folder, wanted.get("count") or None, str(wanted["seed"])), check)


def choices(wanted: Wanted, check: bool) -> bool:
    return _replace(paths.etc("host.conf"), f"nouveau={int(wanted['nouveau'])}\nautoload={int(wanted['autoload'])}\n", check)


def library(wanted: Wanted, check: bool) -> bool:
    """From its source where a compiler is, else the carried binary; again only when the source changed."""
    home = paths.home()
    source = hashlib.sha256(b"".join(path.read_bytes() for path in sorted((home / "nvml").iterdir()))).hexdigest()
    stamp = home / ".built"
    if stamp.exists() and stamp.read_text(encoding="ascii") == source and (home / "libnvidia-ml.so").exists():
        return False
    if not check:
        command = [str(home / "build.sh"), str(home)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise ValueError(f"build.sh failed: {done.stderr.strip()}")
        stamp.write_text(source, encoding="ascii")
    return True


def installed_driver(wanted: Wanted, check: bool) -> bool:
    version = str(wanted["driver"])
    if version in ("packaged", "none"):
        return driver.version_of_role() is not None if check else driver.uninstall()
    if check:
        return driver.version_of_role() != version
    home = paths.home()
    source = Path(wanted["library"]) if wanted.get("library") else home / "libnvidia-ml.so"
    return driver.install(version, source, home / "bin", not wanted.get("proprietary"))


def identity() -> dict[str, str]:
    """What is booted: the machine, the host's choices, the driver of the role."""
    text = b"".join(path.read_bytes() for path in (paths.etc("profile.conf"), paths.etc("host.conf")) if path.exists())
    return {"machine": hashlib.sha256(text).hexdigest(), "driver": driver.version_of_role() or ""}


def reboot(here: profile.Machine) -> None:
    boot.boot(here)
    state.write(paths.run("booted"), identity())


def converge(wanted: Wanted, check: bool, follow: Follow) -> list[str]:
    """Names of what changed, or would."""
    steps = (("library", library), ("machine", machine), ("choices", choices), ("driver", installed_driver))
    changes = [name for name, step in steps if step(wanted, check)]
    if check and changes:
        return changes  # boot and faults belong to a machine that is not there yet
    here = profile.Machine(paths.etc("profile.conf"))
    if state.read(paths.run("booted")) != identity():
        changes.append("boot")
        if not check:
            reboot(here)
    if faults.persist_exactly(here, wanted["faults"], check, lambda name, off, value: follow(here, name, off, value)):
        changes.append("faults")
    return changes
