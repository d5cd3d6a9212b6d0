"""What the engines themselves say after the role: containerd 2.1 and schema 3, schema 1, rootless Docker, what nvidia-docker2 left."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tomllib
import yaml

HOSTS = ("c1", "c2", "rl")
SOCKET = "DOCKER_HOST=unix:///run/user/1001/docker.sock"


def alice(host: Any, command: str) -> str:
    """What her Docker answers; after a boot her daemon may still be coming."""
    return str(
        host.check_output(f"n=0; until {SOCKET} docker {command}; do n=$((n+1)); [ $n -lt 30 ] || exit 1; sleep 1; done 2>/dev/null")
    )


@pytest.fixture(autouse=True)
def _root(host: Any) -> Any:
    with host.sudo():
        yield


def only(host: Any, *names: str) -> None:
    """The scenario's hosts differ; a test speaks of some of them."""
    if name(host) not in names:
        pytest.skip(f"not about {name(host)}")


def name(host: Any) -> str:
    return str(host.backend.get_pytest_id().rpartition("/")[2])


# The first test: later ones ask the engines.
def test_second_run_asked_for_nothing(action_log: Any, host_tasks: dict[str, int]) -> None:
    assert [action for action in action_log() if action.kind != "container" or "AnsiballZ" in action.caller] == []
    assert host_tasks["ok"] <= 5 or host_tasks["changed"] == 0


def dump(host: Any) -> dict[str, Any]:
    return tomllib.loads(host.check_output("containerd config dump"))


def test_containerd_2_has_the_runtime_and_all_that_it_had(host: Any) -> None:
    only(host, "c2")
    tree = dump(host)
    runtime = tree["plugins"]["io.containerd.cri.v1.runtime"]
    assert tree["version"] == 3
    assert runtime["containerd"]["runtimes"]["nvidia"]["options"]["BinaryName"] == "/usr/bin/nvidia-container-runtime"
    assert [entry["options"]["SystemdCgroup"] for entry in runtime["containerd"]["runtimes"].values()] == [True, True]
    assert (runtime["enable_cdi"], runtime["max_container_log_line_size"], tree["debug"]["level"]) == (True, 4096, "warn")
    assert tree["plugins"]["io.containerd.cri.v1.images"]["pinned_images"]["sandbox"] == "registry.example.invalid/pause:3.10"


def test_containerd_2s_files(host: Any) -> None:
    only(host, "c2")
    before = host.file("/root/before/config.toml").content_string.splitlines()
    after = host.file("/etc/containerd/config.toml").content_string.splitlines()
    assert [line for line in after if line not in before] == [
        'imports = ["/etc/containerd/site.d/*.toml", "/etc/containerd/conf.d/*.toml"]'
    ]
    drop_in = tomllib.loads(host.file("/etc/containerd/conf.d/99-nvidia.toml").content_string)
    assert list(drop_in["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]) == ["nvidia"]
    assert "max_container_log_line_size" not in drop_in["plugins"]["io.containerd.cri.v1.runtime"], "from 2.1 on only ours is in it"


def test_schema_1(host: Any) -> None:
    only(host, "c1")
    text = host.file("/etc/containerd/config.toml").content_string
    assert not [line for line in host.file("/root/before/config.toml").content_string.splitlines() if line not in text]
    cri = dump(host)["plugins"]["io.containerd.grpc.v1.cri"]
    options = cri["containerd"]["runtimes"]["nvidia"]["options"]
    assert (options["BinaryName"], options["SystemdCgroup"]) == ("/usr/bin/nvidia-container-runtime", True)
    assert cri["containerd"]["runtimes"]["runc"]["options"]["SystemdCgroup"] is True
    assert cri["sandbox_image"] == "registry.example.invalid/pause:3.6"
    assert not host.file("/etc/containerd/conf.d/99-nvidia.toml").exists


def test_the_running_containerd_is_the_one_of_its_files(host: Any) -> None:
    only(host, "c1", "c2")
    started = int(host.check_output("systemctl show --timestamp=unix -p ExecMainStartTimestamp --value containerd").lstrip("@"))
    files = host.run("stat -c %Y /etc/containerd/config.toml /etc/containerd/conf.d/99-nvidia.toml").stdout.split()
    assert started >= max(map(int, files)) - 1
    states = {line.split()[-2 if line.split()[-1] == "-" else -1] for line in host.check_output("ctr plugins ls | grep cri").splitlines()}
    assert states == {"ok"}


def test_the_specification_is_one_that_the_oldest_engine_reads(host: Any) -> None:
    spec = yaml.safe_load(host.file("/var/run/cdi/nvidia.yaml").content_string)
    assert spec["cdiVersion"] == ("0.5.0" if name(host) == "c1" else "0.7.0")


def test_nvidia_docker2_is_gone_and_its_file_is_not(host: Any) -> None:
    only(host, "c1")
    assert host.run("dpkg-query -W -f '${Status}' nvidia-docker2").stdout in ("", "deinstall ok config-files")
    file = json.loads(host.file("/etc/docker/daemon.json").content_string)
    assert file == {"log-driver": "json-file", "runtimes": {"nvidia": {"path": "nvidia-container-runtime", "runtimeArgs": []}}}
    assert "nvidia" in json.loads(host.check_output("docker info --format '{{json .Runtimes}}'"))


def test_rootless_docker(host: Any) -> None:
    only(host, "rl")
    file = host.file("/home/alice/.config/docker/daemon.json")
    after = json.loads(file.content_string)
    assert (file.user, after["log-driver"], after["labels"]) == ("alice", "json-file", ["of=alice"])
    info = json.loads(alice(host, "info --format '{{json .}}'"))
    assert "rootless" in str(info["SecurityOptions"])
    assert "nvidia" in info["Runtimes"]
    assert info["CDISpecDirs"] == ["/etc/cdi", "/var/run/cdi", "/var/lib/gpufleet/cdi"]
    assert not host.service("docker").is_running, "the host's own Docker is off and stays so"


def test_rootless_docker_sees_the_specification(host: Any) -> None:
    only(host, "rl")
    child = host.check_output("cat /run/user/1001/dockerd-rootless/child_pid")
    assert "nvidia.com/gpu" in host.check_output(f"cat /proc/{child}/root/var/lib/gpufleet/cdi/nvidia.yaml")


def test_gpu_containers_of_a_user(host: Any) -> None:
    only(host, "rl")
    if "serve" in alice(host, "ps -a"):
        assert {"nvidia0", "nvidia1"} <= set(alice(host, "exec serve ls /dev").split())


def test_all_is_well(host: Any) -> None:
    assert host.check_output("systemctl --failed --no-legend --plain") == ""
    refresh = "nvidia-cdi-refresh.service"
    verdict = host.run(f"systemd-analyze verify containerd.service podman-restart.service {refresh} multi-user.target")
    assert "cycle" not in verdict.stderr + verdict.stdout
