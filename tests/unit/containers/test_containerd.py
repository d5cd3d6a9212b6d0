"""containerd and CRI-O: schemas, imports, merge rules, SystemdCgroup, broken TOML."""

from __future__ import annotations

import sys

import pytest
import tomllib

from ansible_collections.gpufleet.inference.plugins.plugin_utils import _engine_containerd as containerd
from ansible_collections.gpufleet.inference.plugins.plugin_utils import _engine_crio as crio
from ansible_collections.gpufleet.inference.plugins.plugin_utils import _engine_text as engine_text
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_common import HostFile, Wanted

pytest.importorskip("tomlkit", reason="tomlkit is not in this environment (requirements-dev.txt)")

V1 = """# site config
root = "/var/lib/containerd"
[plugins.cri]
sandbox_image = "registry.local/pause:3.9"
[plugins.cri.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.cri.containerd.runtimes.runc.options]
SystemdCgroup = true
"""
V2 = """version = 2   # schema
[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "registry.local/pause:3.9"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = true   # kubelet wants it
  [plugins."io.containerd.internal.v1.opt"]
    path = "/var/lib/containerd"
"""
V3 = """version = 3
[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = true
"""


def plan(files: dict[str, str], version: str, **wanted: object) -> containerd.EngineAnswer:
    return containerd.plan_files(
        Wanted(**wanted), [HostFile(path, "ok", text) for path, text in files.items()], version, "/usr/bin/containerd"
    )


def written(answer: containerd.EngineAnswer, files: dict[str, str]) -> dict[str, str]:
    assert not answer.findings, answer.findings
    return {**files, **{new.path: new.text for new in answer.files if new.text is not None}}


@pytest.mark.parametrize(
    ("text", "version", "plugin"),
    [
        (V2, "1.7.24", "io.containerd.grpc.v1.cri"),
        (V3, "2.0.1", "io.containerd.cri.v1.runtime"),
        (V2, "2.1.0", "io.containerd.grpc.v1.cri"),
    ],
)
def test_the_drop_in_has_the_roots_schema_and_keeps_systemd_cgroup(text: str, version: str, plugin: str) -> None:
    after = written(plan({containerd.ROOT: text}, version), {containerd.ROOT: text})
    drop_in = tomllib.loads(after[containerd.DROP_IN])
    assert drop_in["version"] == tomllib.loads(text)["version"]
    entry = drop_in["plugins"][plugin]["containerd"]["runtimes"]["nvidia"]
    assert entry["options"] == {"SystemdCgroup": True, "BinaryName": "/usr/bin/nvidia-container-runtime"}
    assert drop_in["plugins"][plugin]["enable_cdi"] is True


def test_root_gets_the_import_and_nothing_else() -> None:
    after = written(plan({containerd.ROOT: V2}, "1.7.24"), {containerd.ROOT: V2})[containerd.ROOT]
    assert tomllib.loads(after) == {**tomllib.loads(V2), "imports": ["/etc/containerd/conf.d/*.toml"]}
    assert "# kubelet wants it" in after
    assert "# schema" in after


def test_existing_imports_are_kept() -> None:
    text = 'version = 2\nimports = ["/etc/containerd/site/*.toml"]\n'
    after = written(plan({containerd.ROOT: text}, "1.7.24"), {})
    assert tomllib.loads(after[containerd.ROOT])["imports"] == ["/etc/containerd/site/*.toml", "/etc/containerd/conf.d/*.toml"]


def test_up_to_2_0_the_drop_in_carries_the_whole_table_and_from_2_1_only_ours() -> None:
    old = tomllib.loads(written(plan({containerd.ROOT: V2}, "1.7.24"), {})[containerd.DROP_IN])
    new = tomllib.loads(written(plan({containerd.ROOT: V2}, "2.1.0"), {})[containerd.DROP_IN])
    plugin = "io.containerd.grpc.v1.cri"
    assert old["plugins"][plugin]["sandbox_image"] == "registry.local/pause:3.9"
    assert "runc" in old["plugins"][plugin]["containerd"]["runtimes"]
    assert "sandbox_image" not in new["plugins"][plugin]
    assert list(new["plugins"][plugin]["containerd"]["runtimes"]) == ["nvidia"]


@pytest.mark.parametrize(
    ("imports", "added"),
    [
        ("conf.d/*.toml", False),
        ("/etc/containerd/conf.d/99-*.toml", False),
        ("/etc/containerd/*.toml", True),  # a star does not cross folders
        ("site/*.toml", True),
    ],
)
def test_which_imports_reach_the_drop_in(imports: str, added: bool) -> None:
    text = f'version = 2\nimports = ["{imports}"]\n'
    answer = plan({containerd.ROOT: text}, "1.7.24")
    assert (containerd.ROOT in [new.path for new in answer.files]) is added
    assert tomllib.loads(answer.stage["config.toml"])["imports"][0].startswith("{stage}/etc/containerd/")


def test_a_later_change_of_the_root_reaches_the_drop_in() -> None:
    files = written(plan({containerd.ROOT: V2}, "1.7.24"), {containerd.ROOT: V2})
    files[containerd.ROOT] = files[containerd.ROOT].replace("pause:3.9", "pause:3.10")
    answer = plan(files, "1.7.24")
    assert [new.path for new in answer.files] == [containerd.DROP_IN]
    assert answer.files[0].parts == ("plugins.io.containerd.grpc.v1.cri.sandbox_image",)


@pytest.mark.parametrize(("text", "version"), [(V1, "1.6.20"), (V2, "1.7.24"), (V3, "2.0.1"), (V2, "2.1.0"), ("", "1.7.24"), ("", "2.2.0")])
def test_the_second_run_has_nothing_to_do(text: str, version: str) -> None:
    files = written(plan({containerd.ROOT: text}, version), {containerd.ROOT: text})
    assert plan(files, version).files == []


def test_comments_and_formatting_are_no_difference() -> None:
    files = written(plan({containerd.ROOT: V2}, "1.7.24"), {containerd.ROOT: V2})
    files[containerd.DROP_IN] = "# somebody's remark\n\n" + files[containerd.DROP_IN].replace(" = ", "=")
    assert plan(files, "1.7.24").files == []


def test_schema_1_is_merged_into_the_root_because_it_has_no_imports() -> None:
    answer = plan({containerd.ROOT: V1}, "1.6.20")
    after = tomllib.loads(written(answer, {})[containerd.ROOT])
    assert [new.path for new in answer.files] == [containerd.ROOT]
    runtimes = after["plugins"]["cri"]["containerd"]["runtimes"]
    assert runtimes["nvidia"]["options"]["SystemdCgroup"] is True
    assert runtimes["runc"] == tomllib.loads(V1)["plugins"]["cri"]["containerd"]["runtimes"]["runc"]
    assert after["plugins"]["cri"]["sandbox_image"] == "registry.local/pause:3.9"


@pytest.mark.parametrize(("version", "schema"), [("1.7.24", 2), ("2.0.0", 3)])
def test_an_absent_root_gets_the_engines_own_schema(version: str, schema: int) -> None:
    after = written(plan({}, version), {})
    assert tomllib.loads(after[containerd.ROOT]) == {"version": schema, "imports": ["/etc/containerd/conf.d/*.toml"]}


def test_a_foreign_drop_in_is_part_of_the_base() -> None:
    other = '[plugins."io.containerd.grpc.v1.cri"]\nsandbox_image = "other"\n'
    text = 'imports = ["/etc/containerd/conf.d/*.toml"]\n' + V2
    files = {containerd.ROOT: text, "/etc/containerd/conf.d/10-site.toml": other}
    drop_in = tomllib.loads(written(plan(files, "1.7.24"), {})[containerd.DROP_IN])
    cri = drop_in["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["sandbox_image"] == "other"
    assert list(cri["containerd"]["runtimes"]) == ["nvidia"], (
        "up to 2.0 a later file replaces the plugin's table: runc's entry of the root is gone"
    )


def test_cri_switched_off_is_left_alone() -> None:
    answer = plan({containerd.ROOT: 'disabled_plugins = ["cri"]\n'}, "1.7.24")
    assert answer.files == []
    assert [(finding.id, finding.severity) for finding in answer.findings] == [("container_engine.cri_disabled", "info")]


def test_broken_toml_names_file_and_line() -> None:
    answer = plan({containerd.ROOT: "version = 2\n[plugins\n"}, "1.7.24")
    assert answer.files == []
    assert "/etc/containerd/config.toml, line 2" in answer.findings[0].message


def test_unknown_schema_is_refused() -> None:
    assert plan({containerd.ROOT: "version = 9\n"}, "3.0").findings[0].id == "container_engine.config_schema"


def test_the_stage_is_a_whole_future_configuration() -> None:
    answer = plan({containerd.ROOT: V2, "/etc/containerd/conf.d/10-site.toml": "version = 2\n"}, "1.7.24")
    assert tomllib.loads(answer.stage["config.toml"])["imports"] == ["{stage}/etc/containerd/conf.d/*.toml"]
    assert set(answer.stage) == {"config.toml", "etc/containerd/conf.d/10-site.toml", "etc/containerd/conf.d/99-nvidia.toml"}
    assert answer.validate == ["/usr/bin/containerd", "--config", "{stage}/config.toml", "config", "dump"]


def test_absent_removes_drop_in_and_runtime() -> None:
    files = written(plan({containerd.ROOT: V2}, "1.7.24"), {containerd.ROOT: V2})
    answer = plan(files, "1.7.24", present=False)
    assert [(new.path, new.text) for new in answer.files] == [(containerd.DROP_IN, None)]


def test_without_tomlkit_nothing_is_written_and_the_finding_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    answer = plan({containerd.ROOT: V2}, "1.7.24")
    assert answer.files == []
    assert answer.findings[0].id == "container_engine.needs_tomlkit"


def test_dump_is_judged_by_meaning() -> None:
    dump = (
        V2
        + '\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]\nBinaryName = "/usr/bin/nvidia-container-runtime"\n'
    )
    assert containerd.dump_problem(dump, Wanted()) == "runtime nvidia has lost SystemdCgroup"
    assert containerd.dump_problem(dump + "SystemdCgroup = true\n", Wanted()) == ""
    assert "not among runc" in containerd.dump_problem(V2, Wanted())
    assert containerd.dump_problem(dump.replace("nvidia-container-runtime", "runc"), Wanted()) == "runtime nvidia runs /usr/bin/runc"


CRIO = """[crio.runtime]
default_runtime = "crun"
[crio.runtime.runtimes.crun]
runtime_path = "/usr/bin/crun"
monitor_path = "/usr/bin/conmon"
"""


def test_crio_drop_in_is_a_copy_of_the_runtime_in_use() -> None:
    files = [HostFile(crio.ROOT, "ok", CRIO)]
    answer = crio.plan_files(Wanted(), files, "/usr/bin/crio")
    entry = tomllib.loads(answer.files[0].text)["crio"]["runtime"]["runtimes"]["nvidia"]
    assert entry == {"runtime_path": "/usr/bin/nvidia-container-runtime", "runtime_type": "oci", "monitor_path": "/usr/bin/conmon"}
    again = crio.plan_files(Wanted(), [*files, HostFile(crio.DROP_IN, "ok", answer.files[0].text)], "/usr/bin/crio")
    assert again.files == []


def test_crio_takes_a_runtime_from_the_last_file_that_names_it_and_other_keys_one_by_one() -> None:
    later = """[crio.runtime]
log_level = "warn"
[crio.runtime.runtimes.crun]
runtime_path = "/opt/crun"
allowed_annotations = ["x"]
"""
    files = [HostFile(crio.ROOT, "ok", CRIO), HostFile("/etc/crio/crio.conf.d/10-site.conf", "ok", later)]
    entry = tomllib.loads(crio.plan_files(Wanted(), files, "/usr/bin/crio").files[0].text)["crio"]["runtime"]["runtimes"]["nvidia"]
    assert entry == {"runtime_path": "/usr/bin/nvidia-container-runtime", "runtime_type": "oci", "allowed_annotations": ["x"]}
    assert crio.overlay({"crio": {"runtime": {"a": 1}}}, {"crio": {"runtime": {"b": 2}}}) == {"crio": {"runtime": {"a": 1, "b": 2}}}


def test_crio_default_runtime_and_absent() -> None:
    files = [HostFile(crio.ROOT, "ok", CRIO)]
    text = crio.plan_files(Wanted(default_runtime="nvidia"), files, "/usr/bin/crio").files[0].text
    assert tomllib.loads(text)["crio"]["runtime"]["default_runtime"] == "nvidia"
    ours = HostFile(crio.DROP_IN, "ok", text)
    assert crio.plan_files(Wanted(), [*files, ours], "/usr/bin/crio").files == [], "keep keeps what is there"
    assert (
        "default_runtime"
        not in tomllib.loads(crio.plan_files(Wanted(default_runtime="engine"), [*files, ours], "/usr/bin/crio").files[0].text)["crio"][
            "runtime"
        ]
    )
    gone = crio.plan_files(Wanted(present=False), [*files, ours], "/usr/bin/crio").files
    assert [(file.path, file.text) for file in gone] == [(crio.DROP_IN, None)]


def test_crio_broken_drop_in_of_somebody_else() -> None:
    answer = crio.plan_files(Wanted(), [HostFile("/etc/crio/crio.conf.d/10-x.conf", "ok", "[crio\n")], "/usr/bin/crio")
    assert "10-x.conf, line 1" in answer.findings[0].message


def test_from_2_1_on_a_foreign_drop_in_is_merged_key_by_key() -> None:
    other = '[debug]\nlevel = "warn"\n[plugins."io.containerd.grpc.v1.cri"]\nsandbox_image = "other"\n'
    text = 'imports = ["/etc/containerd/conf.d/*.toml"]\n' + V2 + '[debug]\nlevel = "info"\nuid = 1\n'
    files = {
        containerd.ROOT: HostFile(containerd.ROOT, "ok", text),
        "/etc/containerd/conf.d/10.toml": HostFile("/etc/containerd/conf.d/10.toml", "ok", other),
    }
    config = containerd.read(containerd.EngineAnswer("containerd"), files, "2.1.0")
    assert config is not None
    cri = config.base["plugins"]["io.containerd.grpc.v1.cri"]
    assert (cri["sandbox_image"], list(cri["containerd"]["runtimes"])) == ("other", ["runc"])
    assert config.base["debug"] == {"level": "warn", "uid": 1}
    entry = tomllib.loads(plan({path: file.text for path, file in files.items()}, "2.1.0").files[0].text or "")
    assert entry["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]["nvidia"]["options"]["SystemdCgroup"] is True


@pytest.mark.parametrize("wrong", ["version = 2\n", "version = [\n"])
def test_a_writer_that_gets_it_wrong_is_caught(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless:
        parse = staticmethod(lambda text: {})
        dumps = staticmethod(lambda tree: wrong)

    monkeypatch.setattr(engine_text, "_tomlkit", lambda: Careless)
    answer = plan({containerd.ROOT: V2}, "1.7.24")
    assert answer.files == []
    assert "the changed file would not" in answer.findings[0].message


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("version = []", "version"),
        ("version = true", "version"),
        ("version = 2\ndisabled_plugins = 1", "disabled_plugins"),
        ("version = 2\nplugins = 1", "plugins"),
        ('version = 2\n[plugins."io.containerd.grpc.v1.cri"]\ncontainerd = "x"', "plugins.io.containerd.grpc.v1.cri.containerd"),
        ("[plugins.cri.containerd.runtimes]\nnvidia = 1", "plugins.cri.containerd.runtimes.nvidia"),
        ("[plugins.cri.containerd.runtimes.runc]\noptions = []", "plugins.cri.containerd.runtimes.runc.options"),
    ],
)
def test_a_key_of_the_wrong_kind_is_named_in_the_file_that_has_it(text: str, key: str) -> None:
    for files in ({containerd.ROOT: text}, {containerd.ROOT: V2, "/etc/containerd/conf.d/10.toml": text}):
        for present in (True, False):
            answer = plan(files, "1.7.24", present=present)
            assert [(f.id, f.found.partition(" is ")[0]) for f in answer.findings] == [
                ("container_engine.config_misshapen", f"{[*files][-1]}: {key}")
            ]
            assert not answer.files


def test_a_drop_in_of_ours_that_somebody_spoilt_is_written_anew() -> None:
    files = {containerd.ROOT: V2, containerd.DROP_IN: "plugins = 1"}
    assert containerd.DROP_IN in written(plan(files, "1.7.24"), files)


@pytest.mark.parametrize("parse", [engine_text.parse_json, engine_text.parse_toml])
def test_a_number_that_python_refuses_is_a_broken_text(parse: object) -> None:
    digits = "1" * 6000
    with pytest.raises(engine_text.BrokenText, match="line 1"):
        parse({"parse_json": f'{{"a": {digits}}}', "parse_toml": f"a = {digits}"}[parse.__name__])
