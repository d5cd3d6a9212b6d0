#!/usr/bin/env python3
"""No-op cost of roles nvidia_driver and cuda_toolkit against an empty play, side by side; what a branch upgrade interrupts.

Needs the lab (root).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from _lab_host import EMPTY, HOST, PREPARE, ROOT, lab, measured, play
from labtool import actions

RUNS = 3
ROLES = {"nvidia_driver": {}, "cuda_toolkit": {"cuda_toolkit_versions": ["12.8.1"]}}
RUNNING = {"nvidia_driver_branch": 595, "nvidia_driver_reboot": "delegate"}


def main() -> int:
    work = ROOT / ".build/bench"
    work.mkdir(parents=True, exist_ok=True)
    (work / "empty.yml").write_text(EMPTY)
    (work / "prepare.yml").write_text(PREPARE)
    books = {role: book(work, role) for role in ROLES}
    lab("up", "--fresh", "--only", f"{HOST}:h200x2")
    try:
        play(str(work / "prepare.yml"))
        play(books["nvidia_driver"], nvidia_driver_branch=580)
        upgrade = upgraded(books["nvidia_driver"])
        play(books["cuda_toolkit"], **ROLES["cuda_toolkit"])
        runs = {role: [measured(books[role], **RUNNING, **given) for _run in range(RUNS)] for role, given in ROLES.items()}
        empty = [measured(str(work / "empty.yml")) for _run in range(RUNS)]
    finally:
        lab("clean", "--keep-images")
    for figure in [*figures(runs, empty), *upgrade]:
        print(json.dumps(figure))
    return 0


def book(work: Path, role: str) -> str:
    path = work / f"{role}.yml"
    path.write_text(f"- name: One role\n  hosts: lab\n  gather_facts: false\n  roles: [gpufleet.inference.{role}]\n")
    return str(path)


def upgraded(path: str) -> list[dict[str, Any]]:
    """580 → 595 on a driver that runs, the reboot left to others: package transactions, and services that stopped or started."""
    lab("exec", HOST, "sh", "-c", ": > /var/log/apt/history.log")
    lab("actionlog", "mark")
    play(path, nvidia_driver_branch=595, nvidia_driver_reboot="delegate")
    found = actions.parse(lab("exec", HOST, "cat", actions.LOG))
    transactions = lab("exec", HOST, "sh", "-c", "grep -c Start-Date /var/log/apt/history.log").strip()
    changes = [action for action in actions.of_kind(found, ["service-change"]) if "nvidia" in " ".join(action.words)]
    how = "upgrade from branch 580 to 595 on one simulated 2×H200 host"
    return [
        row("branch_upgrade_package_transactions", int(transactions), "transactions", "1", how + ", by apt's own log"),
        row("branch_upgrade_service_interruptions", len(changes), "service changes", "0 before the reboot", how + ", by the action log"),
    ]


def figures(runs: dict[str, list[dict[str, float]]], empty: list[dict[str, float]]) -> list[dict[str, Any]]:
    """The smallest of each run: counts are the same every time, time only grows by noise."""
    base = {key: min(run[key] for run in empty) for key in empty[0]}
    rows = [row("empty_play_wall", base["wall"], "s", None, "an empty play that gathers facts, same host, same session")]
    for role, measured_runs in runs.items():
        ours = {key: min(run[key] for run in measured_runs) for key in measured_runs[0]}
        how = f"second run of role {role} alone"
        rows += [
            row(f"noop_{role}_host_tasks", ours["host_tasks"], "host-tasks", "<= 5", how),
            row(f"noop_{role}_modules", ours["modules"], "module executions", "<= 3", how),
            row(f"noop_{role}_package_manager_calls", ours["packages"], "calls", "0", how),
            row(f"noop_{role}_wall", ours["wall"], "s", None, how),
            row(f"noop_{role}_vs_empty_play", ours["wall"] / base["wall"], "x", None, f"wall of {how} and of the empty play"),
        ]
    return rows


def row(figure: str, value: float, unit: str, goal: str | None, how: str) -> dict[str, Any]:
    return {"figure": figure, "value": round(value, 3), "unit": unit, "goal": goal, "how": how}


if __name__ == "__main__":
    raise SystemExit(main())
