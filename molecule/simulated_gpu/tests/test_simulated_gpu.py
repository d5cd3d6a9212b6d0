"""Unmodified tools and the kernel's own places see a GPU server, before and after a reboot."""

from __future__ import annotations

from typing import Any

import pytest

GPUS = {"h1": 2, "h2": 3}
COUNT = (
    "import ctypes as c; l = c.CDLL('libnvidia-ml.so.1'); n = c.c_uint();"
    "print(l.nvmlInit_v2(), l.nvmlDeviceGetCount_v2(c.byref(n)), n.value)"
)


@pytest.fixture
def name(host: Any) -> str:
    return str(host.check_output("hostname"))


def test_lspci_sees_the_gpus(host: Any, name: str) -> None:
    lines = [line for line in host.check_output("lspci -n").splitlines() if "10de:" in line and (" 0302:" in line or " 0300:" in line)]
    assert len(lines) == GPUS[name]


def test_nvml_answers(host: Any, name: str) -> None:
    assert host.check_output(f'sudo python3 -c "{COUNT}"').split() == ["0", "0", str(GPUS[name])]


def test_nvidia_smi_lists_them(host: Any, name: str) -> None:
    assert len(host.check_output("nvidia-smi -L").splitlines()) == GPUS[name]


def test_driver_is_where_tools_look(host: Any) -> None:
    assert host.file("/sys/module/nvidia/version").content_string.strip() == "580.159.04"
    assert "580.159.04" in host.file("/proc/driver/nvidia/version").content_string
    assert host.file("/dev/nvidiactl").exists


def test_power_limit_is_volatile(host: Any) -> None:
    """Set here, gone after the reboot that the scenario makes between its two verify steps.

    Persistence first: without it a real driver forgets the limit as soon as the last client is gone.
    """
    ask = "nvidia-smi --query-gpu=power.limit,power.default_limit --format=csv,noheader,nounits -i 0"
    limit, default = (float(value) for value in host.check_output(ask).split(","))
    assert limit == default
    assert host.run("sudo nvidia-smi -i 0 -pm 1").rc == 0
    assert host.run(f"sudo nvidia-smi -i 0 -pl {default - 10:.0f}").rc == 0
    assert float(host.check_output(ask).split(",")[0]) == pytest.approx(default - 10, abs=1)


def test_second_run_asked_for_nothing(action_log: Any) -> None:
    assert action_log() == []


def test_system_is_healthy(host: Any) -> None:
    assert host.check_output("systemctl is-system-running") == "running"
    assert host.check_output("systemctl show -p Result --value simulated-gpu.service") == "success"
