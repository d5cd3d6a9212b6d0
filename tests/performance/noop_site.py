#!/usr/bin/env python3
"""What a run with nothing to do costs on one host: site against an empty play that gathers facts, side by side.

Counted on the host (module starts, package-manager calls, CPU of its cgroup) and on the controller (host-tasks, CPU). Needs the lab (root).
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LAB = os.environ.get("BENCH_LAB", "bench")
HOST = "bench1"
RUNS = 3
sys.path.insert(0, str(ROOT / "tests/lab"))

from labtool import actions  # noqa: E402

EMPTY = "- name: Facts only\n  hosts: lab\n  gather_facts: true\n"
VARIABLES = {
    "gpu_stack_hosts": "lab",
    "nvidia_driver_source": "nvidia",
    "nvidia_driver_branch": 580,
    "nvidia_driver_repository_url": "{{ lab_repository }}/compute/cuda/repos",
    "nvidia_driver_repository_key_url": "{{ lab_repository }}/compute/cuda/repos/debian12/x86_64/3bf863cc.pub",
    "gpu_power_limit": "90%",
    "fleet_report_dir": str(ROOT / ".build/bench-report"),
    "simulated_gpu_driver": "packaged",
}
PREPARE = """\
- name: Simulated GPUs
  hosts: lab
  gather_facts: false
  roles: [gpufleet.inference.simulated_gpu]
"""


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


def measured(book: str) -> dict[str, float]:
    lab("actionlog", "mark")
    before = controller_cpu() + host_cpu()
    counts = play(book)
    cpu = controller_cpu() + host_cpu() - before
    found = actions.parse(lab("exec", HOST, "cat", actions.LOG))
    return {
        "host_tasks": counts["hosts"][HOST]["total"],
        "modules": len(actions.of_kind(found, ["module"])),
        "packages": len(actions.of_kind(found, actions.PACKAGE_MANAGER)),
        "cpu": cpu,
    }


def play(book: str) -> dict[str, Any]:
    counts = ROOT / ".build/bench/host_tasks.json"
    env = {
        **os.environ,
        "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/lab/callback_plugins"),
        "ANSIBLE_CALLBACKS_ENABLED": "host_tasks",
        "HOST_TASKS_FILE": str(counts),
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    command = [str(ROOT / ".venv/bin/ansible-playbook"), "-i", str(ROOT / f".lab/{LAB}/inventory.yml"), "-e", json.dumps(VARIABLES), book]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise SystemExit(f"{book} failed:\n{done.stdout[-3000:]}\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(counts.read_text())
    return found


def controller_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def host_cpu() -> float:
    """Seconds that everything on the host has used since its start."""
    lines = lab("exec", HOST, "cat", "/sys/fs/cgroup/cpu.stat").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("usage_usec"))) / 1e6


def lab(*words: str) -> str:
    env = {**os.environ, "LAB_NAME": LAB}
    return subprocess.run([str(ROOT / "tests/lab/lab"), *words], env=env, capture_output=True, text=True, timeout=300, check=True).stdout


if __name__ == "__main__":
    raise SystemExit(main())
