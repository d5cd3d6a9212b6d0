# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes an engine instance in a job on its host, and waits for it; secrets go apart from the rest."""

from __future__ import annotations

import typing as t

from ..plugin_utils._job_action import JobAction


class ActionModule(JobAction):
    """Long work by steps; see _job_action."""

    module, subject, timeout = "gpufleet.inference.engine_switch", "instance", 14400

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        definition = self._task.args.get("definition")
        if isinstance(definition, t.Mapping):
            files = t.cast("dict[str, dict[str, t.Any]]", definition.get("files") or {})
            secrets = {path: file["text"] for path, file in files.items() if file.get("secret") and "text" in file}
            bare = {
                path: {key: value for key, value in file.items() if path not in secrets or key != "text"} for path, file in files.items()
            }
            self._task.args = {**self._task.args, "definition": {**definition, "files": bare}, "secrets": secrets}
        return super().run(tmp, task_vars)
