"""The profile h200x2 answers what two real H200 answered, call for call, through the unmodified nvidia-ml-py."""

from __future__ import annotations

import json
import sys
from typing import Any

from .conftest import FIDELITY, Sim

# What moves by itself on real hardware, in h200x2-detail.json (recorded on another machine of the kind, later).
READINGS = (
    "referenceTime",
    "violationTime",
    "thermal_settings",
    "temperature/0",
    "temperature_v/temperature",
    "margin/marginTemperature",
    "pcie_throughput",
    "nvlink_error",
    "platform",
)
READING_FIELDS = {94, 183, 78, 80, 81, 82, 83, 140, 141, 167, 169, 175, 176, 177, 178, 185, 186, 191, 197, 198}


def replay(sim: Sim) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(sim.run(sys.executable, str(FIDELITY / "replay.py"), str(FIDELITY / "h200x2.json")).stdout)
    return result


def test_every_recorded_answer(sim: Sim) -> None:
    result = replay(sim)
    assert result["different"] == []
    assert result["compared"] == 945


def test_the_replay_sees_a_difference(sim: Sim) -> None:
    sim.sg("set", "memory.bus_width", "5120", "--gpu", "1")
    assert replay(sim)["different"] == [["1 nvmlDeviceGetMemoryBusWidth", 5120, 6016]]


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Every value of nested objects and lists of objects by its path."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = {str(index): item for index, item in enumerate(value)}
    if not isinstance(value, dict):
        return {path: value}
    return {key: leaf for name, item in value.items() for key, leaf in leaves(item, f"{path}/{name}").items()} or {path: {}}


def moves(path: str) -> bool:
    _before, is_field, rest = path.partition("/fields/")
    return any(word in path for word in READINGS) or bool(
        is_field and path.endswith("/value") and int(rest.split(".")[0]) in READING_FIELDS
    )


def test_types_scopes_versions_and_wrong_arguments(sim: Sim) -> None:
    recorded = json.loads((FIDELITY / "h200x2-detail.json").read_text(encoding="utf-8"))
    recorded.pop("about")
    got = leaves(json.loads(sim.run(sys.executable, str(FIDELITY / "record.py")).stdout))
    wanted = {path: value for path, value in leaves(recorded).items() if not moves(path)}
    assert {path: (got.get(path), value) for path, value in wanted.items() if got.get(path) != value} == {}
    assert len(wanted) > 2000


def test_a_c2c_field_spoils_others_of_the_same_call(sim: Sim) -> None:
    code = (
        "vs = p.nvmlDeviceGetFieldValues(h, {})\n"
        "out = [(v.fieldId, v.nvmlReturn, v.valueType, v.value.sllVal) for v in vs if v.fieldId not in (170, 234)]"
    )
    assert sim.python(code.format("[186, 190, 193, 272]")) == [
        [186, 0, 1, 78049],
        [190, 0, 1, 700000],
        [193, 0, 5, 4294967288],
        [272, 3, 0, 0],
    ]
    for spoiler in (170, 234):
        assert sim.python(code.format(f"[186, 190, {spoiler}, 193, 272]")) == [
            [186, 0, 1, 78049],
            [190, 0, 0, 0],
            [193, 0, 0, 0],
            [272, 0, 0, 0],
        ]


def test_a_superchip_has_no_such_trouble(make: Any) -> None:
    assert make("gh200").python("out = p.nvmlDeviceGetFieldValues(h, [170, 190])[1].value.uiVal") == 900000
