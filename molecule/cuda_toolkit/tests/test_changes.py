"""After its life's story the toolkit stands beside the one that a person installed."""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def only_h3(host: Any) -> None:
    if host.check_output("hostname") != "h3":
        pytest.skip("h1 and h2 are test_cuda_toolkit.py's")


def test_both_toolkits_work(host: Any) -> None:
    assert "release 12.8" in host.check_output("/usr/local/cuda-12.8/bin/nvcc --version")
    assert "V12.4.131" in host.check_output("/usr/local/cuda-12.4/bin/nvcc --version")


def test_only_ours_is_recorded_and_held(host: Any) -> None:
    record = json.loads(host.check_output("cat /var/lib/gpufleet/cuda.json"))
    assert "cuda-toolkit-12-8" in record["packages"]
    assert not [name for name in record["packages"] if "12-4" in name or name.startswith("libcudnn")]
    assert "libcudnn9-cuda-12" not in record["holds"]
    assert "libcudnn9-cuda-12" in host.check_output("apt-mark showhold").split()


def test_second_run_asked_for_nothing(action_log: Any) -> None:
    assert action_log() == []
    # What the tests themselves ask for does not come from a module.
    assert [action for action in action_log("package-query") if "python" in action.caller] == []
