# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine runs in, of either kind. Private to the collection; see _job for `work`."""

from __future__ import annotations

import typing as t

from . import _runtime_image, _runtime_venv

Job = t.Mapping[str, t.Any]


def plan(job: Job) -> dict[str, t.Any]:
    return _runtime_venv.plan(job) if job["runtime"] == "venv" else _runtime_image.plan(job)


def work(job: Job, secrets: t.Mapping[str, str], progress: t.Callable[[dict[str, t.Any]], None]) -> dict[str, t.Any]:
    part = _runtime_venv if job["runtime"] == "venv" else _runtime_image
    return part.work(job, secrets, progress)


def absent(job: Job, check: bool) -> dict[str, t.Any]:
    part = _runtime_venv if job["runtime"] == "venv" else _runtime_image
    return part.absent(job, check)
