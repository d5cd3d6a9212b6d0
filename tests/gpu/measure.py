#!/usr/bin/env python3
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_info beside nvidia-smi on a machine with real GPUs: one JSON line per figure.

    python3 tests/gpu/measure.py [--runs N] [--out FOLDER]

Needs ansible-core and nvidia-ml-py for the Python that runs it, nothing else; works without a network. The collection is taken from
this checkout. Both sides are measured alternately, so that clocks and driver are equally warm. Exits 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MODULE = "gpufleet.inference.gpu_info"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        environment = _environment(Path(scratch))
        smi, infos, walls = [], [], []
        for _run in range(options.runs):
            smi.append(_timed(["nvidia-smi", "-q", "-x"])[0])
            seconds, text = _timed([sys.executable, "-m", "ansible", "adhoc", "localhost", "-m", MODULE], environment)
            walls.append(seconds)
            infos.append(json.loads(text[text.index("{") :])["gpu_info"])
        profile = _profile(Path(scratch))
    figures = _figures(smi, infos, walls)
    for figure in figures:
        print(json.dumps(figure))
    print(json.dumps({"profile_us": profile}))
    if options.out:
        (options.out / "gpu_info.json").write_text(json.dumps(infos[-1], indent=1))
        (options.out / "figures.json").write_text(json.dumps({"figures": figures, "profile_us": profile}, indent=1))
    missed = [figure["figure"] for figure in figures if figure.get("met") is False]
    problems = [f"state {info['state']}: {info['reason']}" for info in infos if info["state"] != "ok"]
    for line in [*problems, *(f"goal missed: {name}" for name in missed)]:
        print(line, file=sys.stderr)
    return 1 if missed or problems else 0


def _environment(scratch: Path) -> dict[str, str]:
    """This checkout as an installed collection."""
    namespace = scratch / "ansible_collections" / "gpufleet"
    namespace.mkdir(parents=True)
    (namespace / "inference").symlink_to(ROOT)
    return {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(scratch),
        "ANSIBLE_LOCAL_TEMP": str(scratch / "local"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "0",
        "LC_ALL": "C.UTF-8",
    }


def _timed(argv: list[str], environment: dict[str, str] | None = None) -> tuple[float, str]:
    begin = time.perf_counter()
    result = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120)
    seconds = time.perf_counter() - begin
    if result.returncode:
        raise SystemExit(f"{' '.join(argv)} failed:\n{result.stdout[-3000:]}{result.stderr[-3000:]}")
    return seconds, result.stdout


def _profile(scratch: Path) -> dict[str, Any]:
    """Microseconds of each NVML call, summed over the GPUs; the same work as the module's, in this process."""
    sys.path.insert(0, str(ROOT))
    import conftest  # noqa: F401 - makes the collection importable
    from ansible_collections.gpufleet.inference.plugins.module_utils import _gpu_query, _nvml

    def work(session: Any, request: dict[str, Any]) -> dict[str, float]:
        spent: dict[str, float] = {}
        plain = session.call

        def call(name: str, *args: Any) -> Any:
            begin = time.perf_counter()
            try:
                return plain(name, *args)
            finally:
                spent[name] = spent.get(name, 0.0) + (time.perf_counter() - begin) * 1e6

        session.call = call
        _gpu_query.query(session, request)
        return {name: round(spent[name]) for name in sorted(spent, key=lambda name: -spent[name])}

    def threads(session: Any, _request: dict[str, Any]) -> float:
        """All GPUs at the same time: whether the driver lets them."""
        count = session.call("nvmlDeviceGetCount")
        begin = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda index: _gpu_query.query_gpu(session, index), range(count)))
        return round((time.perf_counter() - begin) * 1e6)

    options = _nvml.Options(run_dir=str(scratch))
    out = {}
    for name, outcome in (
        ("calls", _nvml.run_bounded(work, {}, options)),
        ("calls_with_details", _nvml.run_bounded(work, {"details": True}, options)),
        ("threads", _nvml.run_bounded(threads, {}, options)),
    ):
        out[name] = outcome.data or f"{outcome.state}: {outcome.reason}"
    return out


def _figures(smi: list[float], infos: list[dict[str, Any]], walls: list[float]) -> list[dict[str, Any]]:
    gpus = len(infos[-1]["gpus"])
    timings = [info["nvml"]["timings_ms"] for info in infos]
    work = [one["init"] + one["query"] for one in timings]
    nvml = statistics.median(work)
    beside = statistics.median(smi) * 1000
    goal = 12.5 * max(2, gpus)

    def figure(name: str, value: float, unit: str, goal: str | None, how: str, met: bool | None = None) -> dict[str, Any]:
        return {"figure": name, "value": round(value, 3), "unit": unit, "goal": goal, "how": how, "met": met}

    where = (
        f"{gpus} x {infos[-1]['gpus'][0]['product']}, driver {infos[-1]['nvml']['driver_version']}, median of {len(infos)}"
        if gpus
        else "no GPU"
    )
    return [
        figure("gpu_info_nvml_ms", nvml, "ms", f"<= {goal:g}", f"init and query, {where}", nvml <= goal),
        figure("gpu_info_nvml_min_ms", min(work), "ms", None, "the fastest run"),
        figure("gpu_info_nvml_init_ms", statistics.median(one["init"] for one in timings), "ms", None, where),
        figure("gpu_info_nvml_query_ms", statistics.median(one["query"] for one in timings), "ms", None, where),
        figure("gpu_info_pynvml_import_ms", statistics.median(one["import"] for one in timings), "ms", None, where),
        figure("gpu_info_collect_ms", statistics.median(info["duration_ms"] for info in infos), "ms", None, "all of the document"),
        figure("gpu_info_ansible_ms", statistics.median(walls) * 1000, "ms", None, "ansible localhost -m, start of Ansible included"),
        figure("nvidia_smi_q_x_ms", beside, "ms", None, "nvidia-smi -q -x, run alternately"),
        figure("nvidia_smi_vs_gpu_info", beside / nvml, "x", ">= 10", "nvidia-smi -q -x over NVML work of gpu_info", beside / nvml >= 10),
    ]


if __name__ == "__main__":
    if not shutil.which("nvidia-smi"):
        raise SystemExit("no nvidia-smi here: this needs a machine with an NVIDIA driver")
    raise SystemExit(main())
