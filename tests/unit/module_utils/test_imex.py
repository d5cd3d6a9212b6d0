# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IMEX's files, and whether it runs with what they say now."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._imex import read_imex

BOOT, TICKS = 1_700_000_000, os.sysconf("SC_CLK_TCK")


def write(host: Any, path: str, text: str, age: float) -> None:
    file = host.write(path, text)
    os.utime(file, (BOOT + age, BOOT + age))


def runs(host: Any, since: int, cgroup: str = "system.slice") -> None:
    host.write("proc/stat", f"cpu 1 2 3\nbtime {BOOT}\n")
    host.write(f"sys/fs/cgroup/{cgroup}/nvidia-imex.service/cgroup.procs", "70\n71\n")
    for pid, started in ((70, since), (71, since + 500)):
        host.write(f"proc/{pid}/stat", f"{pid} (nvidia imex) S " + "0 " * 18 + f"{started * TICKS} 0 0")


def test_nothing(host: Any) -> None:
    assert read_imex(host.reader()) == {"nodes": [], "config": {}, "stale": None}


@pytest.mark.parametrize(
    ("nodes", "config", "stale"),
    [(50, 50, False), (150, 50, True), (50, 150, True), (100.9, 50, False)],
)
@pytest.mark.parametrize("cgroup", ["system.slice", "systemd/system.slice"])
def test_files_against_the_running_service(host: Any, nodes: float, config: float, stale: bool, cgroup: str) -> None:
    write(host, "etc/nvidia-imex/nodes_config.cfg", "# all\n10.0.0.1\n\n10.0.0.2 # second\n", nodes)
    write(host, "etc/nvidia-imex/config.cfg", "#X=1\nLOG_LEVEL=4\nIMEX_NODE_CONFIG_FILE=/etc/nvidia-imex/nodes_config.cfg\n", config)
    runs(host, 100, cgroup)
    assert read_imex(host.reader()) == {
        "nodes": ["10.0.0.1", "10.0.0.2"],
        "config": {"LOG_LEVEL": "4", "IMEX_NODE_CONFIG_FILE": "/etc/nvidia-imex/nodes_config.cfg"},
        "stale": stale,
    }
