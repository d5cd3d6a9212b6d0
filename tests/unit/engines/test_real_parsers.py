"""The rows and the rendered command lines against the engines' own argument parsers, where a Python that can import them is named.

GPUFLEET_VLLM_PYTHON, GPUFLEET_SGLANG_PYTHON: such Pythons; docs/engines.md says how to make them. Without them these tests say so and skip.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_argv import argv
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_flag_rows import table, within
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_flags import check_args
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_values import words
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_model import Matrix

from .conftest import Reader

SCRIPT = Path(__file__).resolve().parents[2] / "engine_flags" / "real_parser.py"
ENGINES = ("vllm", "sglang")
# What stands for "any value of this type".
SAMPLES = {"int": 4, "size": "4k", "size_or_auto": "auto", "float": 0.5}


@functools.cache
def ask(engine: str, lines: tuple[tuple[str, ...], ...] = ()) -> dict[str, t.Any]:
    name = f"GPUFLEET_{engine.upper()}_PYTHON"
    if not os.environ.get(name):
        pytest.skip(f"{engine}'s own parser is not asked: {name} names no Python that can import it (docs/engines.md)")
    quiet = {"CUDA_VISIBLE_DEVICES": "", "VLLM_LOGGING_LEVEL": "ERROR", "SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1"}
    command = [os.environ[name], str(SCRIPT), engine]
    run = subprocess.run(
        command, input=json.dumps(lines), env={**os.environ, **quiet}, capture_output=True, text=True, timeout=600, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return t.cast("dict[str, t.Any]", json.loads(run.stdout.splitlines()[-1]))


def version_of(engine: str) -> str:
    return str(ask(engine)["version"]).partition("+")[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_rows_have_exactly_its_flags(matrix: Matrix, engine: str) -> None:
    known, version = table(matrix, engine), version_of(engine)
    assert known
    theirs = {option.lstrip("-") for option in ask(engine)["options"]} - {"h", "help"}
    ours = set(known.names(version))
    named = {alias for alias, name in known.aliases.items() if name in ours}
    negations = {f"no-{name}" for name in ours} | {name.replace("enable-", "disable-", 1) for name in ours if name.startswith("enable-")}
    negations |= {name.replace("disable-", "enable-", 1) for name in ours if name.startswith("disable-")}
    assert ours - theirs == set()
    assert theirs - ours - named - negations == set()


@pytest.mark.parametrize("engine", ENGINES)
def test_every_flag_is_taken_with_a_value_of_its_type(matrix: Matrix, engine: str) -> None:
    known, version = table(matrix, engine), version_of(engine)
    assert known
    flags = [flag for flag in known.flags.values() if within(version, flag.releases)]
    # Text without choices may be an expression of their own: nothing to hold them to.
    typed = [flag for flag in flags if flag.values(version) or flag.type not in ("str", "json")]
    good = [words(flag, version, value) for flag in typed for value in flag.values(version) or [SAMPLES.get(flag.type, True)]]
    good += [words(flag, version, False) for flag in flags if flag.negatable(version)]
    wrong = [words(flag, version, "no-number") for flag in flags if flag.type in ("int", "float", "size")]
    needed = ("--model-path", "m") if engine == "sglang" else ()
    answers = ask(engine, tuple((*needed, *line) for line in [*good, *wrong]))["verdicts"]
    assert {" ".join(line): verdict for line, verdict in zip(good, answers) if verdict} == {}
    assert [line for line, verdict in zip(wrong, answers[len(good) :]) if verdict is None] == []


LINES: dict[str, list[dict[str, t.Any]]] = {
    "vllm": [
        {"args": {"enable-prefix-caching": False, "max-model-len": "8k", "compilation-config": {"mode": 3}, "seed": -1}},
        {"served_name": ["a", "b"], "parallel": {"tensor_parallel_size": 1}, "api_key": "k"},
        {"nodes": {"members": [{"host": "a", "address": "10.0.0.1"}, {"host": "b", "address": "10.0.0.2"}]}},
        {"nodes": {"launcher": "ray", "members": [{"host": "a", "address": "10.0.0.1"}, {"host": "b", "address": "10.0.0.2"}]}},
    ],
    "sglang": [
        {"args": {"attention-backend": "flashinfer", "log-requests": True, "tp": 1}},
        {"nodes": {"members": [{"host": "a", "address": "10.0.0.1"}, {"host": "b", "address": "10.0.0.2"}]}},
    ],
}
PLANNED = {"max_model_len": 4096, "max_num_seqs": 8, "memory_fraction": 0.8, "kv_cache_dtype": "auto", "max_num_batched_tokens": 2048}


@pytest.mark.parametrize("engine", ENGINES)
def test_rendered_lines_are_taken(read: Reader, matrix: Matrix, engine: str) -> None:
    jobs = [read.job(PLANNED, rank, engine=engine, version=version_of(engine), **over) for over in LINES[engine] for rank in (0, 1)]
    jobs = [job for job in jobs if job.rank == 0 or job.instance["nodes"]]
    lines = []
    for job in jobs:
        line = argv(job.instance, job.life, matrix, job.planned, job.rank)
        lines.append(tuple(line[line.index("serve") + 1 :]))
    assert dict(zip(lines, ask(engine, tuple(lines))["verdicts"])) == dict.fromkeys(lines)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_we_refuse_it_refuses(matrix: Matrix, engine: str) -> None:
    needed = ("--model-path", "m") if engine == "sglang" else ()
    lines = {
        "vllm": [("--swap-space", "4"), ("--max-num-seqs", "lots"), ("--runner", "polling")],
        "sglang": [("--stream-output",), ("--tp-size", "x")],
    }
    version = version_of(engine)
    for line, verdict in zip(lines[engine], ask(engine, tuple((*needed, *line) for line in lines[engine]))["verdicts"]):
        assert verdict, line
        assert [item for item in check_args(engine, version, list(line), None, matrix) if item.severity == "block"], line
