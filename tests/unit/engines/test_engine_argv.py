"""Command lines: which flag for which engine and release, whose value wins, and what never stands in them."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_argv import argv
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_files import files
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_job import Job
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_nodes import ray_argv, runs_server

from .conftest import MIG, UUID, Reader

NODES = {"members": [{"host": "a", "address": "10.0.0.1"}, {"host": "b", "address": "10.0.0.2"}], "interface": "eth1"}


def words(job: Job) -> list[str]:
    return argv(job.instance, job.life, job.matrix, job.planned, job.rank)


def value(job: Job, flag: str) -> str | None:
    line = words(job)
    return line[line.index(flag) + 1] if flag in line else None


COMMANDS = [
    ({"version": "0.8.5"}, ["/opt/gpufleet/engines/vllm/0.8.5/bin/vllm", "serve", "/models/llama"]),
    ({"runtime": "docker"}, ["vllm", "serve", "/models/llama"]),
    (
        {"engine": "sglang", "version": "0.5.2", "venv": "/v"},
        ["/v/bin/python", "-m", "sglang.launch_server", "--model-path", "/models/llama"],
    ),
    ({"engine": "sglang", "version": "0.5.5", "venv": "/v"}, ["/v/bin/sglang", "serve", "--model-path", "/models/llama"]),
    ({"engine": "tensorrt_llm", "version": "1.2.1", "venv": "/v"}, ["/v/bin/trtllm-serve", "serve", "/models/llama"]),
]


@pytest.mark.parametrize(("over", "expected"), COMMANDS, ids=[str(row[0]) for row in COMMANDS])
def test_the_command_of_each_engine_and_release(read: Reader, over: dict[str, t.Any], expected: list[str]) -> None:
    assert words(read.job(**over))[: len(expected)] == expected


def test_a_neutral_name_becomes_each_engines_flag(read: Reader) -> None:
    planned = {"max_model_len": 4096, "memory_fraction": 0.9, "max_num_seqs": 16}
    flags = {
        ("vllm", "0.33.0"): ("--max-model-len", "--gpu-memory-utilization", "--max-num-seqs"),
        ("sglang", "0.5.23"): ("--context-length", "--mem-fraction-static", "--max-running-requests"),
        ("tensorrt_llm", "1.2.1"): ("--max_seq_len", "--kv_cache_free_gpu_memory_fraction", "--max_batch_size"),
    }
    for (engine, version), names in flags.items():
        job = read.job(planned, engine=engine, version=version)
        assert [value(job, name) for name in names] == ["4096", "0.9", "16"]


def test_args_win_over_the_plan_and_a_release_without_the_flag_gets_none(read: Reader) -> None:
    job = read.job({"max_model_len": 4096, "kv_cache_memory_bytes": 1}, version="0.8.5", args={"max_model_len": 2048})
    assert value(job, "--max-model-len") == "2048"
    assert words(job).count("--max-model-len") == 1
    assert "--kv-cache-memory-bytes" not in words(job)


def test_drain_is_bounded_where_the_engine_can(read: Reader) -> None:
    assert value(read.job(drain_seconds=33), "--shutdown-timeout") == "33"
    assert value(read.job(drain_seconds=33, version="0.17.1"), "--shutdown-timeout") is None


def test_switches(read: Reader) -> None:
    off = {"enable-prefix-caching": False, "enforce-eager": False}
    assert "--no-enable-prefix-caching" in words(read.job(args=off))
    assert "--no-enforce-eager" not in words(read.job(version="0.8.0", args=off)), "a plain switch there: off is its absence"
    assert "--disable-cuda-graph" not in words(read.job(engine="sglang", version="0.5.23", args={"disable-cuda-graph": False}))
    assert "--enforce-eager" in words(read.job(args={"enforce-eager": "true"}))


def test_values(read: Reader) -> None:
    job = read.job(
        args={
            "compilation-config": {"mode": 3, "a": [1]},
            "cudagraph-capture-sizes": [1, 2],
            "seed": -1,
            "override-generation-config": '{"a": 1}',
        },
        served_name=["a", "b"],
    )
    line = words(job)
    assert value(job, "--compilation-config") == '{"a":[1],"mode":3}'
    assert line[line.index("--cudagraph-capture-sizes") + 1 :][:2] == ["1", "2"]
    assert "--seed=-1" in line
    assert line[line.index("--served-model-name") + 1 :][:2] == ["a", "b"]
    assert value(read.job(engine="sglang", version="0.5.23", served_name=["a", "b"]), "--served-model-name") == "a"


def test_the_same_input_gives_the_same_words(read: Reader) -> None:
    assert words(read.job(args={"hf-overrides": {"b": 1, "a": 2}})) == words(read.job(args={"hf-overrides": {"a": 2, "b": 1}}))


@pytest.mark.parametrize("over", [{"engine": "vllm", "version": "0.33.0"}, {"engine": "sglang", "version": "0.5.23"}], ids=str)
def test_a_key_stands_in_a_file_of_its_own_only(read: Reader, over: dict[str, str]) -> None:
    job = read.job(api_key='hunter2: "x"\\', hf_token="hunter3", **over)
    assert "hunter" not in str(words(job)) + str(dict(job.environment))
    secrets = {path.rpartition("/")[2]: text for path, (text, secret) in files(job).items() if secret}
    assert yaml.safe_load(secrets["secrets.yaml"]) == {"api-key": 'hunter2: "x"\\'}
    assert secrets["hf_token"] == "hunter3"


def test_what_is_in_the_options_file_is_no_flag(read: Reader) -> None:
    planned = {"memory_fraction": 0.8, "max_num_seqs": 4}
    job = read.job(planned, engine="tensorrt_llm", version="1.2.1", config={"max_batch_size": 8})
    assert value(job, "--max_batch_size") is None
    assert value(job, "--kv_cache_free_gpu_memory_fraction") == "0.8"
    (text,) = [text for text, _ in files(job).values()]
    assert yaml.safe_load(text) == {"max_batch_size": 8}


def test_gpus_by_index_where_the_engine_cannot_read_uuids(read: Reader) -> None:
    assert read.job(version="0.22.1", gpus=[2, UUID.format(0)]).environment["CUDA_VISIBLE_DEVICES"] == "2,0"
    assert read.job(version="0.24.0", gpus=[2]).environment["CUDA_VISIBLE_DEVICES"] == UUID.format(2)
    assert read.job(gpus=[MIG]).environment["CUDA_VISIBLE_DEVICES"] == MIG
    assert "CUDA_VISIBLE_DEVICES" not in read.job(gpus=[2], runtime="docker").environment, "devices count from 0 in a container"


def test_a_mig_device_that_an_old_engine_cannot_take_is_refused(read: Reader) -> None:
    with pytest.raises(AssertionError, match="takes only indices"):
        read.job(version="0.22.1", gpus=[MIG])
    read.job(version="0.22.1", gpus=[MIG], runtime="podman")


def test_caches_are_kept_by_release(read: Reader) -> None:
    old, new = (read.job(version=version).environment["VLLM_CACHE_ROOT"] for version in ("0.32.0", "0.33.0"))
    assert old != new
    assert read.job().environment["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in read.job(model="org/model").environment


def test_env_of_the_site_is_added_and_may_not_undo_the_gpus(read: Reader) -> None:
    assert read.job(env={"NCCL_DEBUG": "INFO", "VLLM_CACHE_ROOT": "/x"}).environment["NCCL_DEBUG"] == "INFO"
    with pytest.raises(AssertionError, match="decided by gpus"):
        read.job(env={"CUDA_VISIBLE_DEVICES": "3"})


def test_vllm_over_two_nodes_by_its_own_launcher(read: Reader) -> None:
    head, worker = (read.job(rank=rank, nodes=NODES, parallel={"tensor_parallel_size": 2}) for rank in (0, 1))
    for job in (head, worker):
        assert [value(job, flag) for flag in ("--nnodes", "--master-addr", "--master-port")] == ["2", "10.0.0.1", "29501"]
    assert [value(job, "--node-rank") for job in (head, worker)] == ["0", "1"]
    assert ["--headless" in words(job) for job in (head, worker)] == [False, True]
    assert worker.environment["VLLM_HOST_IP"] == "10.0.0.2"
    assert [worker.environment[f"{name}_SOCKET_IFNAME"] for name in ("GLOO", "NCCL")] == ["eth1", "=eth1"]


def test_vllm_over_ray_serves_from_the_head_only(read: Reader) -> None:
    jobs = [read.job(rank=rank, nodes={**NODES, "launcher": "ray"}) for rank in (0, 1)]
    assert value(jobs[0], "--distributed-executor-backend") == "ray"
    assert [runs_server(job.instance, job.life, job.rank) for job in jobs] == [True, False]
    assert "--head" in ray_argv(jobs[0].instance, 0, 1)
    assert "--address=10.0.0.1:6379" in ray_argv(jobs[1].instance, 1, 1)
    assert read.instance(version="0.10.2", nodes=NODES)["nodes"], "an old release has Ray only, and takes it without being told"


def test_sglang_over_two_nodes(read: Reader) -> None:
    job = read.job(rank=1, engine="sglang", version="0.5.23", nodes=NODES, parallel={"tensor_parallel_size": 2})
    assert [value(job, flag) for flag in ("--nnodes", "--node-rank", "--dist-init-addr", "--tp-size")] == ["2", "1", "10.0.0.1:20000", "2"]
