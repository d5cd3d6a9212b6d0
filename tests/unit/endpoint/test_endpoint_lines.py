# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people are shown of an engine that did not come up."""

from __future__ import annotations

import types

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _endpoint_wait

CAUSE = "RuntimeError: Insufficient space in /dev/shm for shared-memory allocation: 160 MiB required, 62 MiB free."
PREFIX = "(EngineCore pid=1075) ERROR 12-01 00:42:27 [core.py:1433] "
SUMMARY = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"


def test_the_root_cause_comes_before_the_last_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """As vLLM 0.31 says it: the cause twice, then dozens of frames, then a summary that only points up."""
    said = [PREFIX + CAUSE, *["  File x, line 1, in run"] * 40, CAUSE, *["  File y, line 2, in main"] * 30, SUMMARY, "Main process exited"]
    answer = types.SimpleNamespace(out="\n".join(said))
    monkeypatch.setattr(_endpoint_wait, "run", lambda _argv, timeout: answer)
    assert _endpoint_wait.last_lines("x.service", 3) == [CAUSE, "  File y, line 2, in main", SUMMARY, "Main process exited"]


def test_what_is_no_error_is_none() -> None:
    assert _endpoint_wait.errors(["INFO Error rate: 0", "no errors: fine", "ValueErrors: 3"]) == []
