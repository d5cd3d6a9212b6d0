# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time bounds of modules: which are refused, and that every module that takes one looks at it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError
from ansible_collections.gpufleet.inference.plugins.module_utils._seconds import check_seconds

MODULES = Path(__file__).resolve().parents[3] / "plugins/modules"
OWN_RANGE = {"model_snapshot.py"}
"""It has tighter bounds of its own, in one table with its other numbers."""


@pytest.mark.parametrize("value", [0, -1, 604801, float("inf"), float("nan")])
def test_what_is_no_time_is_named(value: float) -> None:
    with pytest.raises(HostError, match=r"lock_timeout is \S+; expected seconds from 1 to 604800"):
        check_seconds({"timeout": 5, "lock_timeout": value}, "timeout", "lock_timeout")


def test_what_is_one_passes() -> None:
    check_seconds({"timeout": 604800, "short": 0.5}, "timeout")
    check_seconds({"short": 0}, "short", least=0)


def test_every_module_with_a_time_bound_judges_it() -> None:
    missing = []
    for path in MODULES.glob("*.py"):
        text = path.read_text()
        names = re.findall(r'"(\w*timeout)": \{"type"', text)
        names += ["transaction_timeout", "lock_timeout"] if "**REPOSITORY_OPTIONS" in text else []
        judged = " ".join(re.findall(r"check_seconds\(.*\)", text))
        missing += [f"{path.name}: {name}" for name in names if path.name not in OWN_RANGE and f'"{name}"' not in judged]
    assert missing == []
