# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts the work of model_snapshot on a host and shows how far it is."""

from __future__ import annotations

import time
import typing as t

from ..plugin_utils._job_action import JobAction


class ActionModule(JobAction):
    """Long work by steps; see _job_action."""

    module, subject, timeout = "gpufleet.inference.model_snapshot", "model", 7200

    def waits(self, args: dict[str, t.Any], plan: dict[str, t.Any]) -> bool:
        return bool(plan.get("changed")) and args.get("state") != "absent"

    def described(self, result: dict[str, t.Any]) -> dict[str, t.Any]:
        words, fetch = result.pop("plan", None), result.get("to_fetch")
        if self._task.diff and words:
            size = f" ({fetch['files']} files, {fetch['bytes'] / 2**30:.2f} GiB)" if fetch else ""
            lines = [word + (size if word == "fetch" else "") for word in words]
            result["diff"] = {"before": "", "after": "\n".join(lines) + "\n", "after_header": str(self._task.args.get("name"))}
        return result

    def progress(self, counts: dict[str, t.Any]) -> str:
        if not counts.get("bytes_total"):
            return "asking what there is"
        done, total = counts["bytes_done"], counts["bytes_total"]
        rate = done / max(0.1, time.time() - counts["started"])
        left = f", {(total - done) / rate:.0f} s left" if rate > 1 and done < total else ""
        files = f"{counts['files_done']}/{counts['files_total']} files"
        return f"{100 * done / total:.0f} % of {total / 2**30:.2f} GiB, {rate / 2**20:.0f} MiB/s{left}, {files}"
