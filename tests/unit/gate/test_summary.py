# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's rows and table."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.inference.plugins.plugin_utils._summary import host_row, host_summary, summary, table

BLOCK = {"id": "driver.mismatch", "severity": "block", "message": "library and module differ", "fix": "reboot"}
WARN = {"id": "driver.eol", "severity": "warn", "message": "end of life", "fix": "upgrade"}


def info(limit: int = 700000, loaded: str = "580.159.04", library: str = "580.159.04") -> dict[str, Any]:
    return {
        "state": "ok",
        "gpus": [{"product": "NVIDIA H200", "power": {"limit_mw": limit}}, {"product": "NVIDIA H200", "power": {"limit_mw": 700000}}],
        "driver": {"loaded": {"version": loaded}, "library": {"version": library}},
        "nvml": {"cuda_driver_version": "13.0"},
        "fingerprint": {"sha256": "f"},
    }


def test_a_finished_host_is_ok() -> None:
    row = host_row("gpu1", {"host": {"findings": [WARN], "host": host_summary(info(limit=500000))}}, finished=True)
    assert row["status"] == "ok"
    assert row["gpus"] == "2× H200"
    assert row["power_limit"] == "1× 700 W + 1× 500 W"
    assert row["cuda"] == "13.0"


def test_a_stopped_host_names_the_component_even_if_it_has_no_end() -> None:
    row = host_row("gpu2", {"host": {"findings": []}, "driver": {"failed": True, "findings": [BLOCK]}}, finished=False)
    assert row["status"] == "stopped at driver"


def test_a_host_with_a_blocking_finding_is_not_ok_even_where_nothing_stops_it() -> None:
    assert host_row("gpu2", {"host": {"findings": [WARN, BLOCK]}}, finished=True)["status"] == "blocked"


def test_failed_unreachable_and_not_part_of_the_run_are_told_apart() -> None:
    assert host_row("gpu3", {"host": {"findings": []}}, finished=False)["status"] == "failed"
    assert host_row("gpu4", {}, finished=False)["status"] == "not run"
    assert host_row("gpu5", {"host": {"unreachable": True}}, finished=False)["status"] == "unreachable"


def test_the_last_check_says_how_the_host_is_now() -> None:
    before, after = host_summary(info()), host_summary(info(limit=500000))
    assert host_row("gpu1", {"host": {"host": before}, "power": {"host": after}}, True)["power_limit"] == "1× 700 W + 1× 500 W"


def test_a_finding_of_two_checks_is_listed_once_and_blocking_ones_come_first() -> None:
    row = host_row("gpu1", {"host": {"findings": [WARN]}, "driver": {"findings": [WARN, BLOCK]}}, finished=True)
    assert [finding["id"] for finding in row["findings"]] == ["driver.mismatch", "driver.eol"]


def test_a_driver_that_is_installed_but_not_loaded_is_not_shown_as_running() -> None:
    assert host_summary(info(library="580.178.04"))["driver"] == "580.159.04 loaded, 580.178.04 installed"
    unloaded = {**info(), "driver": {"loaded": None, "library": {"version": "580.178.04"}}}
    assert host_summary(unloaded)["driver"] == "580.178.04 not loaded"


def test_table_has_a_line_a_host_and_explains_what_blocks() -> None:
    rows = [
        host_row("gpu1", {"host": {"findings": [WARN]}}, True),
        host_row("gpu2", {"host": {"failed": True, "findings": [BLOCK]}}, False),
    ]
    text = table(rows)
    lines = text.splitlines()
    assert lines[0].split() == ["host", "status", "gpus", "driver", "cuda", "power", "limit", "findings"]
    assert "gpu2: library and module differ" in text
    assert "fix: reboot" in text
    assert summary(rows) == {
        "ok": 1,
        "blocked": 0,
        "stopped": 1,
        "failed": 0,
        "unreachable": 0,
        "not run": 0,
        "block": 1,
        "warn": 1,
        "info": 0,
    }
