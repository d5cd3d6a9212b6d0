"""Unit texts: what systemd makes of them, and that stop, restart and secrets follow the engine's life cycle."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_files import files
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_job import EXIT_GPU_LOST, Host
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_systemd import assignment, line, section, word
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_unit import units

from .conftest import UUID, Reader

NODES = {"members": [{"host": "a", "address": "10.0.0.1"}, {"host": "b", "address": "10.0.0.2"}], "rdma": "mlx5_0"}
RAY = {"nodes": {**NODES, "launcher": "ray"}}
HOST = Host(gate=("/bin/true", "run"), watch=("/bin/true", "watch"))
TRICKY = 'a "b" \\ %d $HOME ${X} ; | é \n x'
JOBS: list[dict[str, t.Any]] = [
    {"api_key": "hunter2", "hf_token": "hunter2", "args": {"chat-template": TRICKY}, "env": {"NCCL_DEBUG": TRICKY}},
    {"runtime": "docker", "api_key": "hunter2", "hf_token": "hunter2", "args": {"chat-template": TRICKY}, "gpus": [0, 1]},
    {"runtime": "podman", "api_key": "hunter2", "gpus": "all", "resources": {"shm_bytes": 2**30, "memory_max": "80%", "cpus": "0-3"}},
    {"engine": "sglang", "version": "0.5.23", "api_key": "hunter2", "nodes": NODES},
    {"engine": "tensorrt_llm", "version": "1.2.1", "nodes": NODES, "host": "10.0.0.1"},
    {"engine": "tensorrt_llm", "version": "1.2.1", "runtime": "podman", "config": {"max_batch_size": 8}},
    RAY,
]


def of(text: str) -> configparser.RawConfigParser:
    """The unit as sections; a repeated key keeps its last value."""
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser


@pytest.mark.parametrize("over", JOBS, ids=lambda over: f"{over.get('engine', 'vllm')} {over.get('runtime', 'venv')} {'nodes' in over}")
def test_systemd_takes_every_unit(read: Reader, tmp_path: Path, over: dict[str, t.Any]) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not on this machine: nobody judges the units here")
    for rank in (0, 1) if "nodes" in over else (0,):
        made = units(read.job(rank=rank, **over), HOST)
        if not made and rank:
            continue  # over MPI the head starts everything
        for name, text in made.items():
            # The engine's program is not on this machine; docker and podman may not be.
            (tmp_path / name).write_text(text.replace("/usr/bin/docker", "/bin/true").replace("/usr/bin/podman", "/bin/true"))
        paths = [str(tmp_path / name) for name in made]
        env = {**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:", "SYSTEMD_LOG_LEVEL": "warning"}
        run = subprocess.run(["systemd-analyze", "verify", "--man=no", *paths], env=env, capture_output=True, text=True, check=False)
        ours = [row for row in run.stderr.splitlines() if "gpufleet-engine" in row]
        assert ours == []
        assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("over", JOBS[:4], ids=str)
def test_no_secret_in_a_unit(read: Reader, over: dict[str, t.Any]) -> None:
    job = read.job(**over)
    assert "hunter2" not in "".join(units(job, HOST).values())
    assert all(secret for text, secret in files(job).values() if "hunter2" in text)


def test_credentials_reach_a_venv_and_files_a_container(read: Reader) -> None:
    (venv,) = units(read.job(**JOBS[0]), HOST).values()
    assert "LoadCredential=secrets.yaml:/etc/gpufleet/engines/chat/secrets.yaml" in venv
    assert "--config /run/credentials/gpufleet-engine-chat.service/secrets.yaml" in venv
    (docker,) = units(read.job(**JOBS[1]), HOST).values()
    assert "--volume /etc/gpufleet/engines/chat/secrets.yaml:/run/secrets/gpufleet/secrets.yaml:ro" in docker
    assert "--config /run/secrets/gpufleet/secrets.yaml" in docker


def test_stop_waits_longer_than_the_engine_drains(read: Reader) -> None:
    for version in ("0.17.1", "0.33.0"):
        service = of(units(read.job(version=version, drain_seconds=90), HOST)["gpufleet-engine-chat.service"])["Service"]
        assert int(service["TimeoutStopSec"]) >= 110
        assert service["KillMode"] == "mixed"
    docker = units(read.job(runtime="docker", drain_seconds=90), HOST)["gpufleet-engine-chat.service"]
    assert "/usr/bin/docker stop -t 90 gpufleet-engine-chat" in docker


def test_a_lost_gpu_is_not_restarted_and_all_else_is(read: Reader) -> None:
    for over in ({}, {"runtime": "docker"}, {"runtime": "podman"}):
        unit = of(units(read.job(gpus=[0, 1], **over), HOST)["gpufleet-engine-chat.service"])
        service = unit["Service"]
        assert service["Restart"] == "always"
        assert service["RestartPreventExitStatus"] == str(EXIT_GPU_LOST)
        # the gate is the main process itself: only its exit status is asked
        assert service["ExecStart"].startswith(f"/bin/true run --gpu {UUID.format(0)} --gpu {UUID.format(1)} -- /")
        starts, seconds = int(unit["Unit"]["StartLimitBurst"]), int(unit["Unit"]["StartLimitIntervalSec"])
        assert seconds > starts * (int(service["RestartSec"]) + 30), "an engine that fails within half a minute is given up in the end"


def test_an_engine_starts_after_what_makes_gpus_usable(read: Reader) -> None:
    venv = of(units(read.job(), HOST)["gpufleet-engine-chat.service"])["Unit"]["After"].split()
    assert {"nvidia-fabricmanager.service", "gpufleet-gpu-settings.service", "nvidia-persistenced.service"} <= set(venv)
    assert "nvidia-cdi-refresh.service" not in venv
    docker = of(units(read.job(runtime="docker"), Host(cdi_unit="gpufleet-cdi-refresh.service"))["gpufleet-engine-chat.service"])["Unit"]
    assert {"gpufleet-cdi-refresh.service", "docker.service"} <= set(docker["After"].split())
    assert "Requires" not in docker


def test_gpus_of_a_container(read: Reader) -> None:
    job = read.job(runtime="docker", gpus=[0, 1])
    new, old = (units(job, Host(docker_cdi=cdi))["gpufleet-engine-chat.service"] for cdi in (True, False))
    assert f"--device nvidia.com/gpu={UUID.format(0)} --device nvidia.com/gpu={UUID.format(1)}" in new
    # Docker wants quotes inside the word, and systemd takes them only escaped.
    assert f'--gpus "\\"device={UUID.format(0)},{UUID.format(1)}\\""' in old


def test_shared_memory_follows_engine_and_wish(read: Reader) -> None:
    def words(**over: t.Any) -> str:
        return units(read.job(runtime="docker", **over), HOST)["gpufleet-engine-chat.service"]

    assert f"--shm-size {16 * 2**30}" in words()
    assert f"--shm-size {32 * 2**30}" in words(engine="sglang", version="0.5.23")
    assert "--ipc host" in words(engine="tensorrt_llm", version="1.2.1")
    assert f"--shm-size {2**30}" in words(resources={"shm_bytes": 2**30})
    assert "--ulimit memlock=-1" in words()


def test_only_an_engine_that_can_hang_serving_nothing_has_a_watchdog(read: Reader) -> None:
    assert set(units(read.job(), HOST)) == {"gpufleet-engine-chat.service"}
    made = units(read.job(engine="tensorrt_llm", version="1.2.1", host="::", port=8123), HOST)
    assert set(made) == {f"gpufleet-engine-chat{part}" for part in (".service", "-watchdog.service", "-watchdog.timer")}
    assert "--url http://[::]:8123/health" not in made["gpufleet-engine-chat-watchdog.service"]
    assert "--url http://127.0.0.1:8123/health --unit gpufleet-engine-chat.service" in made["gpufleet-engine-chat-watchdog.service"]


def test_members_of_a_group(read: Reader) -> None:
    head, worker = (units(read.job(rank=rank, **RAY), HOST) for rank in (0, 1))
    assert set(head) == {"gpufleet-engine-chat-ray.service", "gpufleet-engine-chat.service"}
    assert set(worker) == {"gpufleet-engine-chat-ray.service"}
    assert of(head["gpufleet-engine-chat.service"])["Unit"]["BindsTo"] == "gpufleet-engine-chat-ray.service"
    assert "ray start --block" in worker["gpufleet-engine-chat-ray.service"]
    assert units(read.job(rank=1, engine="tensorrt_llm", version="1.2.1", nodes=NODES, host="10.0.0.1"), HOST) == {}
    mpi = units(read.job(engine="tensorrt_llm", version="1.2.1", nodes=NODES, host="10.0.0.1"), HOST)["gpufleet-engine-chat.service"]
    assert (
        "mpirun --allow-run-as-root -n 2 --host 10.0.0.1:1,10.0.0.2:1 /opt/gpufleet/engines/tensorrt_llm/1.2.1/bin/trtllm-llmapi-launch"
        in mpi
    )


def test_a_model_in_a_home_can_be_read_and_no_other_home_is_open(read: Reader) -> None:
    def home(model: str) -> str:
        return of(units(read.job(model=model), HOST)["gpufleet-engine-chat.service"])["Service"]["ProtectHome"]

    assert (home("/models/x"), home("/home/llm/x")) == ("yes", "read-only")


def test_words_of_a_unit() -> None:
    assert word("plain-1.0/x=y") == "plain-1.0/x=y"
    assert line(["/bin/x", "a b", "50%", "$X"]) == '/bin/x "a b" 50%% $$X'.replace("50%%", '"50%%"').replace("$$X", '"$$X"')
    assert assignment("A", "$X %") == '"A=$X %%"'
    assert section("Unit", {"After": ["a", "", "b"], "Wants": [], "X": None, "Y": ""}) == "[Unit]\nAfter=a b\nY=\n\n"
