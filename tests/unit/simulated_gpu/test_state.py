"""Settings stick, are checked as the device checks them, and go when a real driver would forget them."""

from __future__ import annotations

import os
from typing import Any

import pytest

from .conftest import DRIVER, Sim

SET = "try:\n    {call}\n    out = 0\nexcept p.NVMLError as e:\n    out = e.value"


def answer(sim: Sim, call: str) -> int:
    code: int = sim.python(SET.format(call=call))
    return code


def ecc(sim: Sim, gpu: int = 0) -> list[int]:
    value: list[int] = sim.python(f"out = p.nvmlDeviceGetEccMode(p.nvmlDeviceGetHandleByIndex({gpu}))")
    return value


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("p.nvmlDeviceSetPowerManagementLimit(h, 500000)", 0),
        ("p.nvmlDeviceSetPowerManagementLimit(h, 199999)", 2),
        ("p.nvmlDeviceSetPowerManagementLimit(h, 700001)", 2),
        ("p.nvmlDeviceSetGpuLockedClocks(h, 345, 1200)", 0),
        ("p.nvmlDeviceSetGpuLockedClocks(h, 345, 1995)", 2),
        ("p.nvmlDeviceSetGpuLockedClocks(h, 1200, 345)", 2),
        ("p.nvmlDeviceSetGpuLockedClocks(h, 0, 100)", 2),
        ("p.nvmlDeviceSetMemoryLockedClocks(h, 2201, 3201)", 0),
        ("p.nvmlDeviceSetMemoryLockedClocks(h, 2201, 9999)", 2),
        ("p.nvmlDeviceSetApplicationsClocks(h, 3201, 1200)", 0),
        ("p.nvmlDeviceSetApplicationsClocks(h, 3201, 1201)", 2),
        ("p.nvmlDeviceSetComputeMode(h, 3)", 0),
        ("p.nvmlDeviceSetComputeMode(h, 9)", 2),
        ("p.nvmlDeviceSetComputeMode(h, 1)", 3),
        ("p.nvmlDeviceSetPersistenceMode(h, 2)", 2),
        ("p.nvmlDeviceSetEccMode(h, 2)", 2),
        ("p.nvmlDeviceSetMigMode(h, 7)", 2),
    ],
)
def test_setters_check_their_range(sim: Sim, call: str, code: int) -> None:
    assert answer(sim, call) == code


def test_power_limit_is_read_back_everywhere(sim: Sim) -> None:
    sim.smi("-i", "1", "-pl", "450")
    assert sim.query("power.limit,enforced.power.limit,power.default_limit") == ["700.00, 700.00, 700.00", "450.00, 450.00, 700.00"]
    assert sim.python(
        "h = p.nvmlDeviceGetHandleByIndex(1); out = [v.value.uiVal for v in p.nvmlDeviceGetFieldValues(h, [190, 192, 189])]"
    ) == [450000, 450000, 700000]


def test_locked_clocks_clamp_what_runs(sim: Sim) -> None:
    sim.sg("set", "graphics_clock", "1980")
    sim.smi("-lgc", "345,1200", "-i", "0")
    assert sim.query("clocks.current.graphics") == ["1200", "1980"]
    sim.smi("-rgc", "-i", "0")
    assert sim.query("clocks.current.graphics") == ["1980", "1980"]


def test_a_draw_above_the_limit_is_cut_and_called_power_cap(sim: Sim) -> None:
    sim.sg("set", "power", "690")
    sim.smi("-pl", "500", "-i", "0")
    assert sim.query("power.draw,clocks_event_reasons.sw_power_cap") == ["500.00, Active", "690.00, Not Active"]


def test_settings_go_with_the_last_client_unless_persistent(make: Any) -> None:
    sim = make("h100-sxm", count=2)  # persistence mode is off after a boot
    sim.smi("-i", "0", "-pl", "400")
    assert sim.query("power.limit") == ["700.00", "700.00"]
    sim.smi("-i", "1", "-pm", "1")
    sim.smi("-pl", "400")
    assert sim.query("power.limit") == ["700.00", "400.00"]


def test_settings_stay_while_another_client_is_there(make: Any) -> None:
    sim = make("h100-sxm", count=1)
    code = (
        "p.nvmlDeviceSetPowerManagementLimit(h, 400000)\nimport subprocess, sys\n"
        "inner = 'import pynvml as p; p.nvmlInit(); print(p.nvmlDeviceGetPowerManagementLimit(p.nvmlDeviceGetHandleByIndex(0)))'\n"
        "out = int(subprocess.run([sys.executable, '-c', inner], capture_output=True, text=True).stdout)"
    )
    assert sim.python(code) == 400000
    assert sim.query("power.limit") == ["700.00"]


def test_a_forked_child_that_ends_is_no_client_that_left(make: Any) -> None:
    sim = make("h100-sxm", count=1)
    code = (
        "import os, sys\np.nvmlDeviceSetPowerManagementLimit(h, 400000)\n"
        "pid = os.fork()\nif not pid: sys.exit(0)\nos.waitpid(pid, 0)\nout = p.nvmlDeviceGetPowerManagementLimit(h)"
    )
    assert sim.python(code) == 400000


def test_a_process_keeps_the_settings(make: Any) -> None:
    sim = make("h100-sxm", count=1)
    sim.sg("process", "add", "--pid", str(os.getpid()))
    sim.smi("-pl", "400")
    assert sim.query("power.limit") == ["400.00"]


def test_reboot(sim: Sim) -> None:
    sim.smi("-pl", "500")
    sim.smi("-c", "EXCLUSIVE_PROCESS", "-i", "0")
    sim.smi("-e", "0", "-i", "1")
    sim.sg("set", "temperature", "80")
    assert ecc(sim, 1) == [1, 0]
    sim.boot()
    assert sim.query("power.limit,compute_mode,temperature.gpu") == ["700.00, Default, 35", "700.00, Default, 37"]
    assert (ecc(sim, 0), ecc(sim, 1)) == ([1, 1], [0, 0])


def test_unload_drops_settings_but_not_pending_modes(sim: Sim) -> None:
    sim.smi("-pl", "500")
    sim.smi("-e", "0")
    sim.sg("unload")
    assert sim.init_code() == 9
    sim.sg("load")
    assert sim.query("power.limit") == ["700.00", "700.00"]
    assert ecc(sim) == [1, 0]


def test_unload_is_refused_while_in_use(sim: Sim) -> None:
    sim.sg("process", "add", "--pid", str(os.getpid()))
    done = sim.tool("simulated-gpu", "unload", status=1)
    assert done.stderr == "rmmod: ERROR: Module nvidia is in use\n"


def test_mig_mode_on_hopper_is_immediate_and_volatile(sim: Sim) -> None:
    sim.smi("-i", "0", "-mig", "1")
    assert sim.query("mig.mode.current,mig.mode.pending") == ["Enabled, Enabled", "Disabled, Disabled"]
    sim.boot()
    assert sim.query("mig.mode.current") == ["Disabled", "Disabled"]


def test_mig_mode_on_ampere_survives_a_reboot_and_waits_for_an_idle_gpu(make: Any) -> None:
    sim = make("a100-pcie")
    sim.sg("process", "add", "--pid", str(os.getpid()), "--gpu", "0")
    assert "pending enable state" in sim.smi("-mig", "1")
    assert sim.query("mig.mode.current,mig.mode.pending") == ["Disabled, Enabled", "Enabled, Enabled"]
    sim.boot()
    assert sim.query("mig.mode.current,mig.mode.pending") == ["Enabled, Enabled", "Enabled, Enabled"]


def test_mig_instances(sim: Sim) -> None:
    sim.smi("-i", "0", "-mig", "1")
    code = """
gi = p.nvmlDeviceCreateGpuInstance(h, 9)
ci = p.nvmlGpuInstanceCreateComputeInstance(gi, 2)
m = p.nvmlDeviceGetMigDeviceHandleByIndex(h, 0)
out = [p.nvmlDeviceGetName(m), p.nvmlDeviceGetUUID(m)[:4], p.nvmlDeviceGetGpuInstanceId(m), p.nvmlDeviceGetMemoryInfo(m).total >> 20,
       p.nvmlDeviceGetMaxMigDeviceCount(h),
       p.nvmlDeviceGetGpuInstanceRemainingCapacity(h, 9), p.nvmlDeviceGetGpuInstanceRemainingCapacity(h, 0),
       p.nvmlGpuInstanceGetInfo(gi).profileId]
try:
    p.nvmlGpuInstanceDestroy(gi)
except p.NVMLError as e:
    out.append(e.value)
"""
    assert sim.python(code) == ["NVIDIA H200 MIG 3g.71gb", "MIG-", 1, 71424, 7, 1, 0, 9, 19]
    assert sim.smi("-L").splitlines()[1].startswith("  MIG 3g.71gb       Device  0: (UUID: MIG-")
    sim.boot()
    assert len(sim.smi("-L").splitlines()) == 2


def test_only_root_sets(sim: Sim) -> None:
    """As nobody: the folder is then not ours to write, which is what counts below a relocated root."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    for path in (sim.root, *sim.root.parents):
        if path.stat().st_uid == 0 and path != path.parent and str(path).startswith("/tmp"):
            path.chmod(path.stat().st_mode | 0o055)
    code = "import os\nos.setgroups([]); os.setgid(65534); os.setuid(65534)\n" + SET.format(
        call="p.nvmlDeviceSetPowerManagementLimit(h, 500000)"
    )
    assert sim.python(code) == 4
    assert sim.python(code.replace("p.nvmlDeviceSetPowerManagementLimit(h, 500000)", "assert p.nvmlDeviceGetName(h) == 'NVIDIA H200'")) == 0


@pytest.mark.parametrize(
    "profile",
    [
        "h200x2",
        "h100-sxm",
        "a100-pcie",
        "a100-sxm",
        "l40s",
        "l4",
        "t4",
        "rtx4090",
        "rtx4060-laptop",
        "b200",
        "gb200-nvl72",
        "gh200",
        "v100",
        "mixed",
    ],
)
def test_every_profile_runs(make: Any, profile: str) -> None:
    sim = make(profile)
    assert "NVIDIA" in sim.smi()
    sim.smi("-q")
    facts = sim.python(
        "hs = [p.nvmlDeviceGetHandleByIndex(i) for i in range(p.nvmlDeviceGetCount())]\n"
        "out = [[p.nvmlDeviceGetUUID(x), p.nvmlDeviceGetPciInfo(x).busId] for x in hs]"
    )
    assert len({uuid for uuid, _bus in facts}) == len({bus for _uuid, bus in facts}) == len(facts) > 0


def test_a_laptop_has_no_power_limit(make: Any) -> None:
    sim = make("rtx4060-laptop")
    assert answer(sim, "p.nvmlDeviceGetPowerManagementLimit(h)") == 3
    assert answer(sim, "p.nvmlDeviceSetPowerManagementLimit(h, 60000)") == 3
    assert sim.smi("-pl", "60").startswith("Changing power management limit is not supported for GPU: 00000000:01:00.0.")


def test_count_and_seed(make: Any) -> None:
    a, b = make("l4", count=3, seed="a"), make("l4", count=3, seed="b")
    assert len(a.query("uuid")) == 3
    assert set(a.query("uuid")) & set(b.query("uuid")) == set()
    a.boot()
    assert a.query("uuid,serial,pci.bus_id")[0].endswith("00000000:00:03.0")


@pytest.mark.parametrize(
    ("version", "cuda", "nvml"),
    [
        ("535.104.05", 12020, "12.535.104.05"),
        ("550.54.14", 12040, "12.550.54.14"),
        (DRIVER, 13000, f"13.{DRIVER}"),
        ("620.70.06", 13050, "13.620.70.06"),
    ],
)
def test_versions_follow_the_library_file(make: Any, version: str, cuda: int, nvml: str) -> None:
    sim = make("l4", driver=version)
    assert sim.python("out = [p.nvmlSystemGetDriverVersion(), p.nvmlSystemGetCudaDriverVersion(), p.nvmlSystemGetNVMLVersion()]") == [
        version,
        cuda,
        nvml,
    ]
