#!/usr/bin/env python3
"""What a run with nothing to do costs on one host: site against an empty play that gathers facts, side by side.

Counted on the host (module starts, package-manager calls, CPU of its cgroup) and on the controller (host-tasks, CPU). Needs the lab (root).
"""

from __future__ import annotations

import json
from typing import Any

from _lab_host import EMPTY, HOST, PREPARE, ROOT, lab, measured, play

RUNS = 3


def main() -> int:
    work = ROOT / ".build/bench"
    work.mkdir(parents=True, exist_ok=True)
    (work / "empty.yml").write_text(EMPTY)
    (work / "prepare.yml").write_text(PREPARE)
    lab("up", f"{HOST}:h200x2")
    try:
        play(str(work / "prepare.yml"))
        play("gpufleet.inference.site")
        site = [measured("gpufleet.inference.site") for _run in range(RUNS)]
        empty = [measured(str(work / "empty.yml")) for _run in range(RUNS)]
    finally:
        lab("clean", "--keep-images")
    for figure in figures(site, empty):
        print(json.dumps(figure))
    return 0


def figures(site: list[dict[str, float]], empty: list[dict[str, float]]) -> list[dict[str, Any]]:
    """The smallest of each run: the counts are the same every time, CPU only grows by noise."""
    how = "second run of site (preflight, driver, power) on one simulated 2×H200 host"
    ours, base = ({key: min(run[key] for run in runs) for key in runs[0]} for runs in (site, empty))
    rows = [
        ("noop_site_host_tasks", ours["host_tasks"], "host-tasks", "<= 30 for the finished stack", how),
        ("noop_site_modules", ours["modules"], "module executions", "<= 12 for the finished stack", how),
        ("noop_site_package_manager_calls", ours["packages"], "calls", "0", how),
        ("noop_site_cpu", ours["cpu"], "s", None, how + ", controller and host"),
        ("empty_play_cpu", base["cpu"], "s", None, "an empty play that gathers facts, same host, same session"),
        ("noop_site_vs_empty_play", ours["cpu"] / base["cpu"], "x", None, "CPU of the two above"),
    ]
    return [{"figure": name, "value": round(value, 3), "unit": unit, "goal": goal, "how": text} for name, value, unit, goal, text in rows]


if __name__ == "__main__":
    raise SystemExit(main())
