"""The planner: what differs, what is refused, and that nothing is left to do after a converge."""

from __future__ import annotations

import datetime
import hashlib
import json
import pathlib
import typing as t

import jsonschema
import pytest
from power_devices import device

from ansible_collections.gpufleet.inference.plugins.module_utils import _paths
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_governor import state_text
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_records import clocks_text
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_units import UnitOptions, wanted_files
from ansible_collections.gpufleet.inference.plugins.plugin_utils import _facts
from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Context, Plan
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._plan_power import plan

ROOT = pathlib.Path(__file__).resolve().parents[3]
MATRIX = load_matrix()
RUNTIME = "a" * 64
SETTINGS, GOVERNOR = "gpufleet-gpu-settings.service", "gpufleet-power-governor.service"
UP = {"load": "loaded", "active": "active", "sub": "exited", "enabled": "enabled", "need_daemon_reload": False}


def facts(*devices: dict[str, t.Any], state: str = "ok", **more: t.Any) -> dict[str, t.Any]:
    gpus = [{"driver_bound": "nvidia", "pci_device_id": "2335", "processes": [], **gpu} for gpu in devices or (device(0), device(1))]
    return {
        "state": state,
        "reason": "" if state == "ok" else "for this test",
        "host": {"init": "systemd"},
        "gpus": gpus,
        "pci": {"gpus": [{"address": gpu["pci_address"]} for gpu in gpus]},
        "units": {},
        "state_files": {"gpu_settings": None, "gpu_settings_recorded": None, "runtime_sha256": None, "files": {}, "errors": {}},
        **more,
    }


def context(**more: t.Any) -> Context:
    return Context(today=datetime.date(2026, 11, 30), runtime_sha256=RUNTIME, **more)


def planned(found: dict[str, t.Any], desired: dict[str, t.Any], **more: t.Any) -> Plan:
    return plan({"state": "present", **desired}, found, MATRIX, context(**more))


def ids(result: Plan) -> list[str]:
    return [change.id for change in result.changes]


def findings(result: Plan, severity: str = "block") -> list[str]:
    return [finding.id for finding in result.findings if finding.severity == severity]


def converged(found: dict[str, t.Any], result: Plan) -> dict[str, t.Any]:
    """The host as it is after the module did the plan: here the prediction stands in for it."""
    return t.cast("dict[str, t.Any]", _facts.merge(found, result.predicted))


DESIRED: list[dict[str, t.Any]] = [
    {"power_limit": "70%", "persistence": True},
    {"power_limit": {"H200": 600, "H100": 400}, "persistence": True},
    {"power_limit": 300, "rules": [{"select": "index:0", "compute_mode": "exclusive_process"}]},
    {"power_limit": "default", "persistence": True, "governor": {"high_celsius": 80}},
    {"persistence": False},
    {},
]


@pytest.mark.parametrize("desired", DESIRED)
def test_nothing_is_left_after_converge(desired: dict[str, t.Any]) -> None:
    found = facts()
    first = planned(found, desired)
    assert findings(first) == []
    assert first.changes
    assert first.decision == "converge"
    assert first.disruption == "none"
    after = converged(found, first)
    second = planned(after, desired)
    assert ids(second) == []
    assert second.decision == "nothing"


def test_documents_are_as_the_schemas_say() -> None:
    schemas = {name: json.loads((ROOT / f"schemas/{name}.schema.json").read_text()) for name in ("plan", "change", "finding")}
    result = planned(facts(), {"power_limit": "70%", "rules": [{"select": "all", "ecc": False}, {"select": "product:B200", "ecc": True}]})
    document = result.to_dict()
    assert document["changes"]
    assert document["findings"]
    for kind in ("change", "finding"):
        for item in document[kind + "s"]:
            jsonschema.validate(item, schemas[kind])
    schemas["plan"]["properties"]["changes"].pop("items")
    schemas["plan"]["properties"]["findings"].pop("items")
    jsonschema.validate(document, schemas["plan"])


def test_written_configuration_is_as_the_schema_says() -> None:
    schema = json.loads((ROOT / "schemas/state.schema.json").read_text())
    config, _units = wanted_files(
        [{"select": "all", "power_limit": "70%", "persistence": True, "gpu_clocks": "1,2", "ecc": False, "compute_mode": "default"}],
        {"high_celsius": 80},
        UnitOptions(),
    )
    jsonschema.validate(json.loads(config), {"$ref": "#/$defs/gpu_settings_desired", **schema})


def test_changes_of_a_fresh_host() -> None:
    result = planned(facts(), {"power_limit": "70%", "persistence": True})
    assert ids(result) == [
        "power.limit",
        "power.limit",
        "power.config",
        "power.runtime",
        "power.recorded",
        "power.unit",
        "power.service",
        "power.service",
    ]
    limit = result.changes[0]
    assert (limit.subject, limit.before, limit.after) == (device(0)["uuid"], "700 W", "490 W")


def settled(desired: dict[str, t.Any], *devices: dict[str, t.Any]) -> dict[str, t.Any]:
    found = facts(*devices)
    return converged(found, planned(found, desired))


def test_drift_says_what_it_looks_like() -> None:
    desired = {"power_limit": 600, "persistence": True}
    host = settled(desired)
    host["gpus"][0]["power"]["limit_mw"] = 700000
    host["gpus"][1]["power"]["limit_mw"] = 500000
    messages = [change.message for change in planned(host, desired).changes]
    assert len(messages) == 2
    assert "loaded anew" in messages[0]
    assert "somebody else" in messages[1]


def test_less_than_a_watt_is_no_difference() -> None:
    desired = {"power_limit": 600}
    host = settled(desired)
    host["gpus"][0]["power"]["limit_mw"] = 600999
    assert ids(planned(host, desired)) == []
    host["gpus"][0]["power"]["limit_mw"] = 601000
    assert ids(planned(host, desired)) == ["power.limit"]


@pytest.mark.parametrize(
    ("break_it", "wanted"),
    [
        (lambda host: host["state_files"]["files"].update({_paths.GPU_SETTINGS: "0" * 64}), ["power.config"]),
        (lambda host: host["state_files"].update(runtime_sha256="b" * 64), ["power.runtime"]),
        (lambda host: host["state_files"].update(gpu_settings_recorded=None), ["power.recorded"]),
        (
            lambda host: host["state_files"]["files"].update({f"/etc/systemd/system/{SETTINGS}": "0" * 64}),
            ["power.unit", "power.daemon_reload"],
        ),
        (lambda host: host["units"].update({SETTINGS: {**UP, "enabled": "disabled"}}), ["power.service"]),
        (lambda host: host["units"].update({SETTINGS: {**UP, "active": "failed"}}), ["power.service", "power.service"]),
        (lambda host: host["units"].update({SETTINGS: {**UP, "need_daemon_reload": True}}), ["power.daemon_reload"]),
    ],
)
def test_each_thing_that_keeps_settings_is_looked_at(break_it: t.Callable[[t.Any], t.Any], wanted: list[str]) -> None:
    desired = {"power_limit": 600, "persistence": True}
    host = settled(desired)
    break_it(host)
    assert ids(planned(host, desired)) == wanted


def test_locked_clocks_are_known_by_their_record() -> None:
    desired = {"persistence": True, "rules": [{"select": "all", "gpu_clocks": 1200}]}
    host = settled(desired)
    assert ids(planned(host, desired)) == ["power.clocks", "power.clocks"]
    text = clocks_text({device(n)["uuid"]: {"gpu_clocks": "1200,1200"} for n in (0, 1)}) or ""
    host["state_files"]["files"][_paths.GPU_CLOCKS] = hashlib.sha256(text.encode()).hexdigest()
    assert ids(planned(host, desired)) == []


def test_what_a_device_refused_is_not_asked_again() -> None:
    desired = {"persistence": True, "rules": [{"select": "all", "memory_clocks": 1200}]}
    host = settled(desired)
    for uuid in host["state_files"]["gpu_settings_recorded"]["gpus"]:
        host["state_files"]["gpu_settings_recorded"]["gpus"][uuid] = {"refused": ["memory_clocks"]}
    assert ids(planned(host, desired)) == []


def test_governed_limits_are_no_difference_while_it_runs_with_this_configuration() -> None:
    desired = {"power_limit": 600, "persistence": True, "governor": {"high_celsius": 80}}
    host = settled(desired)
    host["gpus"][0]["power"]["limit_mw"] = 450000
    assert ids(planned(host, desired)) == []
    host["units"][GOVERNOR] = {**UP, "active": "failed"}
    assert ids(planned(host, desired)) == ["power.limit", "power.service", "power.service"]
    host["units"][GOVERNOR] = UP
    assert "power.limit" in ids(planned(host, {**desired, "governor": {"high_celsius": 85}}))


def test_a_governor_that_runs_old_code_is_restarted() -> None:
    desired = {"power_limit": 600, "persistence": True, "governor": {"high_celsius": 80}}
    host = settled(desired)
    host["state_files"]["files"][_paths.GOVERNOR_STATE] = hashlib.sha256(state_text("old").encode()).hexdigest()
    assert [(change.subject, change.after) for change in planned(host, desired).changes] == [(GOVERNOR, "restart")]


def test_a_governor_that_is_not_wanted_goes() -> None:
    host = settled({"power_limit": 600, "persistence": True, "governor": {"high_celsius": 80}})
    result = planned(host, {"power_limit": 600, "persistence": True})
    assert [(change.subject, change.after) for change in result.changes if change.id != "power.config"] == [
        (GOVERNOR, "stop"),
        (GOVERNOR, "disable"),
        (f"/etc/systemd/system/{GOVERNOR}", None),
    ]


def test_daemon_reload_is_a_disruption_where_containers_have_gpus() -> None:
    desired = {"power_limit": 600, "persistence": True}
    host = settled(desired)
    host["state_files"]["files"][f"/etc/systemd/system/{SETTINGS}"] = "0" * 64
    assert planned(host, desired).disruption == "none"
    host["gpus"][0]["processes"] = [{"pid": 1, "unit": "docker-" + "f" * 64 + ".scope"}]
    assert planned(host, desired).disruption == "host_service_restart"


def test_ecc_needs_a_reboot_and_then_only_waits_for_it() -> None:
    desired = {"persistence": True, "rules": [{"select": "all", "ecc": False}]}
    first = planned(facts(), desired)
    assert [change.disruption for change in first.changes if change.id == "power.ecc"] == ["reboot", "reboot"]
    host = converged(facts(), first)
    second = planned(host, desired)
    assert ids(second) == []
    assert findings(second, "warn") == ["power.ecc_pending"] * 2
    assert second.decision == "reboot"


@pytest.mark.parametrize(
    ("desired", "finding", "part"),
    [
        ({"power_limit": 100}, "power.out_of_range", "200 W to 700 W"),
        ({"power_limit": "120%"}, "power.out_of_range", "above the maximum"),
        ({"power_limit": "%"}, "power.bad_value", "gpu_power_limit is '%'"),
        ({"power_limit": {"B200": 900}}, "power.unmatched", "names no GPU of this host; present: NVIDIA H200"),
        ({"rules": [{"select": "index:9", "ecc": True}]}, "power.unmatched", "index:9"),
        ({"rules": [{"select": "all", "power_limt": 300}]}, "power.unknown_key", "did you mean 'power_limit'"),
        (
            {"rules": [{"select": "product:H200", "power_limit": 300}, {"select": "0000:00:00.0", "power_limit": 400}]},
            "power.conflict",
            "gpu_power_rules[0]",
        ),
        ({"governor": {"low_celsius": 99}}, "power.bad_value", "gpu_power_governor_low_celsius is 99"),
        ({"power_limit": 400, "governor": {"floor": "500W"}}, "power.governor_range", "gpu_power_governor_floor is 500 W"),
    ],
)
def test_bad_input_blocks_and_plans_nothing(desired: dict[str, t.Any], finding: str, part: str) -> None:
    result = planned(facts(), desired)
    assert finding in findings(result)
    assert any(part in found.message for found in result.findings)
    assert result.changes == []


@pytest.mark.parametrize("state", ["no_driver", "module_not_loaded", "mismatch", "hung", "no_pynvml", "impostor_pynvml", "error"])
def test_a_host_that_cannot_be_read_blocks(state: str) -> None:
    result = planned(facts(state=state), {"power_limit": 300})
    assert findings(result) == ["power.not_readable"]
    assert result.changes == []


def test_no_gpu_blocks() -> None:
    assert findings(planned({**facts(), "gpus": []}, {"power_limit": 300})) == ["power.no_gpu"]
    assert findings(planned(facts({**device(0), "driver_bound": "vfio-pci"}), {"power_limit": 300})) == ["power.no_gpu"]


def test_a_lost_gpu_blocks_but_its_plan_for_the_others_stands() -> None:
    lost = {**device(0), "state": "lost", "uuid": None, "power": None}
    result = planned(facts(lost, device(1), state="lost"), {"power_limit": 300, "persistence": True})
    assert findings(result) == ["power.gpu_lost"]
    assert "power.limit" in ids(result)
    assert result.details["missing_gpus"] == "warn"
    assert "start" not in [change.after for change in result.changes]


def test_a_gpu_that_left_the_bus_blocks_until_it_is_forgotten() -> None:
    desired = {"power_limit": 300, "persistence": True}
    host = settled(desired, device(0), device(1))
    record = host["state_files"]["gpu_settings_recorded"]["gpus"]
    for number in (0, 1):
        record[device(number)["uuid"]] = {"pci_address": device(number)["pci_address"]}
    host["gpus"] = host["gpus"][:1]
    host["pci"]["gpus"] = host["pci"]["gpus"][:1]
    assert findings(planned(host, desired)) == ["power.gpu_missing"]
    forgotten = planned(host, {**desired, "forget_missing": True})
    assert findings(forgotten) == []
    assert ids(forgotten) == ["power.recorded"]


def virgin() -> dict[str, t.Any]:
    bare = {"uuid": None, "index": None, "state": "unavailable", "product": "NVIDIA H200", "power": None, "driver_bound": None}
    return facts({**device(0), **bare}, {**device(1), **bare}, state="no_driver")


def test_check_mode_foresees_a_virgin_host() -> None:
    result = planned(virgin(), {"power_limit": "70%", "persistence": True}, check_mode=True)
    assert findings(result) == []
    assert findings(result, "info") == ["power.foreseen"]
    limits = [(change.subject, change.before, change.after) for change in result.changes if change.id == "power.limit"]
    assert limits == [(device(n)["pci_address"], "unknown", "490 W") for n in (0, 1)]
    assert findings(planned(virgin(), {"power_limit": 900}, check_mode=True)) == ["power.out_of_range"] * 2
    assert findings(planned(virgin(), {"power_limit": "70%"})) == ["power.not_readable"]


def test_a_host_without_systemd_blocks() -> None:
    assert findings(planned(facts(host={"init": "other"}), {"power_limit": 300})) == ["power.no_systemd"]


def test_absent_is_a_disruption_where_containers_have_gpus() -> None:
    host = settled({"power_limit": 600, "persistence": True})
    assert planned(host, {"state": "absent"}).disruption == "none"
    host["gpus"][0]["processes"] = [{"pid": 1, "unit": "docker-" + "f" * 64 + ".scope"}]
    assert planned(host, {"state": "absent"}).disruption == "host_service_restart"


@pytest.mark.parametrize(
    ("product", "pci", "limit"),
    [
        ("Tesla V100-SXM2-16GB", "1db1", "150 W"),
        ("Tesla V100-PCIE-16GB", "1db4", "125 W"),
        ("NVIDIA L4", "27b8", "36 W"),
    ],
)
def test_foreseen_limits_are_those_of_the_board(product: str, pci: str, limit: str) -> None:
    bare = {"uuid": None, "index": None, "state": "unavailable", "product": product, "pci_device_id": pci, "power": None}
    result = planned(facts({**device(0), **bare}, state="no_driver"), {"power_limit": "50%"}, check_mode=True)
    found = [change.after for change in result.changes if change.id == "power.limit"]
    assert found == ([limit] if product != "NVIDIA L4" else [])
    assert findings(result) == ([] if found else ["power.out_of_range"])


def test_a_state_file_of_the_future_blocks() -> None:
    host = facts()
    host["state_files"]["errors"] = {_paths.GPU_SETTINGS: "schema 2"}
    assert findings(planned(host, {"power_limit": 300})) == ["power.state_unreadable"]


def test_absent() -> None:
    assert planned(facts(), {"state": "absent"}).changes == []
    host = settled({"power_limit": 600, "persistence": True, "governor": {"high_celsius": 80}})
    result = planned(host, {"state": "absent"})
    assert {change.subject for change in result.changes} >= {SETTINGS, GOVERNOR, _paths.GPU_SETTINGS, _paths.RUNTIME_DIR}
    assert planned(converged(host, result), {"state": "absent"}).changes == []


def test_absent_works_without_a_driver() -> None:
    host = {**settled({"power_limit": 300}), "state": "no_driver"}
    assert planned(host, {"state": "absent"}).changes
