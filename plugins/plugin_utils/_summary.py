# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One row a host of what a run found: the model of the fleet report and its table.

Private to the collection, pure. Input are the registered plans of a host (also of one that was stopped) and its gpu_info document.
"""

from __future__ import annotations

import typing as t
from collections import Counter

Json = t.Mapping[str, t.Any]

COLUMNS = ("host", "status", "gpus", "driver", "cuda", "power limit", "findings")


def host_summary(info: Json) -> dict[str, t.Any]:
    """The few facts of a host that a table shows; every check returns them, also one that stops the host."""
    return {
        "state": info.get("state"),
        "gpus": _gpus(info),
        "driver": _driver(info),
        "cuda": (info.get("nvml") or {}).get("cuda_driver_version"),
        "power_limit": _power_limit(info),
        "fingerprint": (info.get("fingerprint") or {}).get("sha256"),
    }


def host_row(name: str, plans: t.Mapping[str, Json], finished: bool) -> dict[str, t.Any]:
    """What the report says about one host.

    `plans`: component → the result of its last check, in the order of the run. `finished`: the host reached the end of the run.
    """
    stopped = next((component for component, plan in plans.items() if plan.get("failed")), None)
    if not plans:
        status = "not run"
    elif any(plan.get("unreachable") for plan in plans.values()):
        status = "unreachable"
    elif stopped:
        status = f"stopped at {stopped}"
    elif not finished:
        status = "failed"
    else:
        status = "blocked" if any(finding["severity"] == "block" for finding in _findings(plans)) else "ok"
    facts = [plan["host"] for plan in plans.values() if plan.get("host")]
    return {"host": name, "status": status, **(facts[-1] if facts else host_summary({})), "findings": _findings(plans)}


def summary(rows: t.Sequence[Json]) -> dict[str, int]:
    """How many hosts are in which status, and how many findings of which severity there are."""
    counts = Counter("stopped" if row["status"].startswith("stopped") else row["status"] for row in rows)
    severities = Counter(finding["severity"] for row in rows for finding in row["findings"])
    return {
        **{key: counts.get(key, 0) for key in ("ok", "blocked", "stopped", "failed", "unreachable", "not run")},
        **{key: severities.get(key, 0) for key in ("block", "warn", "info")},
    }


def table(rows: t.Sequence[Json]) -> str:
    """The rows as a text table, and each blocking finding below it."""
    cells = [list(COLUMNS)] + [
        [
            row["host"],
            row["status"],
            row["gpus"] or "-",
            row["driver"] or "-",
            row["cuda"] or "-",
            row["power_limit"] or "-",
            _counts(row["findings"]),
        ]
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    lines.insert(1, "  ".join("-" * width for width in widths))
    for row in rows:
        lines.extend(
            f"\n{row['host']}: {finding['message']}\n  fix: {finding['fix']}"
            for finding in row["findings"]
            if finding["severity"] == "block"
        )
    return "\n".join(lines)


def _findings(plans: t.Mapping[str, Json]) -> list[Json]:
    """Findings of all checks, each once."""
    unique = {(finding["id"], finding.get("subject")): finding for plan in plans.values() for finding in plan.get("findings") or []}
    return sorted(unique.values(), key=lambda finding: (("block", "warn", "info").index(finding["severity"]), finding["id"]))


def _gpus(info: Json) -> str:
    names = Counter(
        str(gpu.get("product") or f"unknown {gpu.get('pci_device_id')}").removeprefix("NVIDIA ") for gpu in info.get("gpus") or []
    )
    return " + ".join(f"{count}× {name}" for name, count in names.items())


def _driver(info: Json) -> str | None:
    driver = info.get("driver") or {}
    loaded = (driver.get("loaded") or {}).get("version")
    installed = (driver.get("library") or {}).get("version") or (driver.get("installed") or {}).get("version")
    if loaded and installed and loaded != installed:
        return f"{loaded} loaded, {installed} installed"
    return loaded or (f"{installed} not loaded" if installed else None)


def _power_limit(info: Json) -> str:
    limits = Counter(int(power["limit_mw"]) for gpu in info.get("gpus") or [] if (power := gpu.get("power") or {}).get("limit_mw"))
    return " + ".join(f"{count}× {limit / 1000:g} W" for limit, count in sorted(limits.items(), reverse=True))


def _counts(findings: t.Sequence[Json]) -> str:
    counts = Counter(finding["severity"] for finding in findings)
    return ", ".join(f"{counts[severity]} {severity}" for severity in ("block", "warn", "info") if counts[severity]) or "none"
