"""A GPU as facts and NVML reading show it."""

from __future__ import annotations

import typing as t


def device(number: int = 0, product: str = "NVIDIA H200", **power: t.Any) -> dict[str, t.Any]:
    limits = {"supported": True, "limit_mw": 700000, "default_limit_mw": 700000, "min_limit_mw": 200000, "max_limit_mw": 700000}
    return {
        "index": number,
        "uuid": f"GPU-0000000{number}-0000-0000-0000-000000000000",
        "pci_address": f"0000:0{number}:00.0",
        "product": product,
        "state": "ok",
        "power": {**limits, **power},
        "persistence": True,
        "compute_mode": "default",
        "ecc": {"current": True, "pending": True},
        "clocks_mhz": {"max_graphics": 1980, "max_memory": 3201},
    }
