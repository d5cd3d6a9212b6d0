# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One lab host, plays on it, and what they cost: counted on the host (module starts, package-manager calls, CPU) and on the controller.

Not a benchmark itself; tests/run-bench leaves out names that begin with an underscore.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LAB = os.environ.get("BENCH_LAB", "bench")
HOST = "bench1"
sys.path.insert(0, str(ROOT / "tests/lab"))

from labtool import actions  # noqa: E402

EMPTY = "- name: Facts only\n  hosts: lab\n  gather_facts: true\n"
VARIABLES = {
    "gpu_stack_hosts": "lab",
    "nvidia_driver_source": "nvidia",
    "nvidia_driver_branch": 580,
    "nvidia_driver_repository_url": "{{ lab_repository }}/compute/cuda/repos",
    "nvidia_driver_repository_key_url": "{{ lab_repository }}/compute/cuda/repos/debian12/x86_64/3bf863cc.pub",
    "cuda_toolkit_repository_url": "{{ lab_repository }}/compute/cuda/repos",
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


def measured(book: str, **variables: object) -> dict[str, float]:
    lab("actionlog", "mark")
    before = controller_cpu() + host_cpu()
    begin = time.monotonic()
    counts = play(book, **variables)
    wall = time.monotonic() - begin
    cpu = controller_cpu() + host_cpu() - before
    found = actions.parse(lab("exec", HOST, "cat", actions.LOG))
    return {
        "host_tasks": counts["hosts"][HOST]["total"],
        "modules": len(actions.of_kind(found, ["module"])),
        "packages": len(actions.of_kind(found, actions.PACKAGE_MANAGER)),
        "cpu": cpu,
        "wall": wall,
    }


def play(book: str, **variables: object) -> dict[str, Any]:
    counts = ROOT / ".build/bench/host_tasks.json"
    env = {
        **os.environ,
        "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/lab/callback_plugins"),
        "ANSIBLE_CALLBACKS_ENABLED": "host_tasks",
        "HOST_TASKS_FILE": str(counts),
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    command = [
        str(ROOT / ".venv/bin/ansible-playbook"),
        "-i",
        str(ROOT / f".lab/{LAB}/inventory.yml"),
        "-e",
        json.dumps({**VARIABLES, **variables}),
        book,
    ]
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
