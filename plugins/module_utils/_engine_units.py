# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units of engine instances as systemd has them. Private to the collection."""

from __future__ import annotations

import time
import typing as t

from ._subprocess import run

PREFIX = "gpufleet-engine-"
_PROPERTIES = (
    "Id,LoadState,ActiveState,SubState,Result,ExecMainStatus,UnitFileState,NeedDaemonReload,MainPID,"
    "ExecMainStartTimestampMonotonic,NRestarts,InvocationID,ControlGroup"
)


def show(names: t.Iterable[str], timeout: float = 20.0) -> tuple[dict[str, dict[str, t.Any]], str]:
    """Unit → its state, of those that systemd knows (patterns too, which match what is loaded), by one call; and why it did not answer."""
    wanted = list(dict.fromkeys(names))
    answer = run(["systemctl", "show", f"--property={_PROPERTIES}", "--", *wanted], timeout=timeout)
    if not answer.success and not answer.out:
        return {}, f"systemctl show: {answer.err.strip() or answer.state}"
    out = {}
    for block in answer.out.split("\n\n"):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if fields.get("Id") and fields.get("LoadState", "not-found") != "not-found":
            out[fields["Id"]] = _state(fields)
    return out, ""


def _state(fields: t.Mapping[str, str]) -> dict[str, t.Any]:
    began = _number(fields.get("ExecMainStartTimestampMonotonic"))
    return {
        "load": fields.get("LoadState", ""),
        "active_state": fields.get("ActiveState", ""),
        "sub_state": fields.get("SubState", ""),
        "result": fields.get("Result", ""),
        "exec_main_status": _number(fields.get("ExecMainStatus")),
        "enabled": fields.get("UnitFileState", ""),
        "need_daemon_reload": fields.get("NeedDaemonReload") == "yes",
        "main_pid": _number(fields.get("MainPID")),
        # By the clock as it is now: what it said when a host booted may have been wrong.
        "started": round(time.time() - time.clock_gettime(time.CLOCK_MONOTONIC) + began / 1e6, 3) if began else None,
        "restarts": _number(fields.get("NRestarts")),
        "invocation": fields.get("InvocationID", ""),
        "cgroup": fields.get("ControlGroup", ""),
    }


def _number(text: t.Optional[str]) -> int:
    return int(text) if text and text.isdigit() else 0
