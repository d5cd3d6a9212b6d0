"""What is on the hosts, as their users see it."""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def name(host: Any) -> str:
    name = str(host.check_output("hostname"))
    if name == "h3":
        pytest.skip("h3 is test_changes.py's")
    return name


def packages(host: Any) -> dict[str, str]:
    lines = host.check_output("dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n'").splitlines()
    return {line.split()[0]: line.split()[1] for line in lines if line.split()[2] in ("ii", "hi")}


def release(host: Any, compiler: str) -> str:
    return str(host.check_output(f"{compiler} --version | sed -n 's/.*, V//p'"))


def test_every_toolkit_is_of_exactly_the_asked_release(host: Any, name: str) -> None:
    wanted = {"h1": {"12.4": "12.4.99", "12.8": "12.8.93", "13.0": "13.0.88"}, "h2": {"12.9": "12.9.86"}}[name]
    assert {minor: release(host, f"/usr/local/cuda-{minor}/bin/nvcc") for minor in wanted} == wanted


def test_parts_of_an_older_release_did_not_come_from_the_newer_one(host: Any, name: str) -> None:
    if name == "h1":
        found = packages(host)
        assert found["cuda-toolkit-12-4"] == "12.4.0-1"
        assert (found["cuda-nvcc-12-4"], found["cuda-cudart-12-4"]) == ("12.4.99-1", "12.4.99-1")  # 12.4.131, 12.4.127 are on offer


def test_the_default_is_set_by_hand(host: Any, name: str) -> None:
    target = {"h1": "/usr/local/cuda-12.8", "h2": "/usr/local/cuda-12.9"}[name]
    assert host.check_output("readlink /usr/local/cuda") == "/etc/alternatives/cuda"
    assert host.check_output("readlink -f /usr/local/cuda") == target
    assert host.check_output("update-alternatives --query cuda | sed -n 's/^Status: //p'") == "manual"


def test_a_login_shell_finds_the_default_compiler(host: Any, name: str) -> None:
    assert host.check_output("bash -lc 'command -v nvcc'") == "/usr/local/cuda/bin/nvcc"
    assert release(host, "bash -lc 'nvcc \"$@\"' nvcc") == {"h1": "12.8.93", "h2": "12.9.86"}[name]


def test_no_driver_came_along(host: Any) -> None:
    drivers = [package for package in packages(host) if package.startswith(("nvidia-", "libnvidia-", "cuda-drivers", "libcuda1"))]
    assert drivers == []


def test_the_runfile_was_asked_for_the_toolkit_alone_and_once(host: Any, name: str) -> None:
    if name == "h1":
        calls = host.check_output("cat /var/log/cuda-installer.log").splitlines()
        assert [call.split(" ", 1)[1] for call in calls] == ["--silent --toolkit"]
        assert not host.file("/var/lib/gpufleet/runfiles").exists
    else:
        assert not host.file("/var/log/cuda-installer.log").exists


def test_libraries_are_there_for_their_cuda_major(host: Any, name: str) -> None:
    if name == "h1":
        found = packages(host)
        assert found["libcudnn9-cuda-12"] == found["libcudnn9-cuda-13"] == found["libcudnn9-dev-cuda-12"] == "9.20.0.48-1"
        assert found["libnccl2"] == found["libnccl-dev"] == "2.29.7-1+cuda13.0"


def test_compat_is_where_it_helps_and_may_be(host: Any, name: str) -> None:
    loader = host.file("/etc/ld.so.conf.d/00-gpufleet-cuda-compat.conf")
    if name == "h1":  # H100 on 570 with a toolkit of 580
        assert "/usr/local/cuda-13.0/compat" in loader.content_string
        assert "cuda-compat-13-0" in packages(host)
    else:  # GeForce: 12.9 would like 575, but forward compatibility is not for it
        assert not loader.exists
        assert not [package for package in packages(host) if "compat" in package and package.startswith("cuda")]


def test_all_that_came_is_held_and_recorded(host: Any) -> None:
    record = json.loads(host.check_output("cat /var/lib/gpufleet/cuda.json"))
    cuda = {package for package in packages(host) if package.startswith(("cuda-", "libcudnn", "libnccl"))}
    assert set(record["packages"]) == cuda
    assert cuda <= set(host.check_output("apt-mark showhold").split())


def test_second_run_asked_for_nothing(action_log: Any) -> None:
    assert action_log() == []
    # What the tests themselves ask for does not come from a module.
    assert [action for action in action_log("package-query") if "python" in action.caller] == []


def test_second_run_started_the_facts_module_alone(action_log: Any) -> None:
    ours = ("gpu_info", "host_lock", "cuda_packages", "cuda_runfile", "cuda_environment")
    assert [action.words for action in action_log("module") if action.words in ours] == ["gpu_info"]
