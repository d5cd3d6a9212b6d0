#!/usr/bin/env python3
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpu_info costs: the module against an empty one on this host, and its NVML work on simulated GPUs.

CPU time and the least of several runs, since other work on the machine distorts wall time and averages. It slows both modules
alike, so the goal is their ratio: 60 ms beyond the 124 ms that ping takes on a quiet machine. Real GPUs: tests/gpu/measure.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SIMULATOR = ROOT / "roles/simulated_gpu/files"
VERSION = "580.159.04"
PYTHON = "/usr/bin/python3"
RUNS = 15
GOAL_RATIO = 1.48
GOAL_NVML_MS = 25


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        figures = [*_module_cost(folder), *_simulated(folder)]
    for figure in figures:
        print(json.dumps({key: figure[key] for key in ("figure", "value", "unit", "goal", "how")}))
    missed = [figure["figure"] for figure in figures if figure["limit"] and figure["value"] > figure["limit"]]
    for name in missed:
        print(f"goal missed: {name}", file=sys.stderr)
    return 1 if missed else 0


def _figure(name: str, value: float, limit: float | None, how: str, unit: str = "ms") -> dict[str, Any]:
    goal = None if limit is None else f"<= {limit:g}"
    return {"figure": name, "value": round(value, 2), "unit": unit, "goal": goal, "how": how, "limit": limit}


def _module_cost(folder: Path) -> list[dict[str, Any]]:
    """CPU of the module as it runs on a host, beyond ansible.builtin.ping: both as AnsiballZ files, alternately."""
    files = [_ansiballz(folder, module) for module in ("ansible.builtin.ping", "gpufleet.inference.gpu_info")]
    spent: list[list[float]] = [[], []]
    for _run in range(RUNS):
        for file, seconds in zip(files, spent, strict=True):
            seconds.append(_cpu([PYTHON, str(file)]))
    base, ours = (min(seconds) * 1000 for seconds in spent)
    how = f"CPU of gpu_info ({ours:.0f} ms) minus that of ping ({base:.0f} ms) on this host, {PYTHON}, least of {RUNS} each"
    return [
        _figure("gpu_info_module_cpu_ms", ours - base, None, how),
        _figure("gpu_info_module_cpu_ratio", ours / base, GOAL_RATIO, "CPU of gpu_info over that of ping", "x"),
    ]


def _ansiballz(folder: Path, module: str) -> Path:
    """The file that Ansible sends to a host."""
    remote = folder / module
    collections = folder / "collections/ansible_collections/gpufleet"
    collections.mkdir(parents=True, exist_ok=True)
    if not (collections / "inference").exists():
        (collections / "inference").symlink_to(ROOT)
    env = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
        "ANSIBLE_KEEP_REMOTE_FILES": "1",
        "ANSIBLE_REMOTE_TMP": str(remote),
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_PYTHON_INTERPRETER": PYTHON,
    }
    argv = [sys.executable, "-m", "ansible", "adhoc", "localhost", "-m", module]
    subprocess.run(argv, env=env, check=True, capture_output=True, timeout=120)
    return next(remote.rglob("AnsiballZ_*.py"))


def _cpu(argv: list[str]) -> float:
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _pid, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise SystemExit(f"{argv[-1]} failed")
    return usage.ru_utime + usage.ru_stime


def _simulated(folder: Path) -> list[dict[str, Any]]:
    """Init and query in the module's NVML child; the fastest run, as the rest is the machine's other work."""
    sys.path.insert(0, str(ROOT))
    import conftest  # noqa: F401 - makes the collection importable
    from ansible_collections.gpufleet.inference.plugins.module_utils import _gpu_query, _nvml

    subprocess.run([str(SIMULATOR / "build.sh"), str(folder)], check=True, capture_output=True, timeout=300)
    figures = []
    for profile, gpus in (("h200x2", 2), ("h100-sxm", 8)):
        root = folder / profile
        library = _machine(root, profile, folder / "libnvidia-ml.so")
        os.environ["SIMULATED_GPU_ROOT"] = str(root)
        options = _nvml.Options(library=str(library), run_dir=str(root / "run"))
        work = []
        for _run in range(RUNS):
            outcome = _nvml.run_bounded(_gpu_query.query, {}, options)
            if outcome.state != "ok" or len(outcome.data["gpus"]) != gpus:
                raise SystemExit(f"{profile}: {outcome.state}, {outcome.reason}")
            work.append(outcome.timings_ms["init"] + outcome.timings_ms["query"])
        how = f"NVML init and query of {gpus} simulated GPUs, fastest of {RUNS}: the cost of this side of the library"
        figures.append(_figure(f"gpu_info_nvml_simulated_{gpus}_ms", min(work), GOAL_NVML_MS, how))
    return figures


def _machine(root: Path, profile: str, library: Path) -> Path:
    (root / "lib").mkdir(parents=True)
    shutil.copy(library, root / f"lib/libnvidia-ml.so.{VERSION}")
    (root / "lib/libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{VERSION}")
    env = {**os.environ, "SIMULATED_GPU_ROOT": str(root), "SIMULATED_GPU_LIB": str(SIMULATOR / "lib")}
    for argv in (["profile", str(SIMULATOR / f"profiles/{profile}.json")], ["install-module", VERSION], ["boot"]):
        subprocess.run([str(SIMULATOR / "bin/simulated-gpu"), *argv], env=env, check=True, capture_output=True, timeout=60)
    return root / "lib/libnvidia-ml.so.1"


if __name__ == "__main__":
    raise SystemExit(main())
