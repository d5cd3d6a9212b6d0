"""Arguments and environment against the release: what is refused, and what is named instead."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Finding
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_flags import check_args
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_model import Matrix

V, S, T = "vllm", "sglang", "tensorrt_llm"


def run(matrix: Matrix, engine: str, version: str | None, args: t.Any = None, env: t.Any = None, **more: t.Any) -> list[Finding]:
    return check_args(engine, version, args, env, matrix, name="chat", **more)


REFUSED: list[tuple[str, str, t.Any, str, str, str]] = [
    # engine, version, args, finding, in the message, nearest
    (V, "0.18.0", {"swap-space": 16}, "gone", "removed in 0.18.0", ""),
    (V, "0.33.0", "--kv-cache-dtype fp16", "gone", "in no release", "float16"),
    (V, "0.6.6", {"kv-cache-dtype": "bfloat16"}, "value", "one of auto, fp8", ""),
    (V, "0.33.0", {"guided-decoding-backend": "xgrammar"}, "gone", "removed in 0.12.0", "--structured-outputs-config"),
    (V, "0.33.0", {"max-modle-len": 8192}, "unknown", "no flag --max-modle-len", "--max-model-len"),
    (V, "0.33.0", ["--max-num-seq", "8"], "unknown", "would take it for that one", "--max-num-seqs"),
    (V, "0.17.1", {"shutdown-timeout": 20}, "new", "from vLLM 0.18.0 on", ""),
    (V, "0.33.0", {"max-num-seqs": "lots"}, "value", "a whole number", ""),
    (V, "0.33.0", {"max-num-seqs": True}, "value", "not true or false", ""),
    (V, "0.33.0", {"max-num-seqs": [1, 2]}, "value", "one value", ""),
    (V, "0.33.0", {"gpu-memory-utilization": "90%"}, "value", "a number", ""),
    (V, "0.33.0", {"speculative-config": "{broken"}, "value", "JSON as text", ""),
    (V, "0.33.0", {"enforce-eager": "maybe"}, "value", "true or false", ""),
    (V, "0.33.0", {"runner": "polling"}, "value", "one of", "pooling"),
    (V, "0.20.2", {"disable-log-requests": True}, "gone", "removed in 0.17.0", ""),
    (S, "0.5.23", {"enable-flashinfer": True}, "gone", "in no release", ""),
    (S, "0.5.20", {"cuda-graph-max-bs": 64}, "gone", "removed in 0.5.20", "--cuda-graph-max-bs-decode"),
    (S, "0.5.23", {"stream-output": True}, "gone", "removed in 0.5.20", "--incremental-streaming-output"),
    (S, "0.5.9", {"ssl-keyfile": "/k"}, "new", "from SGLang 0.5.10 on", ""),
    (S, "0.5.23", {"kv-cache-dtype": "fp8"}, "value", "fp8_e4m3", "fp8_e"),
    (T, "1.2.1", {"max_output_len": 4}, "gone", "removed in 0.12.0", "--max_seq_len"),
    (T, "1.2.1", {"max_input_len": 4}, "gone", "in no release", "--max_seq_len"),
    (T, "1.2.1", {"max-batchsize": 4}, "unknown", "no flag", "--max_batch_size"),
    (T, "1.0.0", {"backend": "vllm"}, "value", "pytorch", ""),
]


@pytest.mark.parametrize(
    ("engine", "version", "args", "kind", "text", "nearest"), REFUSED, ids=[f"{row[0]} {row[1]} {row[2]}" for row in REFUSED]
)
def test_refused(matrix: Matrix, engine: str, version: str, args: t.Any, kind: str, text: str, nearest: str) -> None:
    found = run(matrix, engine, version, args)
    assert [(item.id, item.severity) for item in found] == [(f"engine.argument_{kind}", "block")]
    assert text in found[0].message
    assert nearest in (found[0].nearest or "")
    assert "chat" in found[0].fix


ACCEPTED: list[tuple[str, str, t.Any]] = [
    (V, "0.17.1", {"swap-space": 16}),
    (V, "0.33.0", {"max_model_len": "8k", "kv-cache-dtype": "fp8", "enable-prefix-caching": "false", "api-server-count": 2}),
    (V, "0.33.0", '--max-model-len 8192 --no-enable-prefix-caching -tp 2 --speculative-config \'{"method": "ngram"}\''),
    (V, "0.33.0", {"compilation-config": {"mode": 3}, "compilation-config.mode": 3, "cudagraph-capture-sizes": [1, 2, 4]}),
    (V, "0.33.0", {"disable-log-requests": True}),
    (V, "0.33.0", ["--disable-log-requests", "--disable-prefix-caching"]),
    (V, "0.16.0", {"disable-log-requests": True}),
    (V, "0.6.6", {"block-size": 16, "num-scheduler-steps": 8}),
    (S, "0.5.23", ["--tp", "8", "--attention-backend", "flashinfer", "--log-requests"]),
    (S, "0.5.2", {"cuda-graph-max-bs": 64, "cuda-graph-bs": [1, 2]}),
    (T, "1.2.1", {"tp_size": 2, "max-num-tokens": 8192, "trust_remote_code": True, "backend": "pytorch"}),
    (T, "1.2.1", ["--kv_cache_free_gpu_memory_fraction", "0.9"]),
]


@pytest.mark.parametrize(("engine", "version", "args"), ACCEPTED, ids=[f"{row[0]} {row[1]} {row[2]}" for row in ACCEPTED])
def test_accepted(matrix: Matrix, engine: str, version: str, args: t.Any) -> None:
    assert [item.message for item in run(matrix, engine, version, args) if item.severity == "block"] == []


def test_a_deprecated_flag_warns_and_names_its_successor(matrix: Matrix) -> None:
    (found,) = run(matrix, S, "0.5.18", {"cuda-graph-max-bs": 64})
    assert (found.id, found.severity, found.nearest) == ("engine.argument_deprecated", "warn", "--cuda-graph-max-bs-decode")
    assert run(matrix, S, "0.5.2", {"cuda-graph-max-bs": 64}) == []


def test_a_newer_release_than_the_rows_follows_unknown(matrix: Matrix) -> None:
    for policy in ("warn", "block"):
        (found,) = run(matrix, V, "0.40.0", {"flag-of-the-future": 1}, unknown=policy)
        assert (found.id, found.severity) == ("engine.argument_unknown", policy)
    assert run(matrix, V, "0.33.0", {"flag-of-the-future": 1}, unknown="warn")[0].severity == "block"
    assert run(matrix, V, "0.40.0", {"max-model-len": 1}) == []
    # bounds that are only roughly known never block
    assert run(matrix, T, "1.0.0", {"kv_cache_dtype": "fp8"})[0].severity == "warn"


def test_without_a_version_only_what_no_release_ever_had_is_refused(matrix: Matrix) -> None:
    assert run(matrix, V, None, {"swap-space": 4, "shutdown-timeout": 4, "max-num-seqs": "lots"}) == []
    assert [item.id for item in run(matrix, V, None, {"swop-space": 4})] == ["engine.argument_unknown"]


@pytest.mark.parametrize(
    ("engine", "args", "env"),
    [
        (V, {"api-key": "hunter2"}, {}),
        (V, ["--hf-token=hunter2"], {}),
        (S, {"admin-api-key": "hunter2"}, {}),
        (S, {"ssl-keyfile-password": "hunter2"}, {}),
        (T, {"api_key": "hunter2"}, {}),
        (V, {}, {"VLLM_API_KEY": "hunter2"}),
        (S, {}, {"HF_TOKEN": "hunter2", "AWS_SECRET_ACCESS_KEY": "hunter2"}),
    ],
)
def test_a_secret_is_refused_and_not_repeated(matrix: Matrix, engine: str, args: t.Any, env: t.Any) -> None:
    found = run(matrix, engine, "1.2.1" if engine == T else "0.33.0" if engine == V else "0.5.23", args, env)
    assert {item.id for item in found} == {"engine.argument_secret"}
    assert "hunter2" not in str([item.to_dict() for item in found])
    assert "api_key" in found[0].fix


def test_what_the_instance_decides_may_only_be_repeated(matrix: Matrix) -> None:
    owned = {"port": 8000, "served-model-name": ["a", "b"]}
    assert run(matrix, V, "0.33.0", {"port": "8000", "served-model-name": ["a", "b"]}, owned=owned) == []
    (found,) = run(matrix, V, "0.33.0", ["--port", "8001"], owned=owned)
    assert found.id == "engine.argument_owned"
    assert "8000" in found.message
    assert "8001" in found.message


def test_the_same_flag_twice_with_two_values_is_refused(matrix: Matrix) -> None:
    (found,) = run(matrix, V, "0.33.0", ["--max-num-seqs", "4", "--max_num_seqs", "8"])
    assert "given twice: 4 and 8" in found.message
    assert run(matrix, V, "0.33.0", ["-tp", "2", "--tensor-parallel-size", "2"]) == []


VARIABLES = [
    # engine, version, name, finding, nearest
    (V, "0.33.0", "VLLM_ATTENTION_BACKEND", "gone", "--attention-backend"),
    (V, "0.33.0", "VLLM_USE_V1", "gone", ""),
    (V, "0.33.0", "VLLM_LOGING_LEVEL", "unknown", "VLLM_LOGGING_LEVEL"),
    (V, "0.8.5", "VLLM_ENABLE_STARTUP_PLAN", "new", ""),
    (S, "0.5.23", "SGLANG_HEALTH_CHECK_TIMOUT", "unknown", "SGLANG_HEALTH_CHECK_TIMEOUT"),
    (V, "0.33.0", "NCCL_DEBUG", None, ""),
    (V, "0.33.0", "VLLM_LOGGING_LEVEL", None, ""),
    (S, "0.5.23", "SGLANG_HEALTH_CHECK_TIMEOUT", None, ""),
    (T, "1.2.1", "TRTLLM_SERVER_DISABLE_GC", None, ""),
]


@pytest.mark.parametrize(("engine", "version", "name", "kind", "nearest"), VARIABLES, ids=[row[2] for row in VARIABLES])
def test_variables_warn(matrix: Matrix, engine: str, version: str, name: str, kind: str | None, nearest: str) -> None:
    found = run(matrix, engine, version, None, {name: "1"})
    assert [(item.id, item.severity) for item in found] == ([(f"engine.argument_{kind}", "warn")] if kind else [])
    assert not found or nearest in (found[0].nearest or "")
