# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's GPUs mean for a gateway: one word. Private to the collection.

Only operational words and weight (HAProxy's configuration manual, agent-check): maintenance alone says drain, maint or ready, so that no
health signal ever undoes it. A result that is too old says nothing, and HAProxy leaves the server as it is.
"""

from __future__ import annotations

import typing as t

MAX_AGE = 60.0
"""Seconds for which a result counts."""
GOOD, DEGRADED, FAILED = "ok", "degraded", "failed"
XIDS_FAILED = {79: "fell off the bus", 119: "its system processor does not answer", 120: "its system processor failed"}
XIDS_DEGRADED = {
    48: "an uncorrectable memory error",
    63: "a memory row waits to be remapped",
    64: "a memory row cannot be remapped",
    95: "an uncontained memory error",
}
"""Xid numbers after which a GPU needs a person or a reset (NVIDIA's Xid catalogue). Those of an application's own making are not here."""

Record = t.Mapping[str, t.Any]


def judge(state: str, reason: str, gpus: t.Sequence[Record], xids: t.Mapping[str, t.Sequence[int]]) -> tuple[str, str]:
    """State and why. `state`, `reason`: of the NVML session; `xids`: PCI address → numbers of late."""
    if state != "ok":
        return FAILED, f"{state} {reason}".strip()
    if not gpus:
        return FAILED, "no GPU answers"
    worst = (GOOD, "")
    for gpu in gpus:
        name = f"gpu {gpu['index']}"
        late = xids.get(str(gpu.get("pci_address")), ())
        if gpu["state"] != "ok":
            return FAILED, f"{name} {gpu['state']}"
        for xid in late:
            if xid in XIDS_FAILED:
                return FAILED, f"{name} xid {xid} {XIDS_FAILED[xid]}"
            if xid in XIDS_DEGRADED:
                worst = (DEGRADED, f"{name} xid {xid} {XIDS_DEGRADED[xid]}")
        if gpu.get("row_remap_failure"):
            worst = (DEGRADED, f"{name} has no spare memory rows")
        elif gpu.get("ecc_uncorrected"):
            worst = (DEGRADED, f"{name} has {gpu['ecc_uncorrected']} uncorrected memory errors since the driver was loaded")
    return worst


def fresh(record: t.Optional[Record], now: float, max_age: float = MAX_AGE) -> bool:
    """Whether a result still counts: neither old nor of a clock that went back."""
    at = (record or {}).get("at")
    return isinstance(at, (int, float)) and -1.0 <= now - at <= max_age


def word(record: t.Optional[Record], now: float, max_age: float = MAX_AGE) -> str:
    """What the agent says, without its line end; empty where it has nothing to say."""
    if record is None or not fresh(record, now, max_age):
        return ""
    if record.get("state") == GOOD:
        return "up 100%"
    if record.get("state") == DEGRADED:
        return "0%"
    # The reason is for the gateway's log; one line, and no word of it is a command.
    reason = " ".join("".join(c if c.isalnum() or c in "._-" else " " for c in str(record.get("reason") or "unknown")).split())
    return f"down #{reason[:80]}"


def probe(record: t.Optional[Record], now: float, max_age: float = MAX_AGE) -> tuple[int, dict[str, t.Any]]:
    """HTTP status and document of /health: 200 only for a fresh result without a failure."""
    if record is None or not fresh(record, now, max_age):
        return 503, {"state": "unknown", "reason": "no result of late", "gpus": []}
    shown = {name: record.get(name) for name in ("state", "reason", "at", "gpus")}
    return (503 if record.get("state") == FAILED else 200), shown
