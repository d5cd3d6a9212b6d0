"""nvidia-ml-py is on the host, works, and nothing else was touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PYTHON = "PYTHONPATH=/opt/gpufleet/python /usr/bin/python3 -B -c"


def test_the_binding_is_nvidias_own_and_any_user_may_import_it(host: Any) -> None:
    assert host.user().uid != 0
    answer = host.run(f"{PYTHON} 'import pynvml; print(pynvml.__file__, hasattr(pynvml, \"nvmlInitWithFlags\"))'")
    assert answer.stdout.split() == ["/opt/gpufleet/python/pynvml.py", "True"], answer.stderr


def test_it_reaches_the_driver_where_there_is_one(host: Any) -> None:
    name = host.ansible.get_variables()["inventory_hostname"]
    answer = host.run(f"{PYTHON} 'import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())'")
    if name == "h1":
        assert answer.stdout.strip() == "2", answer.stderr
    else:
        assert "NVML Shared Library Not Found" in answer.stderr


def test_nothing_else_of_ours_is_on_the_host(host: Any) -> None:
    assert host.file("/opt/gpufleet").listdir() == ["python"]
    assert not host.file("/etc/gpufleet").exists
    assert not [name for name in host.file("/opt").listdir() if name.startswith(".")]


def test_the_second_run_did_nothing(action_log: Callable[..., list[Any]]) -> None:
    assert action_log() == []
    assert action_log("package-query") == []


@pytest.mark.parametrize("limit", [3])
def test_the_second_run_costs_few_modules(action_log: Callable[..., list[Any]], limit: int) -> None:
    modules = action_log("module")
    assert 1 <= len(modules) <= limit, modules
