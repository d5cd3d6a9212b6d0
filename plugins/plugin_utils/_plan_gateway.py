# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan of component `gateway`: HAProxy, its files, its unit, and whether the running process has read them. Pure.

Private to the collection. `facts` is gpu_info with the answer of gateway_info under `gateway_info`.
No text of a file with keys gets into the plan.
"""

from __future__ import annotations

import difflib
import hashlib
import typing as t

from ..module_utils import _gateway_paths as paths
from ..module_utils._gateway_core import drop_in
from ._contracts import Change, Context, Finding, Plan, named_finding
from ._gateway_files import files, identity_of
from ._gateway_input import read
from ._gateway_places import Places
from ._gateway_runtime import gateway_runtime_sha256
from ._gateway_servers import below_floor
from ._gateway_types import Gateway
from ._matrix_model import Matrix
from ._versions import key as version_key

Info = t.Mapping[str, t.Any]
SOURCE = "docs/gateway.md"
OLDEST = "2.6"


def plan(desired: Info, facts: Info, matrix: Matrix, context: Context) -> Plan:
    """`desired`: the variables of role gpu_gateway without their prefix, and `state`."""
    result = Plan(component="gateway")
    info: Info = facts.get("gateway_info") or {}
    if not info:
        return result
    if desired.get("state", "present") == "absent":
        _absent(result, info)
    else:
        gateway, wrong = read({key: value for key, value in desired.items() if key != "state"}, matrix)
        result.findings += [*wrong, *_obstacles(info, context)]
        if gateway is not None:
            result.findings += _emptied(gateway, info)
            _present(result, gateway, info)
            result.findings += below_floor(gateway, info)
    result.decision = "converge" if result.changes else "nothing"
    return result


def _absent(result: Plan, info: Info) -> None:
    if info.get("record") is not None or (info.get("config") or "").startswith(paths.MARK):
        before = "what was there before" if (info.get("record") or {}).get("had_config") else "no configuration"
        result.changes.append(
            _change("absent", paths.CONFIG, "ours", before, f"{paths.CONFIG} becomes {before} again", "host_service_restart")
        )


def _present(result: Plan, gateway: Gateway, info: Info) -> None:
    if info.get("binary") is None:
        result.details["install"] = True
        result.changes.append(_change("package", "haproxy", None, "installed", "package haproxy is installed"))
    made = files(gateway, Places())
    for path, (text, mode) in made.items():
        result.changes += _file(path, text, mode, info)
    for name, before, after in (
        (paths.DROP_IN, info.get("drop_in"), drop_in(info.get("binary") or "/usr/sbin/haproxy")),
        (paths.RUNTIME, info.get("runtime_sha256"), gateway_runtime_sha256()),
    ):
        if before != after:
            result.changes.append(_change("unit", name, "absent" if before is None else "another", "ours", f"{name} is written"))
    unit = info.get("unit") or {}
    for key, wanted in (("active", "active"), ("enabled", "enabled")):
        if unit.get(key) != wanted:
            result.changes.append(_change("service", paths.UNIT, unit.get(key), wanted, f"{paths.UNIT} becomes {wanted}"))
    if unit.get("need_daemon_reload"):
        result.changes.append(_change("service", paths.UNIT, "read by systemd before it changed", "read", "systemd reads its files again"))
    if not result.changes and info.get("loaded") != identity_of(made, Places()):
        message = "HAProxy takes the files that are there: the running process was made with others"
        result.changes.append(_change("reload", paths.UNIT, info.get("loaded"), identity_of(made, Places()), message))


def _file(path: str, text: str, mode: int, info: Info) -> t.Iterator[Change]:
    there = (info.get("files") or {}).get(path)
    if path == paths.CONFIG:
        before, after = _lines(info.get("config") or ""), _lines(text)
        if before != after:
            yield _config_change(before, after)
    elif not there or there["sha256"] != hashlib.sha256(text.encode()).hexdigest():
        yield _change("pools" if path == paths.POOLS else "keys", path, "another" if there else "absent", "as asked", f"{path} is written")
    if there and there["mode"] != mode:
        yield _change("mode", path, f"{there['mode']:04o}", f"{mode:04o}", f"mode of {path} becomes {mode:04o}")


def _lines(text: str) -> list[str]:
    """What HAProxy reads of a file: neither comments nor layout, nor the identity, whose difference always has another reason."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(("#", "description gpufleet"))]


def _config_change(before: list[str], after: list[str]) -> Change:
    told = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    gone, new = ("\n".join(line[2:] for line in told if line[0] == sign) for sign in "-+")
    return _change("config", paths.CONFIG, gone, new, f"{paths.CONFIG} is written and HAProxy takes it")


def _change(name: str, subject: str, before: t.Any, after: t.Any, message: str, disruption: t.Any = "none") -> Change:
    return Change(f"gateway.{name}", "gateway", subject, before, after, message, disruption)


def _emptied(gateway: Gateway, info: Info) -> t.Iterator[Finding]:
    """An inventory group with a typing error is an empty list, and would take every model from its clients."""
    servers = sorted({str(server["server"]) for server in info.get("servers") or ()})
    if servers and not gateway.groups:
        rest = {
            "found": "empty",
            "needed": f"the engines behind this gateway; it has {', '.join(servers[:6])}",
            "fix": "Name the engines in gpu_gateway_backends, or set gpu_gateway_state: absent to take the gateway away.",
        }
        message = "gpu_gateway_backends is empty, and this gateway serves."
        yield named_finding("gateway", "emptied", "block", message, SOURCE, subject="gpu_gateway_backends", **rest)


def _obstacles(info: Info, context: Context) -> t.Iterator[Finding]:
    version, config = info.get("version"), info.get("config")
    if version and version_key(version.partition("-")[0]) < version_key(OLDEST):
        message = f"HAProxy {version} is too old for the configuration of this role."
        fix = "Take a host whose distribution has it: Debian 12, Ubuntu 24.04, EL 10, or newer."
        rest = {"found": version, "needed": f"{OLDEST} or newer", "fix": fix, "nearest": "Debian 12 (2.6)"}
        yield named_finding("gateway", "haproxy_too_old", "block", message, SOURCE, **rest)
    ours = (config or "").startswith(paths.MARK)
    if config is not None and not ours and not info.get("pristine") and "gateway" not in context.take_over:
        message = f"{paths.CONFIG} is somebody else's: neither this role wrote it nor the package."
        fix = "Take another host, or set gpu_gateway_take_over: [gateway]; the file is kept and comes back with state absent."
        rest = {
            "found": config.strip().splitlines()[0][:80] if config.strip() else "an empty file",
            "needed": "a file of this role or the package",
        }
        yield named_finding("gateway", "foreign_config", "block", message, SOURCE, subject=paths.CONFIG, fix=fix, **rest)
    if info.get("marks_error"):
        message = f"The maintenance marks of this gateway cannot be read: {info['marks_error']}."
        rest = {"found": str(info["marks_error"]), "needed": "a readable file", "fix": f"Repair or remove {paths.MARKS}."}
        yield named_finding("gateway", "marks_unreadable", "block", message, SOURCE, subject=paths.MARKS, **rest)
