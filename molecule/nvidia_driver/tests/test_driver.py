# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on the hosts after converge, a driver's life on h2, and a reboot."""

from __future__ import annotations

import json
from typing import Any

import pytest

VERSION = "580.178.04"
SET = (
    "firmware-nvidia-gsp",
    "libcuda1",
    "libnvidia-cfg1",
    "libnvidia-ml1",
    "libnvidia-nscq-580",
    "libnvidia-ptxjitcompiler1",
    "nvidia-driver-cuda",
    "nvidia-fabricmanager-580",
    "nvidia-kernel-open-dkms",
    "nvidia-kernel-support",
    "nvidia-modprobe",
    "nvidia-persistenced",
)


@pytest.fixture
def name(host: Any) -> str:
    return str(host.check_output("hostname"))


def only(name: str, *names: str) -> None:
    if name not in names:
        pytest.skip(f"about {', '.join(names)}")


def selections(host: Any) -> tuple[set[str], set[str]]:
    """Packages now, and before the role came."""
    now = host.check_output("dpkg --get-selections").split("\n")
    before = host.check_output("cat /var/tmp/selections.before").split("\n")
    return {line.split()[0].split(":")[0] for line in now if "deinstall" not in line}, {line.split()[0].split(":")[0] for line in before}


# These two come first: what the other tests ask of a host is in its log as well.
def test_second_run_asked_for_nothing(host: Any, name: str, action_log: Any) -> None:
    only(name, "h1", "h3")
    assert action_log() == []
    assert action_log("package-query") == []


def test_second_run_cost_one_module(host: Any, name: str, action_log: Any) -> None:
    only(name, "h1", "h3")
    assert [action.words for action in action_log("module")] == ["gpu_info"]


def test_set_has_one_version_and_is_held(host: Any, name: str) -> None:
    only(name, "h1")
    shown = host.check_output(
        "dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\\n' 'libnvidia-*' 'nvidia-*' libcuda1 firmware-nvidia-gsp"
    )
    installed = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.split()[-1] == "installed"}
    assert installed == {package: [f"{VERSION}-1", "installed"] for package in SET}
    assert set(host.check_output("apt-mark showhold").split()) == set(SET)


def test_nothing_else_was_installed_or_removed(host: Any, name: str) -> None:
    only(name, "h1", "h2")
    now, before = selections(host)
    assert now - before == (set(SET) if name == "h1" else set())
    assert before - now == set()


def test_driver_runs_with_the_library_of_its_version(host: Any, name: str) -> None:
    only(name, "h1")
    assert f"Open Kernel Module for x86_64  {VERSION}" in host.file("/proc/driver/nvidia/version").content_string
    assert host.check_output("readlink -f /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1").endswith(VERSION)
    assert host.check_output("nvidia-smi -L | wc -l") == "8"


def test_daemons_run_now_and_at_boot(host: Any, name: str) -> None:
    only(name, "h1")
    for unit in ("nvidia-persistenced", "nvidia-fabricmanager"):
        assert host.service(unit).is_running, unit
        assert host.service(unit).is_enabled, unit


def test_nouveau_is_kept_out(host: Any, name: str) -> None:
    only(name, "h1")
    assert "blacklist nouveau" in host.file("/etc/modprobe.d/gpufleet-nouveau.conf").content_string
    assert "blacklist nouveau" in host.check_output("/usr/sbin/modprobe --showconfig")


def test_initramfs_of_the_kernel_knows_it(host: Any, name: str) -> None:
    only(name, "h1")
    files = host.check_output("lsinitramfs /boot/initrd.img-6.1.0-lab-amd64").splitlines()
    assert "etc/modprobe.d/gpufleet-nouveau.conf" in files
    with host.sudo():
        record = json.loads(host.file("/var/lib/gpufleet/driver.json").content_string)
    assert list(record["initramfs"]) == ["6.1.0-lab-amd64"]


def test_only_the_mirror_is_asked_for_the_driver(host: Any, name: str) -> None:
    only(name, "h1")
    policy = host.check_output("apt-cache policy nvidia-driver-cuda")
    assert "http://repo.lab:8480/compute/cuda/repos/debian12/x86_64" in policy
    assert host.file("/etc/apt/keyrings/gpufleet-nvidia.asc").mode == 0o644


def test_nothing_is_left_that_could_keep_services_from_starting(host: Any) -> None:
    assert not host.file("/usr/sbin/policy-rc.d").exists
    assert not host.file("/run/gpufleet/run.lock").exists


def test_system_is_whole(host: Any) -> None:
    """Also after a boot: no unit of the set fails, on no host."""
    assert host.run("systemctl is-system-running --wait").stdout.strip() == "running", host.check_output("systemctl --failed")


def test_record_tells_what_is_ours(host: Any, name: str) -> None:
    only(name, "h1")
    with host.sudo():
        record = json.loads(host.file("/var/lib/gpufleet/driver.json").content_string)
    assert set(record["packages"]) == set(record["holds"]) == set(SET)
    assert record["source"] == "nvidia"
    assert "pending" not in record


def test_removed_driver_is_gone_after_all_that(host: Any, name: str) -> None:
    only(name, "h2")
    for path in (
        "/etc/apt/sources.list.d/gpufleet-nvidia.sources",
        "/etc/apt/keyrings/gpufleet-nvidia.asc",
        "/etc/modprobe.d/gpufleet-nouveau.conf",
    ):
        assert not host.file(path).exists, path
    assert not host.file("/proc/driver/nvidia/version").exists
    assert host.check_output("apt-mark showhold") == ""
    assert host.run("dpkg --audit").stdout == ""


def test_debians_own_user_space_is_there_and_no_module(host: Any, name: str) -> None:
    only(name, "h3")
    assert host.package("libcuda1").version.startswith("535.")
    assert host.run("/usr/bin/nvidia-smi --version").rc != 127
    assert host.package("libnvidia-ml1").version == host.package("libcuda1").version
    assert not host.package("nvidia-kernel-dkms").is_installed
    assert not host.file("/etc/modprobe.d/gpufleet-nouveau.conf").exists
