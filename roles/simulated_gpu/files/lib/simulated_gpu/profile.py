# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machine profiles: JSON as people write it -> the flat key=value file that the library reads.

A profile names models (profiles/models/NAME.json, which may extend each other) and how many of each, where they sit, and keys that differ.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import state

Keys = dict[str, Any]
DEFAULT_ADDRESSES = [
    "0000:1b:00.0",
    "0000:43:00.0",
    "0000:52:00.0",
    "0000:61:00.0",
    "0000:9d:00.0",
    "0000:c3:00.0",
    "0000:d1:00.0",
    "0000:df:00.0",
]
KNOWN = {"about", "driver", "open_modules", "gpus", "addresses", "numa_nodes", "module_ids", "keys", "each", "system", "pci", "models"}


class ProfileError(ValueError):
    """A profile that can't be used; the message names the place."""


def names(folder: Path) -> list[str]:
    return sorted(p.stem for p in folder.glob("*.json"))


def load(name: str, folder: Path) -> dict[str, Any]:
    """A profile by name or by path."""
    path = Path(name) if "/" in name else folder / f"{name}.json"
    try:
        return checked(json.loads(path.read_text(encoding="utf-8")), str(path))
    except FileNotFoundError:
        raise ProfileError(f"no profile {name!r}; there are: {', '.join(names(folder))}") from None
    except json.JSONDecodeError as exc:
        raise ProfileError(f"profile {path}: not JSON: {exc}") from None


def checked(data: Any, where: str) -> dict[str, Any]:
    if not isinstance(data, dict) or not isinstance(data.get("gpus"), list) or not data["gpus"]:
        raise ProfileError(f"profile {where}: needs a list 'gpus' of {{model, count}}")
    unknown = sorted(set(data) - KNOWN)
    if unknown:
        raise ProfileError(f"profile {where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(KNOWN))}")
    return data


def model_keys(name: str, folder: Path, own: Mapping[str, Any] | None = None) -> Keys:
    """Keys of a model with those it extends; `own` holds models that a profile brings itself."""
    data = (own or {}).get(name)
    if data is None:
        path = folder / "models" / f"{name}.json"
        if not path.is_file():
            raise ProfileError(f"no model {name!r}; there are: {', '.join(names(folder / 'models'))}")
        data = json.loads(path.read_text(encoding="utf-8"))
    keys = model_keys(data["extends"], folder, own) if data.get("extends") else {}
    keys.update(data.get("keys", {}))
    return keys


def _identity(seed: str, index: int) -> Keys:
    """UUID and serial number that are the same for the same host and slot, and differ between hosts."""
    digest = hashlib.sha256(f"{seed}/{index}".encode()).hexdigest()
    return {
        "uuid": f"GPU-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}",
        "serial": f"16{int(digest[32:44], 16) % 10**11:011d}",
        "pdi": int(digest[44:60], 16),
    }


def _nth(values: list[Any], index: int, otherwise: Any) -> Any:
    return values[index] if index < len(values) else otherwise


def slots(profile: Mapping[str, Any], count: int | None) -> list[str]:
    """The model of each slot; a count beyond the profile repeats its last model."""
    models = [str(item["model"]) for item in profile["gpus"] for _unused in range(int(item.get("count", 1)))]
    if count is None:
        return models
    return (models + models[-1:] * count)[:count]


def gpu_keys(profile: Mapping[str, Any], index: int, model: str, folder: Path, seed: str) -> Keys:
    addresses = list(profile.get("addresses", []))
    keys = model_keys(model, folder, profile.get("models"))
    identity = _identity(seed, index)
    if keys.get("serial", "") is None:
        identity.pop("serial")
    keys = {**keys, **identity}
    keys.update(
        {
            "minor": index,
            "board.id": (index + 1) * 256,
            "module_id": _nth(profile.get("module_ids", []), index, index + 1),
            "pci.address": _nth(addresses, index, _nth(DEFAULT_ADDRESSES, index, f"0000:{0xE0 + index:02x}:00.0")),
            "pci.numa_node": _nth(profile.get("numa_nodes", []), index, -1),
        }
    )
    keys.update(profile.get("keys", {}))
    keys.update(_nth(profile.get("each", []), index, {}))
    return {key: value for key, value in keys.items() if value is not None}


def flatten(profile: Mapping[str, Any], folder: Path, count: int | None = None, seed: str = "simulated") -> str:
    """The text of profile.conf. Keys equal on all GPUs are written once, as gpu.*.KEY."""
    gpus = [gpu_keys(profile, index, model, folder, seed) for index, model in enumerate(slots(profile, count))]
    common = {key: value for key, value in gpus[0].items() if len(gpus) > 1 and all(gpu.get(key) == value for gpu in gpus)} if gpus else {}
    lines = [f"gpus={len(gpus)}", f"driver={profile.get('driver', '')}", f"open_modules={int(bool(profile.get('open_modules', True)))}"]
    lines += [f"{key}={value}" for key, value in sorted(profile.get("system", {}).items())]
    lines += [f"pci.{n}={json.dumps(device, sort_keys=True)}" for n, device in enumerate(profile.get("pci", []))]
    lines += [f"gpu.*.{key}={value}" for key, value in sorted(common.items())]
    for index, gpu in enumerate(gpus):
        lines += [f"gpu.{index}.{key}={value}" for key, value in sorted(gpu.items()) if key not in common]
    return "".join(line + "\n" for line in lines)


class Machine:
    """The profile in force, as the CLI needs it."""

    def __init__(self, path: Path) -> None:
        self.values = state.read(path)
        self.count = int(self.values.get("gpus", 0))

    def get(self, slot: int, key: str, otherwise: str = "") -> str:
        return self.values.get(f"gpu.{slot}.{key}", self.values.get(f"gpu.*.{key}", otherwise))

    def uuid(self, slot: int) -> str:
        return self.get(slot, "uuid")

    def pci_devices(self) -> list[dict[str, str]]:
        return [json.loads(value) for key, value in sorted(self.values.items()) if key.startswith("pci.")]

    def find(self, selector: str) -> list[int]:
        """Slots by number, UUID (or its start), PCI address, or 'all'."""
        if selector == "all":
            return list(range(self.count))
        wanted = selector.lower()
        hits = [
            slot
            for slot in range(self.count)
            if wanted == str(slot) or self.uuid(slot).lower().startswith(wanted) or _same_address(self.get(slot, "pci.address"), wanted)
        ]
        if not hits:
            raise ProfileError(
                f"no GPU {selector!r}; there are: "
                + ", ".join(f"{n} {self.uuid(n)} {self.get(n, 'pci.address')}" for n in range(self.count))
            )
        return hits


def _same_address(address: str, wanted: str) -> bool:
    domain, _sep, rest = address.partition(":")
    return wanted in (address, rest, f"0000{domain}:{rest}")
