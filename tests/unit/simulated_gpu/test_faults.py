"""Each fault, seen as a client sees it, and gone again."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from .conftest import FILES, Sim

NAME = "try:\n    out = p.nvmlDeviceGetName(p.nvmlDeviceGetHandleByIndex({}))\nexcept p.NVMLError as e:\n    out = e.value"


@pytest.mark.parametrize(("fault", "code"), [("no_driver", 9), ("mismatch", 18), ("no_access", 4), ("unknown", 999)])
def test_init_faults(sim: Sim, fault: str, code: int) -> None:
    assert sim.sg("fault", fault) == "changed"
    assert sim.init_code() == code
    assert sim.sg("fault", fault) == "unchanged"
    sim.sg("fault", fault, "--off")
    assert sim.init_code() == 0


@pytest.mark.parametrize(
    ("fault", "status", "text"),
    [
        (
            "no_driver",
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
            "Make sure that the latest NVIDIA driver is installed and running.\n\n",
        ),
        ("mismatch", 18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.159\n"),
        ("no_device", 6, "No devices were found\n"),
        ("lost", 15, "Unable to determine the device handle for GPU0000:00:06.0: GPU is lost.  Reboot the system to recover this GPU\n"),
    ],
)
def test_what_nvidia_smi_says(sim: Sim, fault: str, status: int, text: str) -> None:
    sim.sg("fault", fault, *(["--gpu", "0"] if fault == "lost" else []))
    assert sim.smi(status=status) == text
    assert sim.smi("--query-gpu=name", "--format=csv", status=status) == text


def test_no_library(sim: Sim) -> None:
    sim.sg("driver", "none")
    assert sim.smi(status=12).startswith("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.")


def test_mismatch_shows_outside_of_nvml_too(sim: Sim) -> None:
    sim.sg("fault", "mismatch", "570.86.15")
    assert sim.read("/sys/module/nvidia/version") == "570.86.15\n"
    assert "570.86.15" in sim.read("/proc/driver/nvidia/version")
    sim.boot()  # a reboot loads the installed module
    assert sim.init_code() == 0


def test_a_persistent_mismatch_is_a_stale_initramfs(sim: Sim) -> None:
    sim.sg("fault", "mismatch", "570.86.15", "--persistent")
    sim.boot()
    assert sim.init_code() == 18
    assert sim.read("/sys/module/nvidia/version") == "570.86.15\n"


def test_lost_gpu_leaves_the_others(sim: Sim) -> None:
    sim.sg("fault", "lost", "--gpu", "00:07.0")
    assert sim.python(NAME.format(0)) == "NVIDIA H200"
    assert sim.python(NAME.format(1)) == 15
    sim.sg("fault", "none")
    assert sim.python(NAME.format(1)) == "NVIDIA H200"


def test_missing_gpu_is_nowhere(sim: Sim) -> None:
    sim.sg("fault", "missing", "--gpu", "0")
    assert sim.query("index,pci.bus_id") == ["0, 00000000:00:07.0"]
    assert not (sim.root / "sys/bus/pci/devices/0000:00:06.0").exists()
    sim.sg("fault", "missing", "--gpu", "0", "--off")
    assert len(sim.query("index")) == 2
    assert (sim.root / "sys/bus/pci/devices/0000:00:06.0/config").exists()


def test_hang_ends_with_a_signal(sim: Sim) -> None:
    sim.sg("fault", "hang")
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", "import pynvml as p; p.nvmlInit()"], env=sim.environment(), timeout=1.5, check=False)


def test_hang_for_a_time_and_slow(sim: Sim) -> None:
    sim.sg("fault", "hang", "1", "--gpu", "1")
    timed = "import time\nt = time.monotonic()\np.nvmlDeviceGetName(p.nvmlDeviceGetHandleByIndex({}))\nout = time.monotonic() - t"
    assert sim.python(timed.format(0)) < 0.5
    assert sim.python(timed.format(1)) > 0.9
    sim.sg("fault", "none")
    sim.sg("fault", "slow", "120", "--gpu", "0")
    assert 0.1 < sim.python(timed.format(0)) < 1.0


def test_hang_path_blocks_in_open_and_read(sim: Sim, tmp_path: Path) -> None:
    """A named pipe stands for the FUSE file that a real test blocks: the client is inside the system call until someone writes."""
    pipe = tmp_path / "blocked"
    os.mkfifo(pipe)
    sim.sg("fault", "hang_path", str(pipe))
    started = time.monotonic()
    timer = threading.Timer(1.0, lambda: pipe.write_bytes(b"x"))
    timer.start()
    assert sim.init_code() == 0
    assert time.monotonic() - started > 0.9
    timer.join()


def test_permission_and_support(sim: Sim) -> None:
    setter = "try:\n    p.nvmlDeviceSetPowerManagementLimit(h, 500000)\n    out = 0\nexcept p.NVMLError as e:\n    out = e.value"
    for fault, code in (("no_permission", 4), ("not_supported", 3)):
        sim.sg("fault", fault, "--gpu", "0")
        assert sim.python(setter) == code
        sim.sg("fault", "none")
    assert sim.python(setter) == 0


def test_one_function_fails(sim: Sim) -> None:
    sim.sg("fault", "call.nvmlDeviceGetTemperature", "3", "--gpu", "0")
    assert sim.query("temperature.gpu") == ["[N/A]", "37"]


@pytest.mark.parametrize(
    ("fault", "fields", "shown", "before"),
    [
        (["ecc", "7"], "ecc.errors.uncorrected.volatile.dram,ecc.errors.uncorrected.aggregate.total", "7, 7", "0, 0"),
        (["row_remap_pending", "2"], "remapped_rows.uncorrectable,remapped_rows.pending", "2, Yes", "0, No"),
        (["row_remap_failure"], "remapped_rows.failure", "Yes", "No"),
        (
            ["throttle", "0x40"],
            "clocks_event_reasons.hw_thermal_slowdown,clocks_event_reasons.gpu_idle",
            "Active, Not Active",
            "Not Active, Active",
        ),
        (["fabric"], "fabric.state,fabric.status", "In Progress, N/A", "Completed, Success"),
        (["fabric_status", "3"], "fabric.state,fabric.status", "Completed, Failure (3)", "Completed, Success"),
        (["reset_required"], "gpu_recovery_action", "Reset", "None"),
    ],
)
def test_readings_faults(sim: Sim, fault: list[str], fields: str, shown: str, before: str) -> None:
    sim.sg("fault", *fault, "--gpu", "1")
    assert sim.query(fields) == [before, shown]
    sim.sg("fault", fault[0], "--off")
    assert sim.query(fields) == [before, before]


def test_nvlink_down(sim: Sim) -> None:
    sim.sg("fault", "nvlink_down", "0,3", "--gpu", "0")
    links = "out = [p.nvmlDeviceGetNvLinkState(h, n) for n in range(18)]"
    assert [n for n, up in enumerate(sim.python(links)) if not up] == [0, 3]
    sim.sg("fault", "nvlink_down", "--gpu", "0")
    assert not any(sim.python(links))


def test_xid_event(sim: Sim) -> None:
    code = f"""
s = p.nvmlEventSetCreate()
p.nvmlDeviceRegisterEvents(h, p.nvmlEventTypeXidCriticalError, s)
try:
    p.nvmlEventSetWait_v2(s, 50); out = ["too early"]
except p.NVMLError as e:
    out = [e.value]
import subprocess, sys
subprocess.run([{str(FILES / "bin/simulated-gpu")!r}, "set", "xid", "79", "--gpu", "0"], check=True, stdout=-3)
e = p.nvmlEventSetWait_v2(s, 2000)
out += [e.eventType, e.eventData]
"""
    assert sim.python(code) == [10, 8, 79]


def test_process_table(sim: Sim) -> None:
    child = subprocess.Popen(["sleep", "60"])
    sim.sg("process", "add", "--pid", str(child.pid), "--memory", "1024", "--gpu", "0")
    sim.sg("process", "add", "--pid", "4000000", "--memory", "2048", "--gpu", "0", "--foreign", "--kind", "mps")
    assert sim.query("memory.used") == ["3072", "0"]
    assert sim.smi("--query-compute-apps=pid,name,used_memory", "--format=csv,noheader").splitlines() == [
        f"{child.pid}, sleep, 1024 MiB",
        "4000000, [Not Found], 2048 MiB",
    ]
    assert "sleep" in sim.smi()
    child.kill()
    child.wait()
    assert sim.query("memory.used") == ["2048", "0"]  # an ended process frees its memory
    sim.sg("process", "remove", "--pid", "4000000", "--gpu", "0")
    assert sim.query("memory.used") == ["0", "0"]
    assert sim.sg("process", "add", "--pid", "4000000", status=2) == ""


def test_process_run_keeps_the_pid(sim: Sim) -> None:
    done = sim.tool(
        "simulated-gpu",
        "process",
        "run",
        "--gpu",
        "0",
        "--memory",
        "100",
        "--",
        sys.executable,
        "-c",
        "import os, pynvml as p; p.nvmlInit(); q = p.nvmlDeviceGetComputeRunningProcesses(p.nvmlDeviceGetHandleByIndex(0)); "
        "print(q[0].pid == os.getpid(), q[0].usedGpuMemory >> 20)",
    )
    assert done.stdout == "True 100\n"


def test_set_readings(sim: Sim) -> None:
    sim.sg("set", "temperature", "91", "--gpu", "0")
    sim.sg("set", "memory_used", "4096", "--gpu", "0")
    sim.sg("set", "utilization", "98", "--gpu", "0")
    assert sim.query("temperature.gpu,temperature.gpu.tlimit,memory.used,utilization.gpu", "-i", "0") == ["91, -4, 4096, 98"]
    sim.sg("set", "temperature", "default", "--gpu", "0")
    assert sim.query("temperature.gpu", "-i", "0") == ["35"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["fault", "losst"], "no fault 'losst'; there are: no_driver, "),
        (["fault", "no_driver", "--gpu", "0"], "fault 'no_driver' is for the whole machine: leave out --gpu"),
        (["fault", "lost", "--gpu", "7"], "no GPU '7'; there are: 0 GPU-00000000-aaaa-bbbb-cccc-000000000000 0000:00:06.0, 1 "),
        (["set", "temperatur", "3"], "nothing named 'temperatur' to set; there are: xid, temperature, "),
        (["set", "temperature", "warm"], "temperature: 'warm' is not a value for it; expected: degrees C, or default"),
        (["profile", "h300"], "no profile 'h300'; there are: a100-pcie, "),
        (["process", "run"], "process run: give the command after --"),
    ],
)
def test_bad_input(sim: Sim, words: list[str], text: str) -> None:
    done = sim.tool("simulated-gpu", *words, status=2)
    assert done.stderr.startswith(f"simulated-gpu: {text}")
    assert "Traceback" not in done.stderr


def test_lasting_faults_become_exactly_those_asked_for(make: Any) -> None:
    sim = make("l40s")
    wanted = '[{"name": "lost", "gpu": "1"}, {"name": "slow", "value": "1"}]'
    assert sim.sg("faults", wanted, "--check") == "changed"
    assert sim.sg("faults", wanted) == "changed"
    assert sim.sg("faults", wanted) == "unchanged"
    sim.boot()
    assert sim.python(NAME.format(1)) == 15
    assert sim.sg("faults", "[]") == "changed"
    assert sim.python(NAME.format(1)) == "NVIDIA L40S"
