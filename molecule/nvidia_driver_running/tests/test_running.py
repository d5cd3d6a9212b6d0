# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs after converge, reloads, failures and a reboot."""

from __future__ import annotations

from typing import Any

import pytest

VERSION = "580.178.04"


@pytest.fixture
def name(host: Any) -> str:
    return str(host.check_output("hostname"))


def test_second_run_asked_for_nothing(host: Any, name: str, action_log: Any) -> None:
    if name == "h1":
        pytest.skip("its log also has what life.yml did")
    if host.file("/run/lab-life").exists:
        pytest.skip("the log of this boot also has what life.yml did; after the reboot it is asked")
    assert action_log() == []


def test_installed_module_runs(host: Any) -> None:
    assert host.file("/sys/module/nvidia/version").content_string.strip() == VERSION
    assert host.run("nvidia-smi -L").rc == 0


def test_persistence_is_on_now_and_at_boot(host: Any) -> None:
    unit = host.service("nvidia-persistenced")
    assert (unit.is_running, unit.is_enabled) == (True, True)
    assert set(host.check_output("nvidia-smi --query-gpu=persistence_mode --format=csv,noheader").split()) == {"Enabled"}


def test_nothing_of_a_reload_is_left(host: Any) -> None:
    for path in ("/run/gpufleet/driver_reload.json", "/run/gpufleet/run.lock", "/var/lib/gpufleet/reboot_required.json"):
        assert not host.file(path).exists, path


def test_trays_have_the_same_nodes_and_imex_runs_with_them(host: Any, name: str) -> None:
    if name not in ("h3", "h4"):
        assert not host.file("/etc/nvidia-imex/nodes_config.cfg").exists
        return
    lines = [line for line in host.file("/etc/nvidia-imex/nodes_config.cfg").content_string.splitlines() if not line.startswith("#")]
    assert len(lines) == 2
    assert host.check_output("hostname -I").split()[0] == lines[("h3", "h4").index(name)]
    imex = host.service("nvidia-imex")
    assert (imex.is_running, imex.is_enabled) == (True, True)
    assert not host.package("nvidia-fabricmanager-580").is_installed
    assert host.package("nvidia-imex-580").version == f"{VERSION}-1"


def test_switches_have_their_manager(host: Any, name: str) -> None:
    if name != "h2":
        assert not host.service("nvidia-fabricmanager").is_running
        return
    manager = host.service("nvidia-fabricmanager")
    assert (manager.is_running, manager.is_enabled) == (True, True)
