"""daemon.json: every foreign key stays, comparison is by meaning, broken input is named."""

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils import _engine_docker as docker
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_common import HostFile, Wanted
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engines import switched

RICH = """{
  "exec-opts": ["native.cgroupdriver=systemd"],
  "log-driver": "json-file", "log-opts": {"max-size": "10m"},
  "runtimes": {"kata": {"path": "/usr/bin/kata-runtime"}},
  "default-address-pools": [{"base": "10.200.0.0/16", "size": 24}],
  "live-restore": true,
  "features": {"buildkit": true}
}"""


def plan(text: str | None, version: str = "26.1.5", **wanted: object) -> tuple[list, list, str | None]:
    file = HostFile(docker.DAEMON_JSON, "absent" if text is None else "ok", text or "")
    answer = docker.plan_files(Wanted(**wanted), file, version, "/usr/sbin/dockerd")
    return answer.files, answer.findings, answer.files[0].text if answer.files else None


def test_foreign_keys_and_their_order_stay() -> None:
    files, findings, text = plan(RICH)
    after = json.loads(text)
    before = json.loads(RICH)
    assert not findings
    assert list(after) == list(before)
    assert after.pop("runtimes") == {
        "kata": {"path": "/usr/bin/kata-runtime"},
        "nvidia": {"path": "/usr/bin/nvidia-container-runtime", "args": []},
    }
    assert after.pop("features") == {"buildkit": True, "cdi": True}
    assert after == {key: value for key, value in before.items() if key not in ("runtimes", "features")}
    assert files[0].parts == ("runtimes.nvidia", "features.cdi")


def test_the_result_needs_no_second_change() -> None:
    text = plan(RICH, default_runtime="nvidia")[2]
    assert plan(text, default_runtime="nvidia")[0] == []


def test_formatting_and_what_nvidia_ctk_writes_are_no_difference() -> None:
    theirs = '{"runtimes":{"nvidia":{"args":[],"path":"nvidia-container-runtime"}},"features":{"cdi":true}}'
    assert plan(theirs)[0] == []


@pytest.mark.parametrize(("version", "switch"), [("20.10.24", False), ("25.0", True), ("26.1.5", True), ("28.3.0", False), ("29.1", False)])
def test_cdi_is_switched_on_only_where_it_is_there_and_off(version: str, switch: bool) -> None:
    assert json.loads(plan("{}", version)[2]).get("features", {}).get("cdi", False) is switch


def test_a_runtime_by_its_type_is_ours_by_its_binary_or_becomes_one_with_a_path() -> None:
    ours = (
        '{"runtimes": {"nvidia": {"runtimeType": "io.containerd.runc.v2", "options": {"BinaryName": "/usr/bin/nvidia-container-runtime"}}}}'
    )
    assert plan(ours, "29.0.0")[0] == []
    other = ours.replace("/usr/bin/nvidia-container-runtime", "/usr/bin/runc")
    assert json.loads(plan(other, "29.0.0")[2])["runtimes"]["nvidia"] == {"path": "/usr/bin/nvidia-container-runtime"}


@pytest.mark.parametrize(("version", "needed"), [("24.0", False), ("25.0", True), ("26.1.5", True), ("27.5.1", True), ("28.0.0", False)])
def test_rootless_releases_that_do_not_see_run_cdi_get_a_folder_that_they_see(version: str, needed: bool) -> None:
    folder = docker.rootless_spec_dir(version)
    assert bool(folder) is needed
    if needed:
        text = plan('{"cdi-spec-dirs": ["/opt/cdi"]}', version, spec_dir=folder)[2]
        assert json.loads(text)["cdi-spec-dirs"] == ["/opt/cdi", folder], "theirs stay"
        text = plan("{}", version, spec_dir=folder)[2]
        assert json.loads(text)["cdi-spec-dirs"] == [*docker.SPEC_DIRS, folder]
        assert plan(text, version, spec_dir=folder)[0] == []
        assert docker.running_need(Wanted(spec_dir=folder), {}, RUNNING, version) == "restart"
        assert "cdi-spec-dirs" not in json.loads(plan(text, version, present=False)[2])


def test_indentation_is_kept() -> None:
    assert '\n\t"runtimes"' in plan('{\n\t"debug": true\n}')[2]


@pytest.mark.parametrize("text", [None, "", "  \n"])
def test_absent_and_empty_start_from_nothing(text: str | None) -> None:
    assert json.loads(plan(text)[2])["runtimes"]["nvidia"]["path"] == "/usr/bin/nvidia-container-runtime"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{\n  "debug": true,\n  "log-level" "info"\n}', "line 3"),
        ("[]", "expected an object"),
        ('{"debug": true, "debug": false}', "twice"),
        ('{"runtimes": []}', "runtimes is list"),
        ('{"default-runtime": 3}', "default-runtime is int"),
        ('{"cdi-spec-dirs": "/x"}', "cdi-spec-dirs is str"),
        ('{"a": ' + "[" * 200000, "nested too deeply"),
    ],
)
def test_broken_input_is_named_and_nothing_written(text: str, place: str) -> None:
    files, findings, _text = plan(text)
    assert files == []
    assert [finding.severity for finding in findings] == ["block"]
    assert place in findings[0].message


@pytest.mark.parametrize("state", ["unreadable", "huge", "not_a_file"])
def test_files_that_cannot_be_read(state: str) -> None:
    answer = docker.plan_files(Wanted(), HostFile(docker.DAEMON_JSON, state, "", "because"), "26.1", "dockerd")
    assert answer.files == []
    assert answer.findings[0].id == "container_engine.config_unreadable"


def test_absent_takes_only_ours_away() -> None:
    text = plan(RICH, default_runtime="nvidia")[2]
    after = json.loads(plan(text, present=False)[2])
    assert after["runtimes"] == {"kata": {"path": "/usr/bin/kata-runtime"}}
    assert "default-runtime" not in after


def test_absent_leaves_the_key_by_which_a_reload_takes_the_runtime_away() -> None:
    assert json.loads(plan(plan("{}")[2], present=False)[2])["runtimes"] == {}


def test_default_runtime_engine_removes_only_nvidia() -> None:
    assert json.loads(plan('{"default-runtime": "kata"}', default_runtime="engine")[2])["default-runtime"] == "kata"
    assert "default-runtime" not in json.loads(plan('{"default-runtime": "nvidia"}', default_runtime="engine")[2])


RUNNING = {"Runtimes": {"runc": {}, "nvidia": {}}, "DefaultRuntime": "runc", "CDISpecDirs": ["/etc/cdi"]}


@pytest.mark.parametrize(
    ("change", "after", "need"),
    [
        ({}, {}, "none"),
        ({"Runtimes": {"runc": {}}}, {}, "reload"),
        ({"CDISpecDirs": []}, {}, "restart"),
        ({}, {"default-runtime": "nvidia"}, "reload"),
        ({"DefaultRuntime": "nvidia"}, {"default-runtime": "nvidia"}, "none"),
        ({"DefaultRuntime": "kata"}, {"default-runtime": "kata"}, "none"),
    ],
)
def test_need_comes_from_what_runs(change: dict, after: dict, need: str) -> None:
    assert docker.running_need(Wanted(), after, {**RUNNING, **change}, "26.1.5") == need


def test_a_daemon_that_does_not_answer_is_unknown() -> None:
    assert docker.running_need(Wanted(), {}, None, "26.1.5") == "unknown"


@pytest.mark.parametrize(
    ("before", "ours", "after"),
    [
        ({"features": {"cdi": True}}, True, None),
        ({"features": {"cdi": True, "buildkit": True}}, True, {"buildkit": True}),
        ({"features": {"cdi": True}}, False, {"cdi": True}),
    ],
)
def test_absent_switches_cdi_off_only_where_it_was_switched_on_by_us(before: dict, ours: bool, after: dict | None) -> None:
    assert docker.merged(before, Wanted(present=False), "26.1.5", ours).get("features") == after


@pytest.mark.parametrize(("before", "switch"), [("{}", "on"), ('{"features": {"cdi": true}}', "")])
def test_who_switched_cdi_on_is_told(before: str, switch: str) -> None:
    answer = docker.plan_files(Wanted(), HostFile(docker.DAEMON_JSON, "ok", before), "26.1.5", "/usr/bin/dockerd")
    assert answer.cdi_switch == switch


@pytest.mark.parametrize(("kind", "ours"), [("nvidia.com/gpu", True), ("example.com/fpga", False)])
def test_the_switch_stays_while_another_vendor_has_devices(kind: str, ours: bool) -> None:
    spec = {"path": "/etc/cdi/x.yaml", "text": f"kind: {kind}\n", "reason": ""}
    assert switched({"cdi": {"specs": [spec]}, "cdi_switched": [docker.DAEMON_JSON]}) == ((docker.DAEMON_JSON,) if ours else ())
