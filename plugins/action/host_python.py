# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries the wheel of host_python to the host."""

from __future__ import annotations

import os
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Transfers `wheel` and runs the module of the same name on the copy."""

    TRANSFERS_FILES = True
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        args = dict(self._task.args)
        if args.get("wheel"):
            wheel = os.path.expanduser(str(args["wheel"]))
            if not os.path.isfile(wheel):
                raise AnsibleActionFail(f"wheel is {wheel}, which does not exist on the controller")
            remote = self._connection._shell.join_path(self._connection._shell.tmpdir or self._make_tmp_path(), os.path.basename(wheel))
            self._transfer_file(wheel, remote)
            self._fixup_perms2((self._connection._shell.tmpdir, remote))
            args["wheel"] = remote
        try:
            return {**result, **self._execute_module(module_name="gpufleet.inference.host_python", module_args=args, task_vars=task_vars)}
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)
