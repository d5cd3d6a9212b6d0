# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of engine_runtime: reads the lock, knows which Python a release takes, carries lock and uv to the host."""

from __future__ import annotations

import os
import time
import typing as t

from ansible.errors import AnsibleActionFail

from ..module_utils import _runtime_args, _runtime_lock
from ..module_utils._errors import WorkError
from ..plugin_utils import _matrix_engines
from ..plugin_utils._job_action import JobAction
from ..plugin_utils._matrix_load import MatrixError, load_matrix

_STAYS = ("requirements", "requirements_file", "exclude", "uv_wheel", "matrix_overlay")
"""Options of the controller's half."""


class ActionModule(JobAction):
    """Long work by steps; see _job_action."""

    TRANSFERS_FILES = True
    module, subject, timeout = "gpufleet.inference.engine_runtime", "runtime", 3600
    _needs_uv = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        spec = {**_runtime_args.PUBLIC, "name": {"type": "str"}}  # a retried task has it already
        exclusive = [("requirements", "requirements_file"), ("auth_file", "registry_password")]
        options = self.validate_argument_spec(argument_spec=spec, mutually_exclusive=exclusive)[1]
        try:
            _runtime_args.refuse(options)
            self._pins = _pins(options) if options["runtime"] == "venv" and options["state"] == "present" else []
            self._requires = _python_requires(options)
        except WorkError as error:
            return {"failed": True, "reason": error.reason, "msg": f"{options['engine']} {options['version']}: {error}"}
        self._task.args["name"] = _runtime_args.name(options)
        return super().run(tmp, task_vars)

    def waits(self, args: dict[str, t.Any], plan: dict[str, t.Any]) -> bool:
        self._needs_uv = bool(plan.get("needs_uv"))
        return bool(plan.get("changed")) and args.get("state") != "absent"

    def progress(self, counts: dict[str, t.Any]) -> str:
        if "packages_total" not in counts:
            return str(counts.get("phase") or "beginning")
        packages = f"{counts['packages_done']}/{counts['packages_total']} packages"
        seconds = time.time() - counts["started"]
        return f"{counts['phase']}, {packages}, about {counts['bytes_written'] / 2**30:.1f} GiB written, {seconds:.0f} s"

    def described(self, result: dict[str, t.Any]) -> dict[str, t.Any]:
        words = result.pop("plan", None)
        result.pop("needs_uv", None)
        if self._task.diff and words:
            title = f"{self._task.args['engine']} {self._task.args['version']}"
            lines = [f"{word} {result.get('path') or self._task.args.get('image')}" for word in words]
            result["diff"] = {"before": "", "after": "\n".join(lines) + "\n", "after_header": title}
        return result

    def _step(self, args: dict[str, t.Any], step: str, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        given = {key: value for key, value in args.items() if key not in _STAYS}
        if self._pins:
            given.update(lock_sha256=_runtime_lock.digest(self._pins), python_requires=self._requires)
        if step == "start" and self._pins:
            given["lock"] = self._carried("requirements.txt", text=_runtime_lock.canonical(self._pins))
            if self._needs_uv and args.get("uv_wheel"):
                wheel = os.path.expanduser(str(args["uv_wheel"]))
                if not os.path.isfile(wheel):
                    raise AnsibleActionFail(f"uv_wheel is {wheel}, which does not exist on the controller")
                given["uv_wheel"] = self._carried(os.path.basename(wheel), path=wheel)
        return super()._step(given, step, task_vars)

    def _carried(self, name: str, text: str = "", path: str = "") -> str:
        """Path of the file on the host, in the folder that goes with the task."""
        shell = self._connection._shell
        remote = str(shell.join_path(shell.tmpdir or self._make_tmp_path(), name))
        if path:
            self._transfer_file(path, remote)
        else:
            self._transfer_data(remote, text)
        self._fixup_perms2((shell.tmpdir, remote))
        return remote


def _pins(options: dict[str, t.Any]) -> list[_runtime_lock.Pin]:
    """The lock, read and judged before the host is asked anything."""
    text, source = options["requirements"], "requirements"
    if options["requirements_file"]:
        source = f"requirements_file {options['requirements_file']}"
        try:
            with open(os.path.expanduser(options["requirements_file"]), encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeError) as exc:
            raise WorkError("bad_lock", f"{source} cannot be read on the controller: {getattr(exc, 'strerror', None) or exc}") from exc
    if text is None:
        raise WorkError("bad_lock", "requirements or requirements_file is needed: a venv is made by a lock with hashes")
    pins = _runtime_lock.select(_runtime_lock.parse(text, source), options["exclude"], source)
    distribution = options["distribution"] or _runtime_args.DISTRIBUTION[options["engine"]]
    _runtime_lock.check_version(pins, distribution, options["version"], source)
    return pins


def _python_requires(options: dict[str, t.Any]) -> str:
    """What the release, or the newest older one that the matrix knows, takes."""
    try:
        matrix = load_matrix(overlays=options["matrix_overlay"])
    except MatrixError as error:
        raise AnsibleActionFail(str(error)) from error
    found = _matrix_engines.release(matrix, options["engine"], options["version"])
    return str(found.row.get("python") or "") if found else ""
