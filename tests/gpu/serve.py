#!/usr/bin/env python3
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance on a real GPU as the role would start it: planned, rendered, started, checked, held to its plan, drained.

    python3 tests/gpu/serve.py --model FOLDER --venv FOLDER [--version 0.26.0] [--args JSON] [--out FILE]

FOLDER of --venv has bin/vllm, a real GPU build. There is no systemd here: this program does what the rendered unit says (ExecStart word
by word, Environment, LoadCredential, the stop signal). Needs PyYAML and nvidia-ml-py, root, no network. GPU settings are not touched.
Prints one JSON line a step; exits 1 when a step is not as it should be.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
import conftest  # noqa: E402, F401 - makes the collection importable
from ansible_collections.gpufleet.inference.plugins.module_utils import (  # type: ignore[import-not-found]  # noqa: E402
    _endpoint,
    _endpoint_wait,
    _gpu_info,
    _model_files,
    _nvml_args,
    _reader,
)
from ansible_collections.gpufleet.inference.plugins.plugin_utils import (  # type: ignore[import-not-found]  # noqa: E402
    _contracts,
    _engine_files,
    _engine_host,
    _engine_instance,
    _engine_job,
    _engine_lifecycle,
    _engine_plan,
    _engine_plan_check,
    _engine_plan_input,
    _engine_plan_rows,
    _engine_plan_types,
    _engine_unit,
    _matrix_load,
    _products,
)

KEY = "a-key-that-nobody-else-sees"
failures: list[str] = []


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--venv", required=True)
    parser.add_argument("--version", default="0.26.0")
    parser.add_argument("--args", type=json.loads, default={})
    parser.add_argument("--gate", type=Path, help="the gate program; without it the words before -- are left out")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    matrix = _matrix_load.load_matrix()
    facts = _products.complete(_gpu_info.collect(_reader.Reader(), _nvml_args.nvml_options(_nvml())), matrix)
    say("facts", state=facts["state"], gpus=[gpu["product"] for gpu in facts["gpus"]], good=facts["state"] == "ok")
    planned = plan(options, facts, matrix)
    unit, beside = render(options, facts, matrix, planned)
    gpu = facts["gpus"][0]
    server = Server(unit, beside, options.gate)
    before = used()
    try:
        server.start()
        serve(server, planned, gpu)
        drain(server, before)
    finally:
        server.kill()
    if options.out:
        options.out.write_text(json.dumps(steps, indent=1))
    for line in failures:
        print(f"FAILED: {line}", file=sys.stderr)
    return 1 if failures else 0


steps: list[dict[str, Any]] = []


def say(step: str, good: bool, **seen: Any) -> None:
    steps.append({"step": step, "good": good, **seen})
    print(json.dumps(steps[-1]), flush=True)
    if not good:
        failures.append(step)


def _nvml() -> dict[str, Any]:
    return {name: option.get("default") for name, option in _nvml_args.NVML_ARGS.items()}


def plan(options: argparse.Namespace, facts: dict[str, Any], matrix: Any) -> dict[str, Any]:
    shape, wrong = _engine_plan_input.model_of(_model_files.read_model(options.model), "block")
    gpus, odd = _engine_plan_input.choose_gpus(facts, [], count_used=True)
    wish = _engine_plan_types.Wish(engine="vllm", version=options.version)
    answer = _engine_plan.plan(shape, gpus, wish, _engine_plan_rows.constants_for(matrix, "vllm", options.version))
    document: dict[str, Any] = answer.to_dict()
    texts = [finding.message for finding in [*wrong, *odd, *answer.findings]]
    say("plan", answer.fits and not wrong and not odd, args=document["args"], kv_tokens=document["predicted"]["kv_tokens"], findings=texts)
    return document


def render(options: argparse.Namespace, facts: dict[str, Any], matrix: Any, planned: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """The server's unit and the files beside it, by the code that the role uses."""
    spec = {
        "name": "chat",
        "engine": "vllm",
        "version": options.version,
        "model": options.model,
        "venv": options.venv,
        "served_name": "chat",
        "port": 18000,
        "api_key": KEY,
        "args": options.args,
        "drain_seconds": 30,
    }
    instance, findings = _engine_instance.read(spec, matrix, _contracts.Context(today=datetime.date.today()))
    devices, more = _engine_host.check_host([instance], facts)
    job, rest = _engine_files.make_job(instance, matrix, devices["chat"], planned["args"])
    blocking = [finding.message for finding in [*findings, *more, *rest] if finding.severity == "block"]
    unit = _engine_unit.units(job, _engine_job.Host())["gpufleet-engine-chat.service"]
    beside = {path: text for path, (text, _secret) in _engine_files.files(job).items()}
    say(
        "render",
        not blocking and KEY not in unit,
        blocking=blocking,
        lifecycle=_engine_lifecycle.lifecycle(matrix, "vllm", options.version).paths(),
    )
    return unit, beside


class Server:
    """What systemd would do with the unit."""

    def __init__(self, unit: str, beside: dict[str, str], gate: Path | None) -> None:
        settings = [line.partition("=")[::2] for line in unit.splitlines() if "=" in line and not line.startswith("#")]
        words = [word.replace("%%", "%").replace("$$", "$") for key, value in settings if key == "ExecStart" for word in shlex.split(value)]
        own = words.index("--")
        self.argv = words[own + 1 :] if gate is None else [words[0], str(gate), *words[2:]]
        pairs = (
            part.partition("=")[::2] for key, value in settings if key == "Environment" for part in shlex.split(value.replace("%%", "%"))
        )
        self.environment = dict(pairs)
        self.state = Path("/var/lib/gpufleet/engines/chat")
        self.stop_seconds = next(int(value) for key, value in settings if key == "TimeoutStopSec")
        self.beside = beside
        self.credentials = Path("/run/credentials/gpufleet-engine-chat.service")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        for folder in (self.state, self.credentials):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path, text in self.beside.items():
            (self.credentials / Path(path).name).write_text(text)
        log = (self.state / "log").open("wb")
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            self.argv, env={**os.environ, **self.environment}, cwd=self.state, stdout=log, stderr=log, start_new_session=True
        )

    def shown(self) -> str:
        """What everyone on the host may read of its processes."""
        return "".join(path.read_bytes().decode(errors="replace") for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())

    def kill(self) -> None:
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        if failures:
            print((self.state / "log").read_text(errors="replace")[-6000:], file=sys.stderr)
        shutil.rmtree(self.credentials, ignore_errors=True)


def serve(server: Server, planned: dict[str, Any], gpu: dict[str, Any]) -> None:
    endpoint = _endpoint.Endpoint("http://127.0.0.1:18000", KEY, timeout=60)
    wish = _endpoint_wait.Wish("/health", "chat", ("completion", "chat", "stream"), "the capital of France is", 16, "")
    seen = _endpoint_wait.wait(endpoint, wish, 300)
    stream = seen["checks"]["stream"]
    ready = round(time.monotonic() - server.begun, 1)
    say("ready", stream["tokens"] > 1, seconds=ready, ttft_ms=stream.get("ttft_ms"), tpot_ms=stream.get("tpot_ms"), tokens=stream["tokens"])
    try:
        _endpoint.Endpoint("http://127.0.0.1:18000", "wrong").models()
        say("key", False)
    except _endpoint.NotReady as exc:
        say("key", KEY not in server.shown(), wrong_key=str(exc), in_process_list=KEY in server.shown())
    text = metrics()
    labels = _engine_plan_check.cache_config(text) or {}
    findings = _engine_plan_check.compare(planned, text, gpu["memory_bytes"]["total"])
    tokens, wanted = int(float(labels.get("kv_cache_size_tokens", 0))), planned["predicted"]["kv_tokens"]
    say(
        "as planned",
        not findings,
        kv_tokens=tokens,
        planned=wanted,
        off=f"{tokens / wanted - 1:+.2%}",
        findings=[f.message for f in findings],
    )
    fullest = planned["predicted"]["requested"] + planned["predicted"]["outside"]
    say("memory", used() <= fullest * 1.01, nvml_used=used(), planned_at_most=fullest)


def drain(server: Server, before: int) -> None:
    """A stream in flight at SIGTERM comes to its end; new requests are refused; the memory comes back."""
    answers: list[Any] = []
    endpoint = _endpoint.Endpoint("http://127.0.0.1:18000", KEY, timeout=60)
    client = threading.Thread(target=lambda: answers.append(_endpoint_stream(endpoint)))
    client.start()
    time.sleep(1.0)
    process = server.process
    if process is None:
        raise SystemExit("no server")
    in_flight, begun = not answers, time.monotonic()
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    try:
        endpoint.complete("chat", "late", 1)
        late = "answered"
    except _endpoint.NotReady as exc:
        late = exc.state
    status = process.wait(server.stop_seconds)
    took = round(time.monotonic() - begun, 2)
    client.join(5)
    for _attempt in range(50):
        if used() <= before + (64 << 20):
            break
        time.sleep(0.1)
    good = (
        in_flight
        and bool(answers)
        and answers[0] == 1500
        and late != "answered"
        and status in (0, 143, -15)
        and used() <= before + (64 << 20)
    )
    figures = {"stop_seconds_at_most": server.stop_seconds, "memory_before": before, "memory_after": used()}
    say("drain", good, tokens=answers, in_flight=in_flight, late_request=late, status=status, seconds=took, **figures)


def _endpoint_stream(endpoint: Any) -> Any:
    connection, response = endpoint._send(
        "POST",
        "/v1/completions",
        {
            "model": "chat",
            "prompt": "go on",
            "max_tokens": 1500,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        },
    )
    tokens = 0
    try:
        for line in response:
            if line.startswith(b"data: {"):
                tokens = (json.loads(line[6:]).get("usage") or {}).get("completion_tokens") or tokens
    finally:
        connection.close()
    return tokens


def metrics() -> str:
    import urllib.request

    with urllib.request.urlopen("http://127.0.0.1:18000/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def used() -> int:
    """Bytes in use on GPU 0, without what the driver keeps for itself."""
    import pynvml

    pynvml.nvmlInit()
    memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0), version=pynvml.nvmlMemory_v2)
    return int(memory.used)


if __name__ == "__main__":
    sys.exit(main())
