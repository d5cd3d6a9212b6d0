#!/usr/bin/env python3
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a real vLLM takes of a real GPU, for models of which only the config.json is needed: one JSON line per run.

    python3 tests/gpu/engine_memory.py --out recorded.jsonl [--seconds N] [--tokenizer FOLDER] [RUN…]

Runs are those of tests/gpu/engine_memory_runs.yml, models those of tests/unit/engine_plan/models.yml; weights are vLLM's dummies. The
engine is started in this process's forks as `vllm serve` would start it (same defaults), without the HTTP server, so that the 30 s of
Python imports are paid once. Needs vLLM, its torch, PyYAML and nvidia-ml-py; no network. GPU settings are not touched.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MODELS = HERE.parent / "unit" / "engine_plan" / "models.yml"
DEFAULTS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",  # its kernels are compiled at the first start, by nvcc
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=3600, help="start no run after this time")
    parser.add_argument("--tokenizer", type=Path, help="a folder whose files every model gets")
    parser.add_argument("--each", type=float, default=150, help="seconds that one run may take")
    parser.add_argument("--file", type=Path, default=HERE / "engine_memory_runs.yml")
    parser.add_argument("--kv-only", action="store_true", help="stop once the KV cache is laid out: no graphs, no warm-up")
    parser.add_argument("--log", type=Path, default=Path("engine_memory.log"))
    options = parser.parse_args()
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    import yaml

    runs = yaml.safe_load(options.file.read_text())
    models = yaml.safe_load(MODELS.read_text())
    wanted = [run for run in runs if not options.runs or run["name"] in options.runs]
    started = time.monotonic()
    _preload()
    print(f"imports: {time.monotonic() - started:.1f} s", flush=True)
    failed = 0
    for run in wanted:
        if time.monotonic() - started > options.seconds:
            print(f"no time left for {run['name']}", flush=True)
            failed += 1
            continue
        failed += not _in_fork(run, models[run["model"]]["config"] if run.get("model") else {}, options)
    return 1 if failed else 0


def _preload() -> None:
    """Import what every engine needs, without touching CUDA: forks may still do that."""
    import torch
    import transformers  # noqa: F401
    import vllm.model_executor.models.llama
    import vllm.v1.engine.core
    import vllm.v1.worker.gpu_model_runner

    if torch.version.cuda:
        import vllm.v1.worker.gpu.model_runner
        import vllm.v1.worker.gpu_worker  # noqa: F401

    assert not torch.cuda.is_initialized()


def _in_fork(run: dict[str, Any], config: dict[str, Any], options: argparse.Namespace) -> bool:
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        code = 1
        try:
            log = os.open(options.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(log, 1)
            os.dup2(log, 2)
            print(f"##### {run['name']}", flush=True)
            record = measure(run, config, options)
            record["seconds"] = round(time.monotonic() - began, 1)
            with options.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    while time.monotonic() - began < options.each:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        time.sleep(0.2)
    else:
        os.killpg(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
    print(f"{run['name']}: {'ok' if status == 0 else f'FAILED ({status})'} {time.monotonic() - began:.1f} s", flush=True)
    return status == 0


class Stop(Exception):
    """Enough was seen."""


def measure(run: dict[str, Any], config: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Start the engine core, read what it found out, and what NVML says once it is ready."""
    import torch
    import vllm
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.models import registry
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.core import kv_cache_utils
    from vllm.v1.engine import core
    from vllm.v1.executor.abstract import Executor

    registry._run_in_subprocess = lambda function: function()  # one import less for each new architecture
    seen: dict[str, Any] = {}
    _watch(seen, core, options.kv_only)
    folder = Path(tempfile.mkdtemp())
    model = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2, **config, **run.get("config", {})}
    (folder / "config.json").write_text(json.dumps(model))
    for file in options.tokenizer.iterdir() if options.tokenizer else ():
        shutil.copy(file, folder)
    arguments = {"max_model_len": None, "skip_tokenizer_init": options.tokenizer is None, **run.get("args", {})}
    engine_args = EngineArgs(model=str(folder), load_format="dummy", enable_flashinfer_autotune=False, **arguments)
    settings = engine_args.create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER)
    with contextlib.suppress(Stop):
        core.EngineCore(settings, Executor.get_class(settings), log_stats=False)
    worker, kv = seen["worker"], seen["kv"]
    tokens, concurrency = kv_cache_utils.get_kv_cache_capacity(settings, kv)
    return {
        "run": run["name"],
        "model": run.get("model"),
        "config": run.get("config", {}),
        "args": run.get("args", {}),
        "engine": "vllm",
        "version": vllm.__version__,
        "torch": torch.__version__,
        "runner": "v2" if settings.use_v2_model_runner else "v1",
        "gpu": _gpu(),
        "cuda_total": worker.init_snapshot.total_memory if torch.cuda.is_available() else None,
        "free_at_start": worker.init_snapshot.free_memory if torch.cuda.is_available() else None,
        "requested": getattr(worker, "requested_memory", None),
        "weights": getattr(worker.model_runner, "model_memory_usage", None),
        "activation": getattr(worker, "peak_activation_memory", None),
        "forward": seen.get("forward"),
        "non_torch": getattr(worker, "non_torch_memory", None),
        "graph_estimate": getattr(worker, "cudagraph_memory_estimate", None),
        "graphs": seen.get("graphs"),
        "kv_bytes": getattr(worker, "available_kv_cache_memory_bytes", None),
        "max_model_len": settings.model_config.max_model_len,
        "max_num_seqs": settings.scheduler_config.max_num_seqs,
        "max_num_batched_tokens": settings.scheduler_config.max_num_batched_tokens,
        "in_flight_tokens": settings.max_in_flight_tokens,
        "blocks": kv.num_blocks,
        "groups": [_group(group) for group in kv.kv_cache_groups],
        "kv_tokens": tokens,
        "concurrency": round(concurrency, 4),
        "nvml_used_ready": None if options.kv_only else seen.get("nvml_used"),
    }


def _watch(seen: dict[str, Any], core: Any, kv_only: bool) -> None:
    """Note the KV cache layout, the graphs' bytes and the peak before sampling as the engine passes them, then stop."""
    import torch
    from vllm.v1.executor.uniproc_executor import UniProcExecutor
    from vllm.v1.worker import gpu_model_runner

    layout, start = core.get_kv_cache_configs, UniProcExecutor._init_executor

    def started(self: Any) -> None:
        start(self)
        seen["worker"] = getattr(self.driver_worker, "worker", self.driver_worker)

    def layouts(*args: Any, **kwargs: Any) -> Any:
        answer = layout(*args, **kwargs)
        seen["kv"] = answer[0]
        if kv_only or not torch.cuda.is_available():
            raise Stop
        return answer

    core.get_kv_cache_configs, UniProcExecutor._init_executor = layouts, started
    if not torch.cuda.is_available():
        return
    from vllm.v1.worker.gpu import model_runner

    for runner in (gpu_model_runner.GPUModelRunner, model_runner.GPUModelRunner):
        capture, sample = runner.capture_model, runner._dummy_sampler_run

        def captured(self: Any, capture: Any = capture) -> Any:
            seen["graphs"] = capture(self)
            seen["nvml_used"] = _nvml_used()
            raise Stop

        def sampled(self: Any, *args: Any, sample: Any = sample, **kwargs: Any) -> Any:
            now, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
            seen.setdefault("forward", {"allocated": now, "peak": peak})
            return sample(self, *args, **kwargs)

        runner.capture_model, runner._dummy_sampler_run = captured, sampled


def _group(group: Any) -> dict[str, Any]:
    spec = group.kv_cache_spec
    return {"kind": type(spec).__name__, "layers": len(group.layer_names), "block_size": spec.block_size, "page": spec.page_size_bytes}


def _gpu() -> dict[str, Any]:
    import torch

    if not torch.cuda.is_available():
        return {}
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    name = pynvml.nvmlDeviceGetName(handle)
    return {"name": name if isinstance(name, str) else name.decode(), "nvml_total": memory.total, "reserved": memory.reserved}


def _nvml_used() -> int:
    import pynvml

    pynvml.nvmlInit()
    memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0), version=pynvml.nvmlMemory_v2)
    return int(memory.used)


if __name__ == "__main__":
    sys.exit(main())
