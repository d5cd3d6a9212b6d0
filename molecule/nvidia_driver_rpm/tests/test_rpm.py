# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on the pseudo hosts after converge, a driver's life on two of them, and a reboot."""

from __future__ import annotations

import json
from typing import Any

import pytest

VERSION = "580.178.04"
DRIVER = {
    "kmod-nvidia-open-dkms",
    "libnvidia-cfg",
    "libnvidia-ml",
    "nvidia-driver-cuda",
    "nvidia-driver-cuda-libs",
    "nvidia-kmod-common",
    "nvidia-modprobe",
    "nvidia-persistenced",
}
FABRIC = {"nvidia-fabricmanager", "libnvidia-nscq"}


@pytest.fixture
def name(host: Any) -> str:
    return str(host.check_output("hostname"))


def only(name: str, *names: str) -> None:
    if name not in names:
        pytest.skip(f"about {', '.join(names)}")


def packages(host: Any) -> dict[str, str]:
    lines = host.check_output("rpm -qa --qf '%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n'").splitlines()
    return {line.split()[0]: line.split()[1] for line in lines}


# These come first: what the other tests ask of a host is in its log as well.
def test_second_run_asked_for_nothing(host: Any, name: str, action_log: Any) -> None:
    only(name, "r9", "u24")
    assert action_log() == []
    assert action_log("package-query") == []


def test_each_role_cost_the_facts_and_no_more(host: Any, name: str, action_log: Any) -> None:
    only(name, "u24")
    assert [action.words for action in action_log("module")] == ["gpu_info"]


def test_driver_set_has_one_version_and_is_locked(host: Any, name: str) -> None:
    only(name, "r9")
    found = packages(host)
    assert {package: found.get(package) for package in DRIVER} == dict.fromkeys(DRIVER, f"3:{VERSION}-1.el9")
    assert {package: found.get(package) for package in FABRIC} == dict.fromkeys(FABRIC, f"0:{VERSION}-1")
    with host.sudo():
        record = json.loads(host.file("/var/lib/gpufleet/driver.json").content_string)
    assert set(record["packages"]) == set(record["holds"]) == DRIVER | FABRIC
    assert record["module_stream"] == "nvidia-driver:580-open"
    locks = host.file("/etc/dnf/plugins/versionlock.list").content_string.splitlines()
    assert {f"{package}-{found[package]}.*" for package in DRIVER | FABRIC} <= set(locks)


def test_stream_of_the_branch_is_enabled(host: Any, name: str) -> None:
    only(name, "r9")
    assert "stream=580-open" in host.file("/etc/dnf/modules.d/nvidia-driver.module").content_string


def test_driver_runs_with_its_daemons(host: Any, name: str) -> None:
    only(name, "r9", "u24")
    assert f"Open Kernel Module for x86_64  {VERSION}" in host.file("/proc/driver/nvidia/version").content_string
    assert host.check_output("nvidia-smi -L | wc -l") == {"r9": "8", "u24": "2"}[name]
    for unit in ("nvidia-persistenced", *(["nvidia-fabricmanager"] if name == "r9" else [])):
        assert host.service(unit).is_running, unit
        assert host.service(unit).is_enabled, unit


def test_headers_and_initramfs_of_the_next_kernel(host: Any, name: str) -> None:
    only(name, "r9")
    release = "5.14.0-570.12.1.el9_6.x86_64"
    assert "kernel-devel" in packages(host)
    assert [image for image in host.check_output("ls /boot").split() if image.startswith("init") and release in image]
    with host.sudo():
        record = json.loads(host.file("/var/lib/gpufleet/driver.json").content_string)
    assert list(record["initramfs"]) == [release]


def test_nouveau_is_not_in_the_initramfs(host: Any, name: str) -> None:
    only(name, "r9")
    with host.sudo():
        image = host.check_output("lsinitrd /boot/init*5.14.0-570.12.1.el9_6.x86_64*")
    assert "/neighbour.ko" in image
    assert "/nouveau.ko" not in image


def test_toolkits_stand_side_by_side(host: Any, name: str) -> None:
    only(name, "r9")
    found = packages(host)
    assert (found["cuda-nvcc-12-4"], found["cuda-nvcc-12-8"]) == ("0:12.4.99-1", "0:12.8.93-1")  # 12.4.131 is on offer
    assert found["libcudnn9-devel-cuda-12"] == "0:9.20.0.48-1"
    assert found["libnccl"] == "0:2.29.7-1+cuda12.9"
    assert host.check_output("readlink -f /usr/local/cuda") == "/usr/local/cuda-12.8"
    assert not [package for package in found if package.startswith("cuda-drivers")]


def test_container_toolkit_is_there(host: Any, name: str) -> None:
    only(name, "r9")
    found = packages(host)
    assert found["nvidia-container-toolkit"] == found["libnvidia-container1"]
    locks = host.file("/etc/dnf/plugins/versionlock.list").content_string.splitlines()
    assert {f"{package}-{found[package]}.*" for package in ("nvidia-container-toolkit", "libnvidia-container1")} <= set(locks)


def test_ubuntus_prebuilt_modules(host: Any, name: str) -> None:
    only(name, "u24")
    assert host.package("linux-modules-nvidia-580-server-open-generic").version == "6.8.0-88.89"
    assert host.package("libnvidia-compute-580-server").version == f"{VERSION}-0ubuntu0.24.04.1"
    assert not host.package("dkms").is_installed
    held = set(host.check_output("apt-mark showhold").split())
    assert {"nvidia-utils-580-server", "linux-modules-nvidia-580-server-open-generic"} <= held


def test_after_its_life_nothing_is_left(host: Any, name: str) -> None:
    only(name, "r10", "al")
    assert set(packages(host)) <= {"gpg-pubkey", "somebody-elses-tool", "python3-dnf-plugin-versionlock"}
    assert host.run("grep -v '^#' /etc/dnf/plugins/versionlock.list").stdout == ""
    streams = host.run("cat /etc/dnf/modules.d/*").stdout
    # On al somebody had chosen one before the role was told to switch; the way back led to it, and it is theirs.
    assert ("stream=570-dkms" in streams) is ("enabled" in streams) is (name == "al")
    for path in ("/etc/yum.repos.d/gpufleet-nvidia.repo", "/etc/pki/rpm-gpg/RPM-GPG-KEY-gpufleet-nvidia", "/var/lib/gpufleet/driver.json",
                 "/etc/dracut.conf.d/gpufleet-nouveau.conf"):  # fmt: skip
        assert not host.file(path).exists, path


def test_system_is_whole(host: Any) -> None:
    assert host.run("systemctl is-system-running --wait").stdout.strip() == "running", host.check_output("systemctl --failed")
    assert not host.file("/usr/sbin/policy-rc.d").exists
