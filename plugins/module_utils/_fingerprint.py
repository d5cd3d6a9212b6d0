# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stable identity of what is there, for drift. Pure; private to the collection.

Nothing in it moves by itself: no readings, no counters, no state of a service, and no PCIe speed, which follows the load.
"""

from __future__ import annotations

import hashlib
import json
import typing as t

Facts = t.Mapping[str, t.Any]


def fingerprint(gpus: t.Sequence[Facts], driver: Facts) -> dict[str, t.Any]:
    """The part `fingerprint` of gpu_info."""
    loaded, library, installed = (driver[key] or {} for key in ("loaded", "library", "installed"))
    content = {
        "gpus": sorted(str([gpu["pci_device_id"], gpu["product"], _part(gpu, "memory_bytes", "total"), gpu["vbios"]]) for gpu in gpus),
        "order": [[gpu["pci_address"], gpu["index"], gpu["uuid"]] for gpu in gpus],
        "uuids": sorted(str(gpu["uuid"]) for gpu in gpus),
        "links": [
            [gpu["pci_address"], *_part(gpu, "pcie", "width", "max_width"), *_part(gpu, "nvlink", "links", "active", "version")]
            for gpu in gpus
        ],
        "limits": [[gpu["uuid"], *_part(gpu, "power", "limit_mw", "default_limit_mw", "min_limit_mw", "max_limit_mw")] for gpu in gpus],
        "modes": [
            [
                gpu["uuid"],
                gpu["persistence"],
                gpu["compute_mode"],
                *_part(gpu, "ecc", "current", "pending"),
                *_part(gpu, "mig", "current", "pending"),
                [device["uuid"] for device in (gpu["mig"] or {}).get("devices", ())],
            ]
            for gpu in gpus
        ],
        "driver": [
            loaded.get("version"),
            loaded.get("kernel_modules"),
            library.get("version"),
            installed.get("version"),
            installed.get("module_version"),
        ],
        "parameters": loaded.get("parameters"),
    }
    parts = {name: _hash(value) for name, value in content.items()}
    return {"sha256": _hash(parts), "parts": parts}


def _part(gpu: Facts, part: str, *keys: str) -> list[t.Any]:
    return [(gpu[part] or {}).get(key) for key in keys]


def _hash(value: t.Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
