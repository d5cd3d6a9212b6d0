# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA, containers, units, managers and our own files on a host."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import (
    _container_facts,
    _cuda_facts,
    _managers,
    _packages,
    _paths,
    _state_files,
    _units,
)


def _cuda(host: Any) -> dict[str, Any]:
    reader = host.reader()
    return _cuda_facts.read_cuda(reader, _packages.read_packages(reader, "debian"))


def test_toolkits(host: Any) -> None:
    host.write("usr/local/cuda-12.4/version.json", json.dumps({"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}))
    host.write("usr/local/cuda-10.2/version.txt", "CUDA Version 10.2.89\n")
    host.write("usr/local/cuda-13.0/bin/nvcc")
    host.write("usr/local/cuda-12.9/compat/libcuda.so.575.57.08")  # forward compatibility alone is no toolkit
    host.link("usr/local/cuda-12.9/compat/libcuda.so.1", "libcuda.so.575.57.08")
    host.link("usr/local/cuda", "cuda-12.4")
    host.link("usr/local/cuda-12", "cuda-12.4")
    host.dpkg("cuda-toolkit-12-4 12.4.1-1", "cuda-compat-12-9 575.57.08-1")
    found = _cuda(host)
    assert found["toolkits"] == [
        {"version": "10.2.89", "path": "/usr/local/cuda-10.2", "origin": "runfile", "default": False, "nvcc": None},
        {"version": "12.4.1", "path": "/usr/local/cuda-12.4", "origin": "package", "default": True, "nvcc": None},
        {"version": "13.0", "path": "/usr/local/cuda-13.0", "origin": "runfile", "default": False, "nvcc": ""},
    ]
    assert found["compat"] == [{"version": "575.57.08", "path": "/usr/local/cuda-12.9/compat"}]


def test_debians_own_toolkit(host: Any) -> None:
    host.dpkg("nvidia-cuda-toolkit 11.8.89~11.8.0-5~deb12u1")
    toolkit = {"version": "11.8.89", "path": "/usr/lib/nvidia-cuda-toolkit", "origin": "package", "default": True, "nvcc": ""}
    assert _cuda(host)["toolkits"] == [toolkit]


def test_a_broken_version_file_is_no_toolkit(host: Any) -> None:
    host.write("usr/local/cuda-12.4/version.json", "{ broken")
    assert _cuda(host)["toolkits"] == []


def test_cudnn_and_nccl(host: Any) -> None:
    host.dpkg(
        "libcudnn9-cuda-12 9.1.0.70-1",
        "libcudnn8 8.9.7.29-1+cuda11.8",
        "libnccl2 2.21.5-1+cuda12.4",
        "libcudnn9-headers-cuda-12 9.1.0.70-1",
    )
    host.write("usr/lib/x86_64-linux-gnu/libnccl.so.2.19.3")
    host.write("usr/lib/x86_64-linux-gnu/libcudnn.so.9.1.0")
    found = _cuda(host)
    assert found["cudnn"] == [{"version": "9.1.0.70", "cuda_major": 12}, {"version": "8.9.7.29", "cuda_major": 11}]
    assert found["nccl"] == [{"version": "2.21.5", "cuda_major": 12}, {"version": "2.19.3", "cuda_major": None}]


CDI_YAML = """---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidiactl
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia1
  name: "1"
- name: all
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/nvidia1
kind: nvidia.com/gpu
"""


def _containers(host: Any, units: dict[str, Any] | None = None) -> dict[str, Any]:
    reader = host.reader()
    return _container_facts.read_containers(reader, _packages.read_packages(reader, "debian"), units or {})


def test_cdi(host: Any) -> None:
    host.write("etc/cdi/nvidia.yaml", CDI_YAML)
    host.write("etc/cdi/notes.txt", "no")
    host.write("run/cdi/fpga.json", json.dumps({"cdiVersion": "0.6.0", "kind": "vendor.com/fpga", "devices": [{"name": "a"}]}))
    host.link("var/run", "../run")
    host.write("run/cdi/broken.json", "{")
    host.write("run/cdi/list.json", "[]")
    host.write(
        "run/cdi/indented.yml",
        'cdiVersion: "0.5.0"\nkind: \'nvidia.com/gpu\'\ndevices:\n  - name: "0"\n    containerEdits: {}\n  - name: "1"\n',
    )
    assert [
        (spec["path"], spec["kind"], spec["cdi_version"], spec["devices"], spec["error"] is None) for spec in _containers(host)["cdi"]
    ] == [
        ("/etc/cdi/nvidia.yaml", "nvidia.com/gpu", "0.5.0", 3, True),
        ("/var/run/cdi/broken.json", None, None, 0, False),
        ("/var/run/cdi/fpga.json", "vendor.com/fpga", "0.6.0", 1, True),
        ("/var/run/cdi/indented.yml", "nvidia.com/gpu", "0.5.0", 2, True),
        ("/var/run/cdi/list.json", None, None, 0, False),
    ]


def test_toolkit_and_engines(host: Any) -> None:
    assert _containers(host) == {"toolkit": None, "engines": {}, "cdi": []}
    host.dpkg(
        "nvidia-container-toolkit 1.18.1-1",
        "nvidia-container-toolkit-base 1.18.1-1",
        "docker-ce 5:26.1.3-1~debian.12",
        "podman 5.4.2+ds1-1",
    )
    host.write("usr/lib/systemd/system/nvidia-cdi-refresh.service")
    host.write("usr/bin/containerd")
    found = _containers(host, {"docker.service": {"active": "active"}})
    assert found["toolkit"] == {
        "version": "1.18.1",
        "packages": {"nvidia-container-toolkit": "1.18.1-1", "nvidia-container-toolkit-base": "1.18.1-1"},
        "refresh_units": True,
    }
    assert found["engines"] == {
        "docker": {"version": "26.1.3", "active": "active"},
        "containerd": {"version": None, "active": "unknown"},
        "podman": {"version": "5.4.2", "active": "unknown"},
    }


SHOW = """Id=docker.service
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
NeedDaemonReload=yes

Id=nvidia-gridd.service
LoadState=not-found
ActiveState=inactive
SubState=dead
UnitFileState=
NeedDaemonReload=no

Id=vllm-chat.service
LoadState=loaded
ActiveState=failed
SubState=failed
UnitFileState=
NeedDaemonReload=no
"""


def test_systemctl_show() -> None:
    units = _units.parse_show(SHOW)
    assert units["docker.service"] == {
        "load": "loaded",
        "active": "active",
        "sub": "running",
        "enabled": "enabled",
        "need_daemon_reload": True,
    }
    assert set(units) == {"docker.service", "vllm-chat.service"}


def test_services() -> None:
    units = _units.parse_show(SHOW.replace("vllm-chat", "gpufleet-vllm-chat"))
    processes = [
        {"name": "VLLM::EngineCor", "unit": "a" * 64},
        {"name": "sglang::schedul", "unit": "research.service"},
        {"name": "python3", "unit": "train.service"},
        {"name": "VLLM::EngineCor", "unit": None},
    ]
    assert _units.services(units, processes, {}) == [
        {"unit": "a" * 64, "engine": "vllm", "active": "active", "owned": False},
        {"unit": "gpufleet-vllm-chat.service", "engine": "vllm", "active": "failed", "owned": True},
        {"unit": "research.service", "engine": "sglang", "active": "active", "owned": False},
    ]


def test_a_unit_of_ours_tells_its_engine_by_its_description(host: Any) -> None:
    units = {"chat": "TensorRT-LLM 1.2.1 instance chat", "chat-ray": "Ray for vLLM instance chat (member 0)", "x": "vLLM 0.33.0 instance x"}
    for name, text in units.items():
        host.write(f"etc/systemd/system/gpufleet-engine-{name}.service", f"[Unit]\nDescription={text}\n")
    files = _units.scan_files(host.reader())
    assert files.engines == {"gpufleet-engine-chat.service": "tensorrt_llm", "gpufleet-engine-x.service": "vllm"}
    shown = {name: {"active": "active"} for name in files.names}
    assert [(row["unit"], row["engine"], row["owned"]) for row in _units.services(shown, [], files.engines)] == [
        ("gpufleet-engine-chat.service", "tensorrt_llm", True),
        ("gpufleet-engine-x.service", "vllm", True),
    ]


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("vllm@chat.service", "vllm"),
        ("my-SGLang.service", "sglang"),
        ("trtllm-serve.service", "tensorrt_llm"),
        ("tritonserver.service", "other"),
        ("ollama.service", "other"),
        ("nginx.service", None),
        ("settings.service", None),
    ],
)
def test_engine_names(name: str, engine: str | None) -> None:
    assert _units.engine_of(name) == engine


def test_unit_files(host: Any) -> None:
    host.write("etc/systemd/system/power.service", "[Service]\nExecStart=/usr/bin/nvidia-smi -i 0 -pl 300\n")
    host.write("etc/systemd/system/persist.service", "[Service]\nExecStart=/usr/bin/nvidia-smi -pm 1\n")
    host.write("etc/systemd/system/gpufleet-gpu-settings.service", "ExecStart=nvidia-smi -pl 300\n")
    host.write("etc/systemd/system/vllm.service", "")
    host.write("etc/systemd/system/vllm@.service", "")
    host.write("usr/lib/systemd/system/sglang.service", "")
    host.write("usr/lib/systemd/system/other.service", "ExecStart=nvidia-smi -pl 300\n")
    found = _units.scan_files(host.reader())
    assert found.power == ["power.service"]
    assert set(found.names) == {"power.service", "gpufleet-gpu-settings.service", "vllm.service", "sglang.service"}


def _unit(active: str = "inactive", enabled: str = "disabled") -> dict[str, Any]:
    return {"load": "loaded", "active": active, "sub": "", "enabled": enabled, "need_daemon_reload": False}


def _managers_of(host: Any, units: dict[str, Any] | None = None, power: tuple[str, ...] = ()) -> dict[str, list[str]]:
    return {entry["name"]: entry["components"] for entry in _managers.read_managers(host.reader(), units or {}, power)}


def test_nobody_manages_a_plain_host(host: Any) -> None:
    host.write("etc/nvidia/gridd.conf.template")
    host.write("etc/rc.local", "#!/bin/sh\n# nvidia-smi -pl 300\nnvidia-smi -pm 1\n")
    units = {"kubelet.service": _unit(), "nvidia-mig-manager.service": {**_unit("active"), "load": "masked"}, "power.service": _unit()}
    assert _managers_of(host, units, ("power.service",)) == {}


def test_managers(host: Any) -> None:
    host.write("run/nvidia/driver/usr/bin/nvidia-smi")
    host.write("run/nvidia/validations/toolkit-ready")
    host.write("etc/dgx-release")
    host.write("etc/cron.d/gpu", "@reboot root nvidia-smi -lgc 1200\n")
    units = {
        "nvidia-gridd.service": _unit("active"),
        "k3s-agent.service": _unit(enabled="enabled"),
        "slurmd.service": _unit("active"),
        "nvidia-mig-manager.service": _unit(enabled="enabled"),
        "nvidia-cdi-refresh.path": _unit("active"),
        "nvidia-powerd.service": _unit("active"),
        "power.service": _unit(enabled="enabled"),
    }
    assert _managers_of(host, units, ("power.service",)) == {
        "gpu_operator": ["driver", "container_toolkit"],
        "dgx_os": ["driver", "fabric", "container_toolkit"],
        "vgpu_guest": ["driver"],
        "kubelet": ["engine"],
        "slurmd": ["engine"],
        "mig_manager": ["mig"],
        "cdi_refresh": ["cdi"],
        "powerd": ["power"],
        "power_unit": ["power"],
    }
    evidence = {entry["name"]: entry["evidence"] for entry in _managers.read_managers(host.reader(), units, ("power.service",))}
    assert evidence["power_unit"] == "power.service is enabled, inactive sets limits by nvidia-smi"
    assert evidence["dgx_os"] == "/etc/dgx-release"


def test_state_files(host: Any) -> None:
    empty = _state_files.read_state_files(host.reader())
    assert empty["errors"] == {}
    assert empty["files"] == dict.fromkeys(_paths.OWNED_FILES)
    assert empty["runtime_sha256"] is None
    host.write(_paths.GPU_SETTINGS, '{"schema": 1, "rules": []}')
    host.write(_paths.REBOOT_REQUIRED, '{"schema": 99}')
    host.write(_paths.DRIVER_RECORD, "nonsense")
    host.write(_paths.RUNTIME_DIR + "/_nvml.py", "x = 1\n")
    found = _state_files.read_state_files(host.reader())
    assert found["gpu_settings"] == {"schema": 1, "rules": []}
    assert len(found["files"][_paths.GPU_SETTINGS]) == 64
    assert len(found["runtime_sha256"]) == 64
    assert set(found["errors"]) == {_paths.REBOOT_REQUIRED, _paths.DRIVER_RECORD}
    assert "schema 99" in found["errors"][_paths.REBOOT_REQUIRED]
