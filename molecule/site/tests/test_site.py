"""The whole stack on a host: what runs is what was asked for, and a second run costs next to nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

DRIVER = "580.178.04"
GPUS = {"h1": [630.0] * 8, "h2": [315.0, 315.0, 405.0]}
"""90 % of the default limit of each GPU, in watts."""

HOST_TASKS = 30
MODULES = 12


@pytest.fixture
def name(host: Any) -> str:
    return str(host.ansible.get_variables()["inventory_hostname"])


def test_every_gpu_has_its_limit_and_persistence(host: Any, name: str) -> None:
    answer = host.run("nvidia-smi --query-gpu=power.limit,persistence_mode --format=csv,noheader,nounits")
    rows = [line.split(", ") for line in answer.stdout.splitlines()]
    assert [float(limit) for limit, _mode in rows] == GPUS[name], answer.stderr
    assert {mode for _limit, mode in rows} == {"Enabled"}


def test_the_second_run_asked_nothing_of_systemd_packages_or_engines(action_log: Callable[..., list[Any]]) -> None:
    assert action_log() == []
    assert action_log("package-change", "package-query") == []


def test_the_second_run_stays_within_its_budget_of_modules(action_log: Callable[..., list[Any]]) -> None:
    modules = action_log("module")
    assert 1 <= len(modules) <= MODULES, [action.words for action in modules]


def test_the_second_run_stays_within_its_budget_of_host_tasks(host_tasks: dict[str, int]) -> None:
    assert 3 <= host_tasks["total"] <= HOST_TASKS, host_tasks


# The last one: its own question would be in the log that the tests above read.
def test_the_driver_that_was_asked_for_runs(host: Any) -> None:
    assert DRIVER in host.file("/proc/driver/nvidia/version").content_string
    installed = host.run("dpkg-query -W -f '${Package} ${Version} ${db:Status-Want}\\n' libnvidia-ml1 nvidia-driver-cuda").stdout
    assert installed.split() == ["libnvidia-ml1", f"{DRIVER}-1", "hold", "nvidia-driver-cuda", f"{DRIVER}-1", "hold"]
    assert host.service("nvidia-persistenced").is_running
