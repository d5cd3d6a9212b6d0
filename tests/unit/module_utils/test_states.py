# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every state of docs/states.md, reached for its own reason; each document is checked against the schema."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _nvml, _stack_state

IMPOSTOR = "def nvmlInit():\n    pass\n"
REAL_INTERFACE = "\n".join(
    f"def {name}(*args):\n    pass"
    for name in (
        "nvmlInitWithFlags",
        "nvmlShutdown",
        "nvmlDeviceGetCount",
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetPciInfo",
        "nvmlDeviceGetFieldValues",
    )
)


def test_ok(machine: Any) -> None:
    info = machine("h200x2").collect()
    assert (info["state"], info["reason"]) == ("ok", "")
    assert info["counts"] == {"pci": 2, "nvml": 2, "expected": None}
    assert info["nvml"]["driver_version"] == info["driver"]["loaded"]["version"] == "580.159.04"
    assert info["nvml"]["cuda_driver_version"] == "13.0"
    assert info["driver"]["loaded"]["kernel_modules"] == "open"
    assert info["fabric"]["ready"] is True
    gpu = info["gpus"][0]
    assert (gpu["product"], gpu["architecture"], gpu["compute_capability"]) == ("NVIDIA H200", "hopper", "9.0")
    assert gpu["power"]["limit_mw"] == gpu["power"]["max_limit_mw"] == 700000
    assert gpu["power"]["min_limit_mw"] == 200000
    assert gpu["nvlink"] == {"links": 18, "active": 18, "version": "4.0", "remote": "nvswitch"}
    assert gpu["driver_bound"] == "nvidia"
    assert gpu["temperature_c"]["gpu"] == 35
    assert gpu["ecc"]["current"] is gpu["ecc"]["pending"] is True
    assert gpu["row_remap"] == {"correctable": 0, "uncorrectable": 0, "pending": False, "failure": False}
    assert gpu["recovery_action"] == "none"
    assert gpu["errors"] == {}


def test_details_are_read_when_asked_for(machine: Any) -> None:
    host = machine("h200x2")
    lean, full = host.collect()["gpus"][0], host.collect(details=True)["gpus"][0]
    assert lean["inforom"] is None
    assert full["inforom"] == "G520.0282.02.02"
    assert lean["power"]["enforced_limit_mw"] is None
    assert full["power"]["enforced_limit_mw"] == 700000
    assert full["pcie"]["gen"] == 5
    assert (lean["temperature_c"]["memory"], full["temperature_c"]["memory"]) == (None, 35)
    assert (lean["clocks_mhz"], full["clocks_mhz"]["max_graphics"]) == (None, 1980)
    assert (lean["throttle_reasons"], full["throttle_reasons"]) == ([], ["gpu_idle"])
    assert (lean["ecc"]["volatile_uncorrected"], full["ecc"]["volatile_uncorrected"]) == (None, 0)
    assert full["temperature_c"]["slowdown"] == 89
    assert full["errors"] == {}


def test_no_gpu(host: Any) -> None:
    info = host.collect()
    assert info["state"] == "no_gpu"
    assert info["nvml"]["state"] == "no_driver"
    assert host.collect(expected=8)["reason"] == "no NVIDIA GPU on the PCI bus, 8 expected"


def test_no_driver(host: Any) -> None:
    host.pci("0000:1b:00.0", driver="nouveau")
    host.dpkg("nvidia-container-toolkit 1.17.8-1", "cuda-toolkit-12-4 12.4.1-1", "nvtop 3.0.1-1")  # none of these is a driver
    info = host.collect()
    assert (info["state"], info["reason"]) == ("no_driver", "no NVIDIA driver is installed, nouveau holds the GPUs")
    assert info["gpus"][0]["state"] == "unavailable"
    assert info["gpus"][0]["pci_device_id"] == "2330"
    assert info["gpus"][0]["product"] is None
    assert info["driver"]["nouveau"]["bound"] == ["0000:1b:00.0"]


def test_module_not_loaded(machine: Any) -> None:
    host = machine("h200x2")
    host.simulate("unload")
    info = host.collect()
    assert info["state"] == "module_not_loaded"
    assert info["driver"]["loaded"] is None
    assert info["nvml"]["error"] == {"code": 9, "name": "DRIVER_NOT_LOADED", "text": "Driver Not Loaded"}
    assert [gpu["state"] for gpu in info["gpus"]] == ["unavailable", "unavailable"]


def test_mismatch(machine: Any) -> None:
    host = machine("h200x2")
    host.simulate("fault", "mismatch", "570.86.15")
    info = host.collect()
    assert info["state"] == "mismatch"
    assert info["reason"] == "libnvidia-ml.so.1 is version 580.159.04, the loaded module 570.86.15"
    assert info["nvml"]["error"]["code"] == 18


def test_mismatch_is_seen_without_pynvml(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    host = machine("h200x2")
    host.simulate("fault", "mismatch", "570.86.15")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "site-packages" not in path])
    info = host.collect()
    assert info["nvml"]["state"] == "no_pynvml"
    assert info["state"] == "mismatch"


def test_half_the_gpus_lost_the_others_are_reported(machine: Any) -> None:
    host = machine("h100-sxm")
    for index in (1, 3, 5, 7):
        host.simulate("fault", "lost", "--gpu", str(index))
    info = host.collect()
    assert info["state"] == "lost"
    assert info["reason"].startswith("4 of 8 GPUs do not answer: ")
    assert [gpu["state"] for gpu in info["gpus"]] == ["ok", "lost"] * 4
    good = info["gpus"][0]
    assert good["power"]["limit_mw"] == 700000
    assert good["uuid"].startswith("GPU-")
    assert {gpu["errors"]["device"] for gpu in info["gpus"] if gpu["state"] == "lost"} == {"GPU_IS_LOST"}


def test_a_gpu_that_nvml_does_not_even_count_is_lost(machine: Any) -> None:
    host = machine("h200x2")
    host.pci("0000:99:00.0", driver="nvidia")
    info = host.collect()
    assert info["counts"] == {"pci": 3, "nvml": 2, "expected": None}
    assert info["state"] == "lost"
    assert info["gpus"][2]["errors"] == {"device": "NOT_ENUMERATED"}


def test_a_gpu_that_fell_off_the_bus_is_missed_by_its_expectation(machine: Any) -> None:
    host = machine("h100-sxm")
    host.simulate("fault", "missing", "--gpu", "2")
    info = host.collect(expected=8)
    assert (info["state"], info["reason"]) == ("lost", "7 GPUs are on the PCI bus, 8 expected")
    assert host.collect()["state"] == "ok"


def test_a_gpu_bound_elsewhere_is_not_lost(machine: Any) -> None:
    host = machine("h200x2")
    host.pci("0000:99:00.0", driver="vfio-pci")
    info = host.collect()
    assert info["state"] == "ok"
    assert [gpu["state"] for gpu in info["gpus"]] == ["ok", "ok", "unavailable"]


def test_one_failing_call_is_one_error(machine: Any) -> None:
    host = machine("h200x2")
    host.simulate("fault", "call.nvmlDeviceGetComputeMode", "999", "--gpu", "1")
    first, second = host.collect()["gpus"]
    assert second["errors"] == {"compute_mode": "UNKNOWN"}
    assert second["power"]["limit_mw"] == 700000
    assert first["errors"] == {}
    assert (second["compute_mode"], first["compute_mode"]) == (None, "default")


def test_no_library(machine: Any) -> None:
    host = machine("h200x2")
    library = Path(host.options.library)
    library.unlink()
    info = host.collect()
    assert info["state"] == "no_library"
    assert info["nvml"]["error"]["name"] == "LIBRARY_NOT_FOUND"
    assert info["driver"]["library"] is None


def test_no_pynvml(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    host = machine("h200x2")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "site-packages" not in path])
    info = host.collect()
    assert info["state"] == "no_pynvml"
    assert "gpu_preflight" in info["reason"]
    assert info["nvml"]["pynvml"] is None
    assert info["counts"] == {"pci": 2, "nvml": None, "expected": None}


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"pynvml.py": IMPOSTOR}, "it has no NVMLError"),
        ({"pynvml.py": "class NVMLError(Exception): pass\n", "nvidia_ml_py-9.0.dist-info/METADATA": ""}, "it has no nvmlInitWithFlags"),
        (
            {"pynvml/__init__.py": "class NVMLError(Exception): pass\n" + REAL_INTERFACE, "pynvml-11.5.0.dist-info/METADATA": ""},
            "belongs to pynvml, not to nvidia-ml-py",
        ),
        ({"pynvml.py": "import no_such_module\n"}, "cannot be imported"),
        ({"pynvml.py": "raise RuntimeError('boo')\n"}, "cannot be imported (RuntimeError('boo'))"),
    ],
)
def test_impostors(machine: Any, files: dict[str, str], reason: str) -> None:
    host = machine("h200x2")
    for name, content in files.items():
        host.write(f"opt/gpufleet/python/{name}", content)
    info = host.collect()
    assert info["state"] == "impostor_pynvml"
    assert reason in info["reason"]
    assert "install nvidia-ml-py" in info["reason"]


def test_ours_wins_over_an_impostor(machine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = machine("h200x2")
    import pynvml

    for found in Path(pynvml.__file__).parent.glob("nvidia_ml_py-*"):
        host.write(f"opt/gpufleet/python/{found.name}/METADATA")
    host.write("opt/gpufleet/python/pynvml.py", Path(pynvml.__file__).read_text())
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/pynvml.py").write_text(IMPOSTOR)
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    info = host.collect()
    assert info["state"] == "ok"
    assert info["nvml"]["pynvml"]["path"] == str(host.root / "opt/gpufleet/python/pynvml.py")
    assert info["nvml"]["pynvml"]["version"]


def test_permission_denied_at_init(machine: Any) -> None:
    host = machine("h200x2")
    host.simulate("fault", "no_access")
    info = host.collect()
    assert (info["state"], info["reason"]) == ("error", "this user may not talk to the NVIDIA driver")


def test_a_crash_in_the_library_is_a_state(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    host = machine("h200x2")

    def crash(_session: Any, _request: Any) -> None:
        import ctypes

        ctypes.string_at(0)

    outcome = _nvml.run_bounded(crash, {}, host.options)
    assert outcome.state == "error"
    assert "killed by signal 11" in outcome.reason


def test_the_order_of_states() -> None:
    """What is missing at the bottom of the stack wins over what follows from it."""
    driver: dict[str, Any] = {
        "installed": None,
        "loaded": None,
        "library": None,
        "nouveau": {"bound": [], "loaded": False},
    }
    counts = {"pci": 1, "nvml": None, "expected": 4}
    gpus = [{"state": "lost", "pci_address": "0000:01:00.0"}]
    nvml = {"state": "no_pynvml", "reason": "none"}

    def state() -> str:
        return _stack_state.stack_state(driver, nvml, gpus, counts)[0]

    assert state() == "no_driver"
    nvml.update(state="hung")
    assert state() == "hung"
    nvml.update(state="no_pynvml")
    driver["installed"] = {"module_version": "570.1.1"}
    assert state() == "module_not_loaded"
    driver["loaded"] = {"version": "570.1.1"}
    driver["library"] = {"version": "580.1.1"}
    assert state() == "mismatch"
    driver["library"] = {"version": "570.1.1"}
    assert state() == "no_pynvml"
    nvml.update(state="hung", reason="it hangs")
    assert state() == "hung"
    nvml.update(state="ok", reason="")
    assert state() == "lost"
    gpus[0]["state"] = "ok"
    assert state() == "lost"
    counts["expected"] = 1
    assert state() == "ok"
    gpus.clear()
    assert state() == "no_gpu"
