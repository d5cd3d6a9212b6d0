# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes stack.lock.yml on the controller from the facts of many hosts."""

from __future__ import annotations

import datetime
import json
import os
import typing as t

import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._errors import HostError
from ..module_utils._files import read_text, write_text
from ..plugin_utils import _facts
from ..plugin_utils._contracts import Context
from ..plugin_utils._lock import SCHEMA, resolve
from ..plugin_utils._matrix_load import MatrixError, load_matrix
from ..plugin_utils._products import complete

ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "path": {"type": "path", "required": True},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "channel": {"type": "str", "default": "lts", "choices": ["lts", "production", "newest"]},
    "stack": {"type": "str"},
    "driver": {"type": "dict", "default": {}},
    "cuda": {"type": "dict", "default": {}},
    "container_toolkit": {"type": "dict", "default": {}},
    "engines": {"type": "raw"},
    "matrix_overlay": {"type": "list", "elements": "path", "default": []},
    "allow": {"type": "list", "elements": "dict", "default": []},
    "unknown": {"type": "str", "default": "block", "choices": ["warn", "block"]},
}
HEADER = """\
# Written by gpufleet.inference.lock: the stack of each hardware group, exact versions, and the matrix rows that decided.
# Commit it. site follows it, audit reports drift from it; nothing moves until it is written again.
"""


class ActionModule(ActionBase):
    """Reads the hosts' facts from hostvars; see the module documentation of stack_lock."""

    _supports_check_mode = True
    _supports_diff = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)[1]
        path = os.path.abspath(args["path"])
        try:
            matrix = load_matrix(overlays=args["matrix_overlay"])
            before = read_text(path)
        except (MatrixError, HostError) as error:
            raise AnsibleActionFail(str(error)) from error
        hostvars = (task_vars or {})["hostvars"]
        facts = {host: _host(hostvars, host) for host in args["hosts"]}
        documents = {host: complete(document, matrix) if document else {} for host, document in facts.items()}
        policy = Context(today=datetime.date.today(), unknown=args["unknown"], allow=tuple(args["allow"]))
        document, problems = resolve(matrix, documents, _wanted(args), policy)
        document = json.loads(json.dumps(document))  # plain types: YAML knows no subclass of str
        if not document["groups"]:
            why = "\n".join(f"  {host}: {reason}" for host, reason in problems.items()) or "  no hosts were given"
            raise AnsibleActionFail(f"No host could be resolved, {path} stays as it is:\n{why}")
        text = _text(document, before)
        check = bool(self._task.check_mode)
        try:
            written = write_text(path, text, check=check)
        except HostError as error:
            raise AnsibleActionFail(f"The stack lock could not be written: {error}") from error
        result.update(changed=written.changed, path=path, lock=document, unresolved=problems)
        if self._task.diff and written.changed:
            result["diff"] = written.diff
        for host, reason in problems.items():
            self._display.warning(f"{host} is in no group of the stack lock: {reason}")
        return result


def _host(hostvars: t.Any, host: str) -> dict[str, t.Any]:
    if host not in hostvars:
        raise AnsibleActionFail(f"hosts names {host}, which is not in the inventory")
    fact = _facts.read(hostvars[host])
    # A persistent fact cache must not lock what a host was yesterday.
    return _facts.effective(fact) if _facts.fresh(fact, _facts.run_id()) else {}


def _wanted(args: dict[str, t.Any]) -> dict[str, t.Any]:
    names = ("channel", "stack", "driver", "cuda", "container_toolkit")
    wanted = {name: args[name] for name in names if args.get(name)}
    engines = args.get("engines")
    if engines and not isinstance(engines, (list, dict)):
        raise AnsibleActionFail(f"engines is {engines!r}; expected a list of names, or a mapping of name to version")
    return {**wanted, "engines": engines} if engines else wanted


def _text(document: dict[str, t.Any], before: str | None) -> str:
    """The file's text. A lock that says the same keeps its date, so that writing it again changes nothing."""
    try:
        old = yaml.safe_load(before) if before else None
    except yaml.YAMLError:
        old = None
    if isinstance(old, dict) and old.get("schema") == SCHEMA and {**old, "resolved_at": None} == {**document, "resolved_at": None}:
        document["resolved_at"] = str(old["resolved_at"])
    return HEADER + "---\n" + yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)
