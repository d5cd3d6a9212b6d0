# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who keeps the loaded driver: open device files, modules that need it, the console."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _driver_holders

ID = "ab" * 32
QUADLET = "0::/system.slice/vllm.service/libpod-payload-" + ID + "\n"
DOCKER = f"0::/system.slice/docker-{ID}.scope\n"


def process(host: Any, pid: int, name: str, cgroup: str, *files: str) -> None:
    host.write(f"proc/{pid}/comm", name + "\n")
    host.write(f"proc/{pid}/cgroup", cgroup)
    host.write(f"proc/{pid}/cmdline", "never read")
    for number, path in enumerate(files):
        host.link(f"proc/{pid}/fd/{number}", path)


def holders(host: Any, pids: tuple[int, ...] = ()) -> dict[str, Any]:
    return _driver_holders.read_holders(host.reader(), pids)


def module(host: Any, name: str, *held_by: str) -> None:
    host.write(f"sys/module/{name}/refcnt", f"{len(held_by)}\n")
    for holder in held_by:
        host.write(f"sys/module/{name}/holders/{holder}/x")


def test_processes_by_what_they_have_open(host: Any) -> None:
    host.write("etc/passwd", f"someone:x:{os.getuid()}:0::/:/bin/sh\n")
    process(host, 10, "bash", "0::/user.slice\n", "/dev/null", "/dev/pts/0")
    process(host, 11, "nvidia-smi", "0::/user.slice/session-3.scope\n", "/dev/null", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia0")
    process(host, 12, "nvidia-persiste", "0::/system.slice/nvidia-persistenced.service\n", "/dev/nvidia0")
    assert holders(host)["processes"] == [
        {
            "pid": 11,
            "name": "nvidia-smi",
            "user": "someone",
            "unit": "session-3.scope",
            "container": None,
            "devices": ["/dev/nvidia0", "/dev/nvidiactl"],
        },
        {
            "pid": 12,
            "name": "nvidia-persiste",
            "user": "someone",
            "unit": "nvidia-persistenced.service",
            "container": None,
            "devices": ["/dev/nvidia0"],
        },
    ]


@pytest.mark.parametrize(
    ("cgroup", "path", "content", "unit", "name"),
    [
        (DOCKER, f"var/lib/docker/containers/{ID}/config.v2.json", {"Name": "/chat"}, f"docker-{ID}.scope", "chat"),
        (
            QUADLET,
            "var/lib/containers/storage/overlay-containers/containers.json",
            [{"id": ID, "names": ["systemd-vllm"]}],
            "vllm.service",
            "systemd-vllm",
        ),
        (QUADLET, "var/lib/containers/storage/overlay-containers/containers.json", [{"id": "cd"}], "vllm.service", None),
        (DOCKER, f"var/lib/docker/containers/{ID}/config.v2.json", "half a fi", f"docker-{ID}.scope", None),
    ],
)
def test_process_in_a_container(host: Any, cgroup: str, path: str, content: Any, unit: str, name: str | None) -> None:
    process(host, 20, "python3", cgroup, "/dev/nvidia-uvm")
    host.write(path, content if isinstance(content, str) else json.dumps(content))
    (found,) = holders(host)["processes"]
    assert (found["unit"], found["container"]) == (unit, {"id": ID, "name": name})


def test_process_that_only_nvml_knows(host: Any) -> None:
    assert [(found["pid"], found["name"], found["devices"]) for found in holders(host, (4711,))["processes"]] == [(4711, None, [])]


def test_display_server_by_its_drm_node(host: Any) -> None:
    host.link("sys/class/drm/card0/device/driver", "../../bus/pci/drivers/ast")
    host.link("sys/class/drm/card1/device/driver", "../../bus/pci/drivers/nvidia")
    process(host, 30, "Xorg", "0::/\n", "/dev/dri/card1")
    process(host, 31, "kmscon", "0::/\n", "/dev/dri/card0")
    assert [found["pid"] for found in holders(host)["processes"]] == [30]


def test_modules_in_the_order_to_unload(host: Any) -> None:
    module(host, "nvidia", "nvidia_uvm", "nvidia_modeset", "gdrdrv")
    module(host, "nvidia_modeset", "nvidia_drm")
    module(host, "nvidia_drm")
    module(host, "nvidia_uvm", "third_party")
    module(host, "third_party")
    module(host, "gdrdrv")
    module(host, "ext4")
    names = [found["name"] for found in holders(host)["modules"]]
    assert sorted(names) == ["gdrdrv", "nvidia", "nvidia_drm", "nvidia_modeset", "nvidia_uvm", "third_party"]
    assert names[-1] == "nvidia"
    for first, then in (("nvidia_drm", "nvidia_modeset"), ("third_party", "nvidia_uvm")):
        assert names.index(first) < names.index(then)


@pytest.mark.parametrize(("bind", "console"), [("1", ["fb0"]), ("0", [])])
def test_console_on_a_frame_buffer_of_the_driver(host: Any, bind: str, console: list[str]) -> None:
    host.write("sys/class/graphics/fb0/name", "nvidia-drmdrmfb\n")
    host.write("sys/class/graphics/fb1/name", "astdrmfb\n")
    host.write("sys/class/vtconsole/vtcon1/name", "(M) frame buffer device\n")
    host.write("sys/class/vtconsole/vtcon1/bind", bind + "\n")
    assert holders(host)["console"] == console


def test_simulated_machine(machine: Any) -> None:
    """As the whole document has it, with a real process that holds a device file."""
    here = machine("h200x2")
    (here.root / "proc").joinpath("1").mkdir(exist_ok=True)
    device = here.root / "dev/nvidia0"
    code = "import os, sys; os.open(sys.argv[1], os.O_PATH); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code, str(device)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        (here.root / f"proc/{child.pid}").symlink_to(f"/proc/{child.pid}")
        found = here.collect()["driver"]["holders"]
    assert [(entry["pid"], entry["devices"]) for entry in found["processes"]] == [(child.pid, ["/dev/nvidia0"])]
    assert [entry["name"] for entry in found["modules"]] == ["nvidia_drm", "nvidia_uvm", "nvidia_modeset", "nvidia"]
    here.simulate("unload")
    assert "holders" not in here.collect()["driver"]
