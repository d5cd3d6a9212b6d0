# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on the hosts after converge, the story on h2, and a reboot."""

from __future__ import annotations

import json
from typing import Any

import pytest

VERSION = "580.178.04"


@pytest.fixture
def name(host: Any) -> str:
    return str(host.check_output("hostname"))


def only(name: str, *names: str) -> None:
    if name not in names:
        pytest.skip(f"about {', '.join(names)}")


# These two come first: what the other tests ask of a host is in its log as well.
def test_second_run_asked_for_nothing(host: Any, name: str, action_log: Any) -> None:
    only(name, "h1")
    assert action_log() == []
    assert action_log("package-query") == []


def test_second_run_cost_one_module(host: Any, name: str, action_log: Any) -> None:
    only(name, "h1")
    assert [action.words for action in action_log("module")] == ["gpu_info"]


def test_driver_runs_with_the_library_of_its_version(host: Any, name: str) -> None:
    only(name, "h1")
    assert f"Open Kernel Module for x86_64  {VERSION}" in host.file("/proc/driver/nvidia/version").content_string
    assert host.check_output("readlink -f /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1").endswith(VERSION)
    assert host.check_output("nvidia-smi -L | wc -l") == "1"


def test_dkms_knows_the_module(host: Any, name: str) -> None:
    only(name, "h1")
    kernel = host.check_output("uname -r")
    assert host.file(f"/var/lib/dkms/nvidia/kernel-{kernel}-x86_64").linked_to == f"/var/lib/dkms/nvidia/{VERSION}/{kernel}/x86_64"


def test_installer_got_what_was_asked_for(host: Any, name: str) -> None:
    only(name, "h1")
    asked = host.check_output("sed -n 's/^    --/--/p' /var/log/nvidia-installer.log").split()
    assert {"--silent", "--dkms", "--kernel-module-type=open", "--no-opengl-files", "--no-drm"} <= set(asked)


def test_persistence_daemon_runs_now_and_at_boot(host: Any, name: str) -> None:
    only(name, "h1")
    assert host.service("nvidia-persistenced").is_running
    assert host.service("nvidia-persistenced").is_enabled


def test_no_package_came_or_went(host: Any) -> None:
    assert host.run("dpkg --get-selections | diff - /var/tmp/selections.before").stdout == ""


def test_nothing_is_left_of_the_work(host: Any) -> None:
    assert not host.file("/var/lib/gpufleet/driver-runfile").exists
    assert host.check_output("systemctl list-units --all --no-legend 'gpufleet-driver-*'") == ""
    assert not host.file("/run/gpufleet/run.lock").exists


def test_record_tells_what_is_ours(host: Any, name: str) -> None:
    only(name, "h1")
    with host.sudo():
        record = json.loads(host.file("/var/lib/gpufleet/driver.json").content_string)
    assert (record["source"], record["runfile"]["version"], record["runfile"]["kernel_modules"]) == ("runfile", VERSION, "open")
    assert "runfile_pending" not in record


def test_removed_driver_is_gone(host: Any, name: str) -> None:
    only(name, "h2")
    for path in (
        "/usr/bin/nvidia-uninstall",
        "/usr/bin/nvidia-smi",
        "/var/lib/nvidia",
        "/var/lib/dkms/nvidia",
        "/etc/systemd/system/nvidia-persistenced.service",
        "/etc/modprobe.d/gpufleet-nouveau.conf",
        "/etc/apt/sources.list.d/gpufleet-nvidia.sources",
        "/var/lib/gpufleet/driver.json",
        "/proc/driver/nvidia/version",
    ):
        with host.sudo():
            assert not host.file(path).exists, path


def test_system_is_whole(host: Any) -> None:
    assert host.run("systemctl is-system-running --wait").stdout.strip() == "running", host.check_output("systemctl --failed")
