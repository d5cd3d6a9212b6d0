"""Where a lab keeps things and what it is called. All of it can be set from the environment (docs/testing.md)."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

LAB_DIR = Path(__file__).resolve().parent.parent
CHECKOUT = LAB_DIR.parent.parent


class LabError(Exception):
    """Something a person can act on; printed without a traceback."""


@dataclass(frozen=True)
class Settings:
    name: str
    prefix: str
    """Of containers and network. The project's own lab names (gpulab…) get a mark of the checkout, so that two checkouts on one
    machine (a person's and CI's) never take each other's hosts; a name that a person chose is used as it is."""
    engine: str
    state: Path
    """`.lab/NAME` of this checkout: key, host list, inventory, web root."""
    cache: Path
    """Root file systems and package repositories, by content hash; shared by all checkouts of this machine."""
    subnet: str | None


def load() -> Settings:
    name = os.environ.get("LAB_NAME", "gpulab")
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,20}", name):
        raise LabError(f"LAB_NAME={name!r}: expected a short name of a-z, 0-9 and '-', such as gpulab")
    engine = os.environ.get("LAB_ENGINE") or next((e for e in ("podman", "docker") if shutil.which(e)), "")
    if engine not in {"podman", "docker"}:
        raise LabError(f"LAB_ENGINE={engine!r}: no container engine; run `make system`, or set LAB_ENGINE to podman or docker")
    if os.geteuid() != 0 and engine == "podman":
        raise LabError("the lab needs rootful podman: run as root (sudo make …), or set LAB_ENGINE=docker with access to its socket")
    state = Path(os.environ.get("LAB_STATE", CHECKOUT / ".lab")) / name
    state.mkdir(parents=True, exist_ok=True)
    cache = Path(os.environ.get("LAB_CACHE", "/var/cache/gpufleet-lab" if os.geteuid() == 0 else Path.home() / ".cache/gpufleet-lab"))
    cache.mkdir(parents=True, exist_ok=True)
    mark = hashlib.sha256(str(state).encode()).hexdigest()[:4]
    prefix = f"{name}-{mark}" if name.startswith("gpulab") else name
    return Settings(name, prefix, engine, state, cache, os.environ.get("LAB_SUBNET"))
