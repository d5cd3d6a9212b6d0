# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Renders a gateway's files on the controller; the host gets text and never the inventory."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..plugin_utils._gateway_files import files, identity_of
from ..plugin_utils._gateway_input import read
from ..plugin_utils._gateway_places import Places
from ..plugin_utils._matrix_load import MatrixError, load_matrix
from ..plugin_utils._render import refusal

ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "gateway": {"type": "dict", "default": {}},
    "matrix_overlay": {"type": "list", "elements": "path", "default": []},
}


class ActionModule(ActionBase):
    """See the module documentation of gateway_config."""

    _supports_check_mode = False
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)[1]
        given: dict[str, t.Any] = {"state": args["state"]}
        if args["state"] == "present":
            try:
                gateway, findings = read(args["gateway"], load_matrix(overlays=args["matrix_overlay"]))
            except MatrixError as error:
                raise AnsibleActionFail(str(error)) from error
            if gateway is None:
                raise AnsibleActionFail(refusal("gateway", findings))
            made = files(gateway, Places())
            given["files"] = {path: {"text": text, "mode": mode} for path, (text, mode) in made.items()}
            given["identity"] = identity_of(made, Places())
        answer = self._execute_module(module_name="gpufleet.inference.gateway_config", module_args=given, task_vars=task_vars)
        # The module's arguments are files with keys in them.
        answer.pop("invocation", None)
        return {**result, **answer}
