# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that any plan must obey: disruption limit, foreign managers."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils._conduct import busy_with, disruption_limit, judge_conduct
from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Change, Context, Disruption, Plan

IDLE: dict[str, Any] = {"gpus": [{"uuid": "GPU-1", "processes": []}], "services": [], "managers": []}
BUSY = {**IDLE, "gpus": [{"uuid": "GPU-1", "processes": [{"pid": 42, "name": "python", "unit": "vllm@chat.service"}]}]}
SERVING = {**IDLE, "services": [{"unit": "vllm@chat.service", "active": "active"}]}
STOPPED = {**IDLE, "services": [{"unit": "vllm@chat.service", "active": "inactive"}]}


def context(**more: Any) -> Context:
    return Context(today=datetime.date(2026, 11, 30), **more)


def plan(disruption: Disruption, component: str = "driver") -> Plan:
    return Plan(
        component=component, changes=[Change("driver.packages", component, "nvidia-open", "580", "595", "upgrade the driver", disruption)]
    )


@pytest.mark.parametrize(("facts", "limit"), [(IDLE, "reboot"), (BUSY, "none"), (SERVING, "none"), (STOPPED, "reboot")])
def test_a_busy_host_allows_nothing_by_default_and_an_idle_one_everything(facts: dict[str, Any], limit: str) -> None:
    assert disruption_limit(facts, context()) == limit


def test_the_sites_word_beats_the_default_both_ways() -> None:
    assert disruption_limit(BUSY, context(disruption_max="gpu_reload")) == "gpu_reload"
    assert disruption_limit(IDLE, context(disruption_max="none")) == "none"


def test_a_plan_beyond_the_limit_is_blocked_and_names_who_is_in_the_way() -> None:
    (finding,) = judge_conduct(plan("gpu_reload"), BUSY, context())
    assert (finding.id, finding.severity) == ("host.needs_rollout", "block")
    assert "vllm@chat.service" in finding.message
    assert "gpu_stack_disruption_max=gpu_reload" in finding.fix


@pytest.mark.parametrize(("disruption", "facts"), [("none", BUSY), ("reboot", IDLE)])
def test_a_plan_within_the_limit_passes(disruption: Disruption, facts: dict[str, Any]) -> None:
    assert judge_conduct(plan(disruption), facts, context()) == []


def test_a_host_that_needs_no_change_is_never_blocked_by_conduct() -> None:
    facts = {**BUSY, "managers": [{"name": "gpu_operator", "components": ["driver"], "evidence": "/run/nvidia/driver"}]}
    assert judge_conduct(Plan(component="driver"), facts, context()) == []


def test_a_foreign_manager_blocks_its_own_component_only_and_take_over_lifts_it() -> None:
    facts = {**IDLE, "managers": [{"name": "gpu_operator", "components": ["driver"], "evidence": "/run/nvidia/driver"}]}
    (finding,) = judge_conduct(plan("none"), facts, context())
    assert (finding.id, finding.subject) == ("host.foreign_manager", "driver")
    assert "/run/nvidia/driver" in finding.message
    assert judge_conduct(plan("none", component="power"), facts, context()) == []
    assert judge_conduct(plan("none"), facts, context(take_over=frozenset({"driver"}))) == []


def test_busy_with_names_process_and_service() -> None:
    assert busy_with({**BUSY, "services": SERVING["services"]}) == [
        "pid 42 (vllm@chat.service) on GPU GPU-1",
        "service vllm@chat.service",
    ]
