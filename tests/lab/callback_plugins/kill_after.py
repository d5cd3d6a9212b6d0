# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kills ansible-playbook, workers and all, after the task number $KILL_AFTER_TASK: what a lost controller looks like to a host."""

from __future__ import annotations

import os
import signal
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: kill_after
type: aggregate
short_description: ends the run at a task
description: [Sends SIGKILL to its own process group, which has to be one of its own.]
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "kill_after"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.left = int(os.environ.get("KILL_AFTER_TASK") or 0)

    def v2_runner_on_ok(self, result: Any) -> None:
        self.left -= 1
        if self.left == 0 and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
