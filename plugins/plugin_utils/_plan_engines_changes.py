# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From an instance and what the host has of it to the changes that are needed, each named. Pure.

Private to the collection.
"""

from __future__ import annotations

import hashlib
import typing as t

from ._contracts import Change, Disruption
from ._engine_definition import Definition
from ._plan_engines_facts import UNIT, Facts, Here

COMPONENT = "engines"
_PLAIN = ("engine", "version", "model", "served_name", "gpus", "host", "port", "user", "runtime", "program")
RUNNING = ("active", "reloading")


def changes(name: str, wanted: Definition, here: Here) -> tuple[str, list[Change]]:
    """What is to be done with the instance (switch, start, restart, nothing), and why."""
    record, busy = here.record(name), here.active(name)
    cut: Disruption = "engine_restart" if busy else "none"
    if here.job(name) is not None:
        text = f"{name}: a change that an earlier run began goes on; this run attaches to it"
        return "switch", [_change("attach", name, "changing", "changed", text, cut)]
    if record is None:
        return "switch", [_change("install", name, "absent", _shown(wanted), f"{name}: {_title(wanted)} is installed and started", cut)]
    if record.get("state") == "switching":
        text = f"{name}: a change was cut off in the middle; it is brought to its end"
        return "switch", [_change("heal", name, "cut off", _shown(wanted), text, cut)]
    different = [*_differs(wanted, record), *_drift(wanted, here)]
    if record.get("definition_sha256") != wanted["sha256"] or different:
        return "switch", _update(name, wanted, here, different, cut)
    return _running(name, wanted, here, cut)


def removal(name: str, here: Here) -> Change:
    record = here.record(name) or {}
    before = f"{record.get('engine')} {record.get('version')}, {record.get('model')}"
    cut: Disruption = "engine_restart" if here.active(name) else "none"
    return _change("remove", name, before, "absent", f"{name} is stopped and removed; its state folder stays", cut)


def _update(name: str, wanted: Definition, here: Here, different: list[tuple[str, t.Any, t.Any]], cut: Disruption) -> list[Change]:
    """One change for each difference that has a name, so that a diff shows each."""
    if not different:
        different = [("definition", "the recorded one", "another one (life cycle, checks or secrets)")]
    return [
        _change("update", f"{name} {what}", before, after, f"{name}: {what} {_words(before, after)}", cut)
        for what, before, after in different
    ]


def _words(before: t.Any, after: t.Any) -> str:
    short = all(len(str(value)) <= 80 and "\n" not in str(value) for value in (before, after))
    return f"is {before}, becomes {after}" if short else "differs"


def _differs(wanted: Definition, record: Facts) -> t.Iterator[tuple[str, t.Any, t.Any]]:
    """Keys that the record has too."""
    for key in _PLAIN:
        if key in record and record[key] != wanted[key]:
            yield key, record[key], wanted[key]


def _drift(wanted: Definition, here: Here) -> t.Iterator[tuple[str, t.Any, t.Any]]:
    """Files that are not as they should be, whoever changed them. Texts of secrets are never shown."""
    for unit, text in wanted["units"].items():
        file = here.file(f"/etc/systemd/system/{unit}")
        if file.get("text") != text and file.get("sha256") != _sha(text):
            yield f"unit {unit}", file.get("text") or ("another text" if file else "missing"), text
    for path, should in wanted["files"].items():
        file = here.file(path)
        if file.get("sha256") != should["sha256"]:
            shown = "the asked content" if should["secret"] else should["text"]
            yield f"file {path}", ("another content" if file else "missing"), shown
        elif file.get("mode") not in (None, should["mode"]) or file.get("uid") not in (None, 0):
            yield f"file {path}", f"mode {file.get('mode')}, owner {file.get('uid')}", f"mode {should['mode']}, owner 0"


def _running(name: str, wanted: Definition, here: Here, cut: Disruption) -> tuple[str, list[Change]]:
    """Everything lies there as asked: does it run, with just that, and after a boot too?"""
    main, record = f"{UNIT}{name}.service", here.record(name) or {}
    for unit in wanted["start"]:
        state = here.unit(unit)
        if unit.endswith(".service") and state.get("active_state") not in RUNNING:
            how = (
                f"{state.get('active_state') or 'not loaded'} ({state.get('result') or 'unknown'}, status {state.get('exec_main_status')})"
            )
            return "start", [_change("start", name, how, "active", f"{name}: {unit} is {how}; it is started", "none")]
    if record.get("state") == "failed":
        text = f"{name}: the last change left it without an answer ({record.get('failure') or 'no reason recorded'}); it is tried again"
        return "restart", [_change("restart", name, "failed", "answering", text, "none")]
    started = here.started_with(name)
    if started not in (None, wanted["sha256"]) or any(here.unit(unit).get("need_daemon_reload") for unit in wanted["units"]):
        why = "systemd has an older unit" if here.unit(main).get("need_daemon_reload") else "it runs with an older definition"
        return "restart", [_change("restart", name, why, "the recorded definition", f"{name}: {why}; it is restarted", cut)]
    off = [unit for unit in wanted["enable"] if here.unit(unit).get("enabled") not in ("enabled", True, None)]
    off += [unit for unit in wanted["start"] if unit.endswith(".timer") and here.unit(unit).get("active_state") != "active"]
    if off:
        text = f"{name}: {', '.join(dict.fromkeys(off))} would not start at boot or does not run; enabled"
        return "enable", [_change("enable", name, "not enabled", "enabled", text, "none")]
    return "nothing", []


def _shown(wanted: Definition) -> dict[str, t.Any]:
    return {key: wanted[key] for key in _PLAIN}


def _title(wanted: Definition) -> str:
    return f"{wanted['engine']} {wanted['version']} with {wanted['model']} on port {wanted['port']}"


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _change(what: str, subject: str, before: t.Any, after: t.Any, message: str, disruption: Disruption) -> Change:
    return Change(f"{COMPONENT}.{what}", COMPONENT, subject, before, after, message, disruption)
