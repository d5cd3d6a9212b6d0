"""The planner: what differs, what is refused, and that no key gets into a plan."""

from __future__ import annotations

import datetime
import hashlib
import json
import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _gateway_paths as paths
from ansible_collections.gpufleet.inference.plugins.module_utils._gateway_core import drop_in
from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Context, Plan
from ansible_collections.gpufleet.inference.plugins.plugin_utils._gateway_files import files, identity_of
from ansible_collections.gpufleet.inference.plugins.plugin_utils._gateway_places import Places
from ansible_collections.gpufleet.inference.plugins.plugin_utils._gateway_runtime import gateway_runtime_sha256
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._plan_gateway import plan

from .conftest import ENGINE_KEY, KEY, gateway

WITH_KEY = {"api_key": ENGINE_KEY}
SERVERS = [
    {
        "host": f"gpu-{n}",
        "instance": "chat",
        "address": f"10.0.0.{n}",
        "port": 8000,
        "engine": "vllm",
        "models": ["m"],
        "api_key": ENGINE_KEY,
    }
    for n in (1, 2)
]
DESIRED: dict[str, t.Any] = {"state": "present", "keys": [{"name": "team-a", "key": KEY}], "backends": SERVERS}
VIRGIN: dict[str, t.Any] = {"binary": None, "version": None, "config": None, "pristine": True, "files": {}, "unit": None, "record": None}


def converged(**more: t.Any) -> dict[str, t.Any]:
    made = files(gateway(backends=SERVERS), Places())
    return {
        "binary": "/usr/sbin/haproxy",
        "version": "2.6.12-1+deb12u4",
        "config": made[paths.CONFIG][0],
        "pristine": False,
        "files": {path: {"sha256": hashlib.sha256(text.encode()).hexdigest(), "mode": mode} for path, (text, mode) in made.items()},
        "drop_in": drop_in("/usr/sbin/haproxy"),
        "runtime_sha256": gateway_runtime_sha256(),
        "record": {"schema": 1, "had_config": True, "was_enabled": True},
        "unit": {"active": "active", "enabled": "enabled", "need_daemon_reload": False},
        "loaded": identity_of(made, Places()),
        "servers": [],
        **more,
    }


def planned(info: dict[str, t.Any], take_over: tuple[str, ...] = (), **desired: t.Any) -> Plan:
    context = Context(today=datetime.date(2026, 11, 30), take_over=frozenset(take_over))
    made = plan({**DESIRED, **desired}, {"gateway_info": info}, load_matrix(), context)
    text = json.dumps(made.to_dict())
    assert KEY not in text
    assert ENGINE_KEY not in text
    assert hashlib.sha256(KEY.encode()).hexdigest().upper() not in text
    return made


def ids(made: Plan) -> list[str]:
    return sorted({change.id for change in made.changes})


def findings(made: Plan) -> list[str]:
    return [f"{finding.severity} {finding.id}" for finding in made.findings]


def test_a_converged_gateway_has_nothing_to_do() -> None:
    made = planned(converged())
    assert (ids(made), findings(made), made.decision) == ([], [], "nothing")


def test_a_virgin_host_gets_everything() -> None:
    made = planned(VIRGIN)
    assert ids(made) == ["gateway.config", "gateway.keys", "gateway.package", "gateway.pools", "gateway.service", "gateway.unit"]
    assert made.details == {"install": True}


def test_comments_and_layout_are_no_difference() -> None:
    info = converged()
    info["config"] = "# a remark\n" + info["config"].replace("\n  ", "\n\t")
    assert ids(planned(info)) == []


@pytest.mark.parametrize(
    ("more", "changes"),
    [
        ({"loaded": "0" * 64}, ["gateway.reload"]),
        ({"loaded": None}, ["gateway.reload"]),
        ({"drop_in": None}, ["gateway.unit"]),
        ({"runtime_sha256": "0" * 64}, ["gateway.unit"]),
        ({"unit": {"active": "failed", "enabled": "enabled"}}, ["gateway.service"]),
        ({"unit": {"active": "active", "enabled": "disabled"}}, ["gateway.service"]),
        ({"unit": {"active": "active", "enabled": "enabled", "need_daemon_reload": True}}, ["gateway.service"]),
        ({"config": None}, ["gateway.config"]),
    ],
)
def test_what_is_not_as_asked_is_a_change(more: dict[str, t.Any], changes: list[str]) -> None:
    assert ids(planned(converged(**more))) == changes


def test_a_new_server_is_shown_line_by_line() -> None:
    more = [*SERVERS, {**SERVERS[0], "host": "gpu-3", "address": "10.0.0.3"}]
    change = next(change for change in planned(converged(), backends=more).changes if change.id == "gateway.config")
    assert change.before == ""
    assert change.after == "server gpu-3_chat 10.0.0.3:8000 weight 100 maxconn 64"


def test_another_key_is_a_change_without_its_text() -> None:
    made = planned(converged(), keys=[{"name": "team-a", "key": KEY + "-new"}])
    assert ids(made) == ["gateway.keys"]
    assert KEY not in str(made.changes)


def test_a_readable_key_file_is_closed() -> None:
    info = converged()
    info["files"][paths.ENGINE_KEYS]["mode"] = 0o644
    assert ids(planned(info)) == ["gateway.mode"]


def test_somebody_elses_configuration_is_left_alone() -> None:
    foreign = converged(config="global\n  maxconn 5\n", record=None)
    assert findings(planned(foreign)) == ["block gateway.foreign_config"]
    assert findings(planned(foreign, take_over=("gateway",))) == []
    assert findings(planned({**foreign, "pristine": True})) == []


@pytest.mark.parametrize(("version", "said"), [("2.4.22", ["block gateway.haproxy_too_old"]), ("2.6.12-1", []), ("3.0.11", [])])
def test_too_old(version: str, said: list[str]) -> None:
    assert findings(planned(converged(version=version))) == said


def test_fewer_servers_than_the_floor_are_named() -> None:
    rows = [{"backend": "m.default", "server": f"gpu-{n}_chat", "operation": "2", "admin": "0", "weight": "100"} for n in (1, 2)]
    assert findings(planned(converged(servers=rows), floor=2)) == []
    for sick in ({"operation": "0"}, {"admin": "8"}, {"admin": "1"}, {"weight": "0"}):
        made = planned(converged(servers=[rows[0], {**rows[1], **sick}]), floor=2)
        assert findings(made) == ["warn gateway.below_floor"], sick
        assert "gpu-2_chat" in made.findings[0].message


def test_absent() -> None:
    assert ids(planned(converged(), state="absent", keys=[])) == ["gateway.absent"]
    assert ids(planned({**VIRGIN, "config": "global\n"}, state="absent")) == []


def test_wrong_input_changes_nothing() -> None:
    made = planned(VIRGIN, keys=[])
    assert findings(made) == ["block gateway.bad_input"]
    assert made.changes == []


def test_a_gateway_that_serves_is_not_emptied() -> None:
    row = {"backend": "m.default", "server": "h1_a", "operation": "2", "admin": "0", "weight": "1"}
    made = planned(converged(servers=[row]), backends=[])
    assert findings(made)[:1] == ["block gateway.emptied"]
    assert "it has h1_a" in made.findings[0].needed
    assert "block gateway.emptied" not in findings(planned(VIRGIN, backends=[]))
