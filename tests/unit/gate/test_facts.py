# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fact `gpufleet`: freshness, merging of predictions."""

from __future__ import annotations

import types
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.action import host_lock
from ansible_collections.gpufleet.inference.plugins.plugin_utils import _facts


def test_facts_of_another_run_are_never_used() -> None:
    fact = _facts.collected({}, "run-1", {"state": "ok"})
    assert _facts.fresh(fact, "run-1")
    assert not _facts.fresh(fact, "run-2")
    assert not _facts.fresh({}, "run-1")


@pytest.mark.parametrize(
    ("args", "answer", "stale"),
    [
        ({"state": "present"}, {"changed": True}, True),
        ({}, {"changed": True}, True),
        ({"state": "present"}, {"failed": True}, False),
        ({"state": "absent"}, {"changed": True}, False),
    ],
)
def test_facts_are_stale_once_a_change_began(
    monkeypatch: pytest.MonkeyPatch, args: dict[str, str], answer: dict[str, bool], stale: bool
) -> None:
    """A converge that fails does not read the host again; what rescues it must."""
    monkeypatch.setattr(host_lock.ActionBase, "run", lambda self, tmp, task_vars: {})
    monkeypatch.setattr(host_lock.ActionModule, "_execute", lambda self, args, task_vars: dict(answer))
    action = host_lock.ActionModule.__new__(host_lock.ActionModule)
    action._task = types.SimpleNamespace(args=args, check_mode=False)
    run = _facts.run_id()
    before = _facts.collected({}, run, {"state": "ok"})
    result = action.run(None, {"ansible_facts": {"gpufleet": before}})
    after = result.get("ansible_facts", {}).get("gpufleet", before)
    assert _facts.fresh(after, run) is not stale
    assert (after["info"], after["run"]) == (before["info"], run)
    again = _facts.collected(after, run, {"state": "ok"})
    assert _facts.fresh(again, run)
    assert again["generation"] == 2


def test_generation_counts_and_predictions_stay_within_a_run() -> None:
    first = {**_facts.collected({}, "run-1", {"state": "no_driver"}), "predicted": {"state": "ok"}}
    again = _facts.collected(first, "run-1", {"state": "no_driver"})
    other = _facts.collected(first, "run-2", {"state": "no_driver"})
    assert (again["generation"], again["predicted"]) == (2, {"state": "ok"})
    assert other["predicted"] == {}


@pytest.mark.parametrize(
    ("base", "over", "merged"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"b": 1}}, {"a": None}, {"a": None}),
        ({"a": None}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_merge_goes_by_key_and_replaces_the_rest(base: dict[str, Any], over: dict[str, Any], merged: dict[str, Any]) -> None:
    before = repr(base)
    assert _facts.merge(base, over) == merged
    assert repr(base) == before


def test_read_takes_only_a_mapping() -> None:
    assert _facts.read({"ansible_facts": {"gpufleet": "text"}}) == {}
    assert _facts.read({}) == {}
    assert _facts.read({"ansible_facts": {"gpufleet": {"run": "r"}}}) == {"run": "r"}
