"""CDI specifications are stale by what they say, never by age."""

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils import _cdi

UUIDS = ("GPU-00000000-aaaa-bbbb-cccc-000000000000", "GPU-00000001-aaaa-bbbb-cccc-000000000001")
MIG = "MIG-00000000-aaaa-bbbb-cccc-000000000009"
LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04"


def char(major: int, minor: int) -> dict[str, object]:
    return {"type": "char", "major": major, "minor": minor}


FILE = {"type": "file", "major": None, "minor": None}
PATHS = {
    "/dev/nvidia0": char(195, 0),
    "/dev/nvidia1": char(195, 1),
    "/dev/nvidiactl": char(195, 255),
    "/dev/nvidia-uvm": char(238, 0),
    "/dev/nvidia-uvm-tools": char(238, 1),
    LIBRARY: FILE,
    "/usr/bin/nvidia-cdi-hook": FILE,
}
REAL = _cdi.Reality("580.159.04", UUIDS, (), PATHS)


def spec(
    names: tuple[str, ...] = ("0", "1", *UUIDS, "all"), uvm: int = 238, library: str = LIBRARY, uvm_tools: bool = True, **extra: object
) -> _cdi.Spec:
    devices = [{"name": name, "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}, {"path": "/dev/nvidia1"}]}} for name in names]
    edits = {
        "deviceNodes": [
            {"path": "/dev/nvidiactl"},
            {"path": "/dev/nvidia-uvm", "major": uvm, "minor": 0},
            *([{"path": "/dev/nvidia-uvm-tools"}] if uvm_tools else []),
        ],
        "hooks": [{"path": "/usr/bin/nvidia-cdi-hook", "args": ["nvidia-cdi-hook", "update-ldcache"]}],
        "mounts": [{"hostPath": library, "containerPath": library}],
    }
    tree = {"cdiVersion": "0.7.0", "kind": "nvidia.com/gpu", "devices": devices, "containerEdits": edits, **extra}
    return _cdi.parse("/var/run/cdi/nvidia.json", json.dumps(tree))


def without(*paths: str) -> _cdi.Reality:
    return _cdi.Reality("580.159.04", UUIDS, (), {path: there for path, there in PATHS.items() if path not in paths})


def test_a_true_specification_is_not_stale() -> None:
    assert _cdi.stale(spec(), REAL) == []


@pytest.mark.parametrize(
    ("bad", "real", "reason"),
    [
        (spec(library="/usr/lib/x86_64-linux-gnu/libcuda.so.470.57.02"), REAL, "it is of driver 470.57.02, the host has 580.159.04"),
        (spec(uvm=511), REAL, "device node /dev/nvidia-uvm is 238:0, not 511:0"),
        (spec(names=("0", UUIDS[0], "all")), REAL, f"GPUs that are not in it: {UUIDS[1]}"),
        (spec(names=("0", *UUIDS, "GPU-deadbeef-aaaa-bbbb-cccc-000000000000")), REAL, "GPUs in it that the host does not have"),
        (spec(names=("0", "all")), REAL, "it has 1 GPUs, the host has 2"),
        (spec(), _cdi.Reality("580.159.04", UUIDS, (), {**PATHS, LIBRARY: None}), f"not on the host: {LIBRARY}"),
        (spec(), _cdi.Reality("580.159.04", UUIDS, (), {**PATHS, "/dev/nvidia1": None}), "device node /dev/nvidia1 is not there"),
        (spec(), _cdi.Reality("580.159.04", UUIDS, (), {**PATHS, "/dev/nvidia1": FILE}), "device node /dev/nvidia1 is not there"),
        (spec(uvm_tools=False), REAL, "/dev/nvidia-uvm-tools is missing in it"),
        (spec(uvm_tools=False), without("/dev/nvidia-uvm-tools"), "device node /dev/nvidia-uvm-tools is not there"),
        (spec(), _cdi.Reality("580.159.04", UUIDS, (MIG,), PATHS), f"GPUs that are not in it: {MIG}"),
    ],
)
def test_what_makes_it_stale(bad: _cdi.Spec, real: _cdi.Reality, reason: str) -> None:
    assert [why for why in _cdi.stale(bad, real) if reason in why], _cdi.stale(bad, real)


def test_a_host_without_any_node_has_none_to_miss() -> None:
    assert _cdi.no_control_nodes(without(*PATHS)) == []


def test_partitioned_gpus_need_no_entry_of_their_own() -> None:
    assert _cdi.stale(spec(names=("0:0", MIG, "all")), _cdi.Reality("580.159.04", UUIDS, (MIG,), PATHS)) == []


def test_names_by_index_alone_are_counted() -> None:
    assert _cdi.stale(spec(names=("0", "1", "all")), REAL) == []


@pytest.mark.parametrize(
    ("path", "text", "error"),
    [
        ("/etc/cdi/x.yaml", "kind: [\n", "line 2"),
        ("/etc/cdi/x.json", "{", "Expecting"),
        ("/etc/cdi/x.yaml", "- a\n", "no kind"),
        ("/etc/cdi/x.yaml", "", "no kind"),
    ],
)
def test_what_is_no_specification(path: str, text: str, error: str) -> None:
    broken = _cdi.parse(path, text)
    assert error in broken.error
    assert _cdi.stale(broken, REAL)


def test_unreadable() -> None:
    assert _cdi.parse("/etc/cdi/x.yaml", None, "Permission denied").error == "Permission denied"


def test_odd_content_is_no_traceback() -> None:
    odd = _cdi.parse("/x.yaml", "kind: nvidia.com/gpu\ndevices: [1, {name: 0}]\ncontainerEdits: 3\n")
    assert (odd.error, odd.names) == ("", {"0"})


@pytest.mark.parametrize(
    "text",
    [
        "kind: nvidia.com/gpu\ndevices: 3\n",
        "kind: nvidia.com/gpu\ncontainerEdits: {deviceNodes: [1, {path: 2}], mounts: {a: b}, hooks: [{args: 5, path: []}, x]}\n",
        "kind: nvidia.com/gpu\na: &a [x, x]\ndevices: [{name: [*a, *a]}]\n",
    ],
)
def test_anything_can_be_in_a_file_that_somebody_wrote(text: str) -> None:
    assert _cdi.stale(_cdi.parse("/x.yaml", text), REAL)


def test_a_bottomless_file() -> None:
    for path, text in (("/x.yaml", "kind: " + "[" * 5000), ("/x.json", "[" * 200000)):
        assert _cdi.parse(path, text).error


@pytest.mark.parametrize("text", ["!!timestamp x", "!!bool x", "kind: !!int x"])
def test_a_tag_that_its_value_does_not_fit_is_no_traceback(text: str) -> None:
    assert _cdi.parse("/var/run/cdi/nvidia.yaml", text).error
