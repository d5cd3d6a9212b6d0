"""The planner: what it asks for on a virgin host, when it is silent, what it refuses."""

from __future__ import annotations

import copy
import datetime
import json
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils import _plan_container_toolkit as planner
from ansible_collections.gpufleet.inference.plugins.plugin_utils import _toolkit_holds as holds
from ansible_collections.gpufleet.inference.plugins.plugin_utils import _toolkit_packages as packages
from ansible_collections.gpufleet.inference.plugins.plugin_utils import _toolkit_units as units
from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Context, Plan
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._toolkit_input import Settings

MATRIX = load_matrix()
CONTEXT = Context(today=datetime.date(2026, 11, 30))
UUID = "GPU-00000000-aaaa-bbbb-cccc-000000000000"
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQIN\n-----END PGP PUBLIC KEY BLOCK-----\n"
OK = {"state": "ok", "reason": "", "real": "", "changed_at": 1.0}


def file(path: str, text: str | None) -> dict[str, Any]:
    return {**OK, "path": path, "real": path, "text": text, **({"state": "absent"} if text is None else {})}


def docker(text: str | None, version: str = "26.1.5", running: dict[str, Any] | None = None) -> dict[str, Any]:
    unit = {"active": "active", "enabled": "enabled", "invocation": "a", "started_at": 10.0, "pulls_down": []}
    info = {"Runtimes": {"runc": {}}, "DefaultRuntime": "runc", "CDISpecDirs": [], "LiveRestoreEnabled": False, "ContainersRunning": 1}
    return {
        "binary": "/usr/bin/dockerd",
        "version": version,
        "unit": unit,
        "files": [file("/etc/docker/daemon.json", text)],
        "running": running or info,
        "rootless": [],
    }


def facts() -> dict[str, Any]:
    return {
        "host": {"machine_arch": "x86_64"},
        "driver": {"loaded": {"version": "580.159.04"}},
        "gpus": [{"uuid": UUID, "mig": None}],
        "packages": {"manager": "apt", "holds": [], "set": {}},
        "containers": {"toolkit": None},
        "container_info": {
            "engines": {"docker": docker(None)},
            "engines_record": None,
            "running_containers": 0,
            "cdi": {"specs": [], "paths": {}, "dev_char_missing": []},
            "toolkit": {"ctk": None, "config": file("/etc/nvidia-container-runtime/config.toml", None), "units": {}, "record": None},
            "sources": [],
            "owned": {},
        },
    }


def plan(given: dict[str, Any], **desired: Any) -> Plan:
    return planner.plan(desired, given, MATRIX, CONTEXT)


def ids(result: Plan) -> list[str]:
    return sorted({change.id.partition(".")[2] for change in result.changes})


def good() -> dict[str, Any]:
    """A host on which all is done."""
    given = facts()
    info = given["container_info"]
    version = "1.20.0"
    given["packages"]["set"] = dict.fromkeys(packages.NAMES, f"{version}-1")
    given["packages"]["holds"] = list(packages.NAMES)
    given["containers"]["toolkit"] = {"version": version, "packages": {}, "refresh_units": True}
    unit = {"active": "inactive", "enabled": "enabled", "need_daemon_reload": False, "after": [], "before": []}
    info["toolkit"]["units"] = {units.VENDOR: dict(unit), "gpufleet-docker-cdi.service": dict(unit)}
    info["toolkit"]["record"] = {"schema": 1, "holds": sorted(packages.NAMES), "previous": {}}
    texts = {
        packages.APT_SOURCE: packages.source_text(Settings(), "apt", "x86_64"),
        packages.APT_KEY: KEY,
        units.DROP_IN: units.drop_in_text(),
        units.DOCKER_UNIT: units.docker_unit_text(),
    }
    info["owned"] = {path: {"sha256": "", "text": text} for path, text in texts.items()}
    text = '{"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime", "args": []}}, "features": {"cdi": true}}'
    running = {
        "Runtimes": {"runc": {}, "nvidia": {}},
        "DefaultRuntime": "runc",
        "CDISpecDirs": ["/etc/cdi"],
        "LiveRestoreEnabled": False,
        "ContainersRunning": 1,
    }
    info["engines"] = {"docker": docker(text, running=running)}
    spec = f"kind: nvidia.com/gpu\ncdiVersion: 0.7.0\ndevices: [{{name: {UUID}}}, {{name: all}}]\n"
    info["cdi"]["specs"] = [{**file("/var/run/cdi/nvidia.yaml", spec)}]
    return given


def test_a_virgin_host() -> None:
    result = plan(facts())
    assert ids(result) == ["cdi", "enable", "engine_config", "engine_restart", "hold", "key", "packages", "source", "unit"]
    assert result.details["packages"]["version"] == "1.20.0"
    assert result.details["cdi_refresh"] == units.VENDOR
    assert result.predicted["containers"]["toolkit"]["refresh_units"] is True


def test_a_host_on_which_all_is_done() -> None:
    result = plan(good())
    assert [change.message for change in result.changes] == []
    assert [finding.id for finding in result.findings] == []
    assert result.decision == "nothing"


def test_nothing_moves_by_itself() -> None:
    given = good()
    given["packages"]["set"] = dict.fromkeys(packages.NAMES, "1.19.1-1")
    given["containers"]["toolkit"]["version"] = "1.19.1"
    assert "packages" not in ids(plan(given))


def test_the_lock_decides_where_nothing_is_asked() -> None:
    result = planner.plan({}, facts(), MATRIX, Context(today=CONTEXT.today, lock={"container_toolkit": {"version": "1.19.1"}}))
    assert result.details["packages"]["version"] == "1.19.1"


def test_one_package_of_another_version_moves_the_set() -> None:
    given = good()
    given["packages"]["set"]["libnvidia-container1"] = "1.19.1-1"
    assert ids(plan(given)) == ["hold", "packages"]


def test_a_downgrade_must_be_asked_for() -> None:
    assert [f.id for f in plan(good(), version="1.19.1").findings] == ["container_toolkit.downgrade"]
    assert [f.id for f in plan(good(), version="1.19.1", allow_downgrade=True).findings] == []


def test_a_foreign_hold_stops_a_move() -> None:
    given = good()
    given["container_info"]["toolkit"]["record"] = None
    result = plan(given, version="1.20.1")
    assert [finding.id for finding in result.findings] == ["container_toolkit.foreign_hold"]


def test_a_restart_that_ends_containers_is_classed_so_and_live_restore_is_honoured() -> None:
    given = good()
    running = given["container_info"]["engines"]["docker"]["running"]
    running["CDISpecDirs"] = []
    assert plan(given).disruption == "host_service_restart"
    running["LiveRestoreEnabled"] = True
    assert plan(given).disruption == "none"
    running.update(LiveRestoreEnabled=False, ContainersRunning=0)
    assert plan(given).disruption == "none"


def test_a_daemon_reload_is_disruptive_where_containers_would_lose_gpus() -> None:
    given = good()
    info = given["container_info"]
    info["toolkit"]["units"][units.VENDOR]["need_daemon_reload"] = True
    assert (ids(plan(given)), plan(given).disruption) == (["daemon_reload"], "none")
    info["running_containers"], info["cdi"]["dev_char_missing"] = 1, ["/dev/char/195:0"]
    assert plan(given).disruption == "host_service_restart"


def test_missing_links_are_made_by_the_refresh_unit_for_systemd_cgroups_only() -> None:
    given = good()
    given["container_info"]["cdi"]["dev_char_missing"] = ["/dev/char/195:0"]
    assert ids(plan(given)) == []
    given["container_info"]["engines"]["docker"]["running"]["CgroupDriver"] = "systemd"
    assert ids(plan(given)) == ["dev_char"]


def test_ours_refreshes_below_1_18_and_where_the_vendors_unit_would_make_a_cycle() -> None:
    old = plan(facts(), version="1.17.8")
    assert old.details["cdi_refresh"] == units.OURS
    given = good()
    given["container_info"]["toolkit"]["units"][units.VENDOR]["after"] = ["multi-user.target"]
    result = plan(given)
    assert result.details["units"]["enable"] == [units.OURS]
    assert {file["path"]: file["text"] is None for file in result.details["units"]["files"]} == {units.DROP_IN: True, units.OUR_UNIT: False}


def test_the_vendors_watch_is_kept_on() -> None:
    given = good()
    given["container_info"]["toolkit"]["units"][units.WATCH] = {
        "active": "inactive",
        "enabled": "disabled",
        "need_daemon_reload": False,
        "after": [],
    }
    assert plan(given).details["units"]["enable"] == [units.WATCH]


@pytest.mark.parametrize("text", [units.drop_in_text(), units.unit_text(), units.docker_unit_text()])
def test_units_never_require(text: str) -> None:
    for hard in ("Requires", "Requisite", "BindsTo", "PartOf", "multi-user.target\nAfter", "After=multi-user"):
        assert hard not in text


@pytest.mark.parametrize(("version", "there"), [("24.0.9", False), ("25.0.0", True), ("26.1.5", True), ("28.1.1", True), ("28.2.0", False)])
def test_the_unit_against_forgetful_docker_is_there_for_its_releases_only(version: str, there: bool) -> None:
    given = facts()
    given["container_info"]["engines"]["docker"]["version"] = version
    assert (units.DOCKER_UNIT in [file["path"] for file in plan(given).details["units"]["files"]]) is there


def test_a_second_specification_goes_only_when_asked_and_others_never() -> None:
    given = good()
    given["container_info"]["cdi"]["specs"].insert(0, file("/etc/cdi/nvidia.yaml", "kind: nvidia.com/gpu\n"))
    given["container_info"]["cdi"]["specs"].insert(0, file("/etc/cdi/other.yaml", "kind: example.com/fpga\n"))
    assert plan(given).changes == []
    assert plan(given, cdi_remove_duplicates=True).details["cdi_remove"] == ["/etc/cdi/nvidia.yaml"]


def test_without_a_driver_nothing_is_written() -> None:
    given = good()
    given["driver"], given["gpus"], given["container_info"]["cdi"]["specs"] = {"loaded": None}, [], []
    result = plan(given)
    assert result.changes == []
    assert [finding.id for finding in result.findings] == ["container_toolkit.cdi_no_driver"]


def test_containerd_beside_docker_is_dockers_unless_named() -> None:
    given = facts()
    engine = {**docker(None), "files": [], "root": "/etc/containerd/config.toml"}
    given["container_info"]["engines"]["containerd"] = {**engine, "version": "1.7.24"}
    subjects = {change.subject for change in plan(given).changes if change.id.endswith("engine_config")}
    assert subjects == {"/etc/docker/daemon.json"}


def test_an_engine_that_is_named_must_be_there() -> None:
    found = plan(facts(), engines=["crio"]).findings
    assert [(finding.id, finding.severity) for finding in found] == [("container_engine.absent", "block")]


def test_no_engine_is_no_reason_to_stop() -> None:
    given = good()
    given["container_info"]["engines"] = {}
    given["container_info"]["owned"].pop(units.DOCKER_UNIT)
    assert [(f.id, f.severity) for f in plan(given).findings] == [("container_engine.none", "info")]


@pytest.mark.parametrize(
    ("desired", "subject", "nearest"),
    [
        ({"state": "presnt"}, "nvidia_container_toolkit_state", "present"),
        ({"version": 1.2}, "nvidia_container_toolkit_version", None),
        ({"version": "v1.20.0"}, "nvidia_container_toolkit_version", "1.20.0"),
        ({"engines": ["dokcer"]}, "nvidia_container_toolkit_engines", "docker"),
        ({"engines": "docker"}, "nvidia_container_toolkit_engines", "docker"),
        ({"hold": "yes"}, "nvidia_container_toolkit_hold", None),
        ({"holds": True}, "nvidia_container_toolkit_holds", "hold"),
        ({"repository_url": "ftp://x"}, "nvidia_container_toolkit_repository_url", None),
        ({"repository_url": "http://x/deb\n"}, "nvidia_container_toolkit_repository_url", "http://x/deb"),
        ({"repository_key_url": " https://x/key"}, "nvidia_container_toolkit_repository_key_url", "https://x/key"),
        ({"version": "1.20.0\n"}, "nvidia_container_toolkit_version", "1.20.0"),
        ({"config": {"nvidia-container-runtime.mode": "cid"}}, "nvidia_container_toolkit_config[nvidia-container-runtime.mode]", "cdi"),
        ({"rootless_users": ["alice\n"]}, "nvidia_container_toolkit_rootless_users", None),
        (
            {"config": {"nvidia-container-cli.env": []}},
            "nvidia_container_toolkit_config[nvidia-container-cli.env]",
            "nvidia-container-cli.environment",
        ),
        (
            {"mode": "cdi", "config": {"nvidia-container-runtime.mode": "legacy"}},
            "nvidia_container_toolkit_config[nvidia-container-runtime.mode]",
            None,
        ),
        ({"engine_start_timeout": 0}, "nvidia_container_toolkit_engine_start_timeout", None),
        ({"rootless_users": ["al ice"]}, "nvidia_container_toolkit_rootless_users", None),
        ({"config": {"disable-require": "true"}}, "nvidia_container_toolkit_config[disable-require]", None),
    ],
)
def test_bad_input_names_variable_and_nearest(desired: dict[str, Any], subject: str, nearest: str | None) -> None:
    result = plan(facts(), **desired)
    assert result.changes == []
    assert [(finding.id, finding.severity, finding.subject, finding.nearest) for finding in result.findings] == [
        ("container_toolkit.bad_input", "block", subject, nearest)
    ]


def test_toolkit_configuration_is_compared_with_defaults_in_mind() -> None:
    given = good()
    assert plan(given, config={"nvidia-container-runtime.log-level": "info"}).changes == []
    result = plan(given, mode="cdi", no_cgroups=True, config={"nvidia-container-runtime.runtimes": ["crun", "runc"]})
    assert result.details["config"]["argv"][4:] == [
        "--set=nvidia-container-cli.no-cgroups=true",
        "--set=nvidia-container-runtime.runtimes=crun:runc",
        "--set=nvidia-container-runtime.mode=cdi",
    ]


def test_a_broken_toolkit_configuration_is_named() -> None:
    given = good()
    given["container_info"]["toolkit"]["config"] = file("/etc/nvidia-container-runtime/config.toml", "\n\nmode = auto\n")
    found = plan(given).findings
    assert (found[0].id, found[0].severity) == ("container_toolkit.config_broken", "block")
    assert "line 3" in found[0].message


LIST = """# head
deb [signed-by=/x.gpg] https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /
#deb https://nvidia.github.io/libnvidia-container/experimental/deb/$(ARCH) /
deb http://deb.debian.org/debian bookworm main
"""
SOURCES = """Types: deb
URIs: http://deb.debian.org/debian
Suites: bookworm

Types: deb
URIs: https://nvidia.github.io/nvidia-docker/x
Suites: /
Enabled: yes
"""
REPO = "[a]\nbaseurl=https://nvidia.github.io/libnvidia-container/stable/rpm/x86_64\nenabled=1\n[b]\nbaseurl=http://other\nenabled=1\n"


def test_old_sources_are_switched_off_and_all_else_stays() -> None:
    assert packages.disabled_source("/x.list", LIST).splitlines() == [
        f"# {line}" if number == 1 else line for number, line in enumerate(LIST.splitlines())
    ]
    assert packages.disabled_source("/x.sources", SOURCES) == SOURCES.replace("Enabled: yes\n", "").replace(
        "\n\nTypes", "\n\nEnabled: no\nTypes"
    )
    assert (
        packages.disabled_source("/x.repo", REPO)
        == "[a]\nenabled=0\nbaseurl=https://nvidia.github.io/libnvidia-container/stable/rpm/x86_64\n[b]\nbaseurl=http://other\nenabled=1\n"
    )
    for path, text in (("/x.list", LIST), ("/x.sources", SOURCES), ("/x.repo", REPO)):
        once = packages.disabled_source(path, text)
        assert packages.disabled_source(path, once) == once


def test_absent_leaves_nothing_of_ours() -> None:
    result = plan(good(), state="absent")
    assert result.details["absent"]["lift"] == sorted(packages.NAMES)
    assert set(result.details["absent"]["files"]) >= {
        units.DROP_IN,
        units.DOCKER_UNIT,
        packages.APT_SOURCE,
        packages.APT_KEY,
        holds.RECORD,
    }
    assert result.details["engines"] == [{"engine": "docker", "user": ""}]


@pytest.mark.parametrize("where", ["status", "journal"])
def test_absent_takes_half_installed_packages_out(where: str) -> None:
    given = good()
    given["packages"]["broken"] = ["libnvidia-container1", "linux-image"] if where == "status" else []
    given["container_info"]["dpkg_journal"] = ["bash", "libnvidia-container1"] if where == "journal" else []
    if where == "journal":  # the status file does not know it yet
        del given["packages"]["set"]["libnvidia-container1"]
    result = plan(given, state="absent")
    assert result.details["absent"]["interrupted"] == sorted(packages.NAMES), "dpkg removes no package that others of the set need"
    assert result.details["absent"]["packages"] == sorted(packages.NAMES)
    assert result.details["stack"]["container_toolkit"] == {"removes": True, "heals": ["libnvidia-container1"]}
    left = plan(given, state="absent", packages=False)
    assert (left.details["absent"]["interrupted"], left.details.get("stack")) == ([], None)


def test_absent_leaves_dpkg_alone_where_nothing_broke_off() -> None:
    assert plan(good(), state="absent").details["absent"]["interrupted"] == []


def test_absent_respects_a_foreign_hold() -> None:
    given = good()
    given["container_info"]["toolkit"]["record"] = None
    assert [finding.id for finding in plan(given, state="absent").findings] == ["container_toolkit.foreign_hold"]


def test_changes_never_show_values_of_an_engines_file() -> None:
    given = facts()
    given["container_info"]["engines"]["docker"]["files"] = [
        file("/etc/docker/daemon.json", '{"proxies": {"http-proxy": "http://user:secret@p"}}')
    ]
    assert "secret" not in str(plan(given).to_dict())


def test_the_planner_leaves_its_facts_alone() -> None:
    given = good()
    before = copy.deepcopy(given)
    plan(given, default_runtime="nvidia", version="1.20.1")
    assert given == before


def test_containerds_own_account_has_the_last_word() -> None:
    given = good()
    head = 'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.'
    ours = 'nvidia]\nruntime_type = "io.containerd.runc.v2"\noptions = {BinaryName = "/usr/bin/nvidia-container-runtime"}\n'
    drop_in = head + ours + '[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = true\n'
    root = 'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n'
    engine = {**docker(None), "version": "1.7.24", "binary": "/usr/bin/containerd", "root": "/etc/containerd/config.toml"}
    engine["files"] = [file("/etc/containerd/config.toml", root), file("/etc/containerd/conf.d/99-nvidia.toml", drop_in)]
    given["container_info"]["engines"]["containerd"] = engine
    engine["dump"] = {"state": "ok", "text": head + ours, "error": ""}
    assert plan(given, engines=["docker", "containerd"]).findings == []
    engine["dump"]["text"] = head + "runc]\n"
    assert [finding.id for finding in plan(given, engines=["docker", "containerd"]).findings] == ["container_engine.dump_differs"]
    engine["dump"] = {"state": "failed", "text": "", "error": "toml: line 3"}
    assert "toml: line 3" in plan(given, engines=["docker", "containerd"]).findings[0].message


def test_an_engine_that_is_named_twice_is_done_once() -> None:
    result = plan(facts(), engines=["docker", "docker"])
    assert result.details["engines"] == [{"engine": "docker", "user": ""}]


def old_docker(version: str) -> dict[str, Any]:
    given = good()
    given["container_info"]["engines"]["docker"]["version"] = version
    given["container_info"]["owned"].pop(units.DOCKER_UNIT)
    return given


def test_an_engine_that_reads_old_specifications_gets_one() -> None:
    given = old_docker("25.0.0")
    given["container_info"]["owned"][units.DOCKER_UNIT] = {"sha256": "", "text": units.docker_unit_text()}
    result = plan(given)
    assert ids(result) == ["cdi", "unit"]
    assert result.details["units"]["files"] == [{"path": units.DROP_IN, "text": units.drop_in_text(older=True)}]
    assert "CDI version 0.7.0, which docker 25.0.0 does not read" in next(c.message for c in result.changes if c.id.endswith(".cdi"))
    assert result.details["stack"]["container_toolkit"]["older_spec"] is True
    given["container_info"]["owned"][units.DROP_IN]["text"] = units.drop_in_text(older=True)
    given["container_info"]["cdi"]["specs"][0]["text"] = given["container_info"]["cdi"]["specs"][0]["text"].replace("0.7.0", "0.5.0")
    assert plan(given).changes == []


@pytest.mark.parametrize(("version", "toolkit"), [("20.10.24", "1.20.0"), ("26.1.5", "1.20.0"), ("25.0.0", "1.18.2")])
def test_no_old_specification_where_it_would_help_nobody(version: str, toolkit: str) -> None:
    given = old_docker(version)
    assert plan(given, version=toolkit, allow_downgrade=True).details["stack"]["container_toolkit"]["older_spec"] is False


def test_engines_that_are_left_alone_are_not_judged() -> None:
    given = good()
    given["container_info"]["engines"]["podman"] = {"binary": "/usr/bin/podman", "version": None}
    given["containers"]["engines"] = {"podman": {"version": "4.3.1"}}
    assert plan(given, engines=["docker"]).details["stack"]["container_toolkit"]["engines"] == ["docker"]
    assert plan(given, engines=["docker"]).details["stack"]["container_toolkit"]["older_spec"] is False
    assert plan(given).details["stack"]["container_toolkit"]["older_spec"] is True, "podman's version comes from its package"
    assert plan(given, cdi=False).details["stack"]["container_toolkit"]["engines"] == [], "without CDI no engine reads any"


def user(text: str | None, running: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "user": "alice",
        "uid": 1001,
        "running": running,
        "sees_cdi": True,
        **file("/home/alice/.config/docker/daemon.json", text),
        **more,
    }


def rootless(entry: dict[str, Any]) -> Plan:
    given = good()
    given["container_info"]["engines"]["docker"]["rootless"] = [entry]
    texts = {
        units.TMPFILES: units.TMPFILES_TEXT,
        units.USER_UNIT: units.docker_unit_text(user=True),
        units.DROP_IN: units.drop_in_text(rootless=True),
    }
    given["container_info"]["owned"].update({path: {"sha256": "", "text": text} for path, text in texts.items()})
    return plan(given, rootless_users=["alice"])


def test_rootless_docker_is_asked_what_it_runs() -> None:
    mine = good()["container_info"]["engines"]["docker"]
    folders = ["/etc/cdi", "/var/run/cdi", "/var/lib/gpufleet/cdi"]
    text = json.dumps({**json.loads(mine["files"][0]["text"]), "cdi-spec-dirs": folders})
    running = {**mine["running"], "CDISpecDirs": folders}
    assert rootless(user(text, running)).changes == []
    assert rootless(user(text, None)).changes == [], "a daemon that is off needs nothing"
    old = rootless(user(text, {**running, "CDISpecDirs": []}))
    assert ([(c.id, c.subject) for c in old.changes], old.disruption) == (
        [("container_toolkit.engine_restart", "docker.service of alice")],
        "host_service_restart",
    )
    blind = rootless(user(text, {**running, "ContainersRunning": 0}, sees_cdi=False))
    assert (blind.changes[0].message, blind.disruption) == ("docker of alice: restart, it was started before /run/cdi was there", "none")
    assert [c.subject for c in rootless(user(None, None)).changes] == ["/home/alice/.config/docker/daemon.json"]


def test_a_user_who_is_not_there() -> None:
    found = rootless({"user": "alice", "uid": None}).findings
    assert [(f.id, f.severity, f.subject) for f in found] == [("container_engine.no_rootless_docker", "block", "alice")]
    given = good()
    given["container_info"]["engines"] = {}
    assert "Docker is not on this host" in next(f.message for f in plan(given, rootless_users=["alice"]).findings if f.severity == "block")


def test_rootless_engines_find_run_cdi_at_their_start() -> None:
    given = good()
    given["container_info"]["engines"]["docker"]["rootless"] = [user("{}")]
    details = plan(given, rootless_users=["alice"]).details["units"]
    assert {f["path"] for f in details["files"]} == {units.DROP_IN, units.TMPFILES, units.USER_UNIT}
    given["container_info"]["owned"][units.DROP_IN]["text"] = units.drop_in_text(rootless=True)
    assert plan(given, rootless_users=["alice"]).details["units"]["reload"] is False, "the system's manager knows nothing of them"


def test_absent_takes_ours_out_of_a_users_file() -> None:
    given = good()
    given["container_info"]["engines"]["docker"]["rootless"] = [user(given["container_info"]["engines"]["docker"]["files"][0]["text"])]
    assert {"engine": "docker", "user": "alice"} in plan(given, state="absent", rootless_users=["alice"]).details["engines"]
    given["container_info"]["engines"]["docker"]["rootless"] = [{"user": "alice", "uid": None}]
    assert [f.severity for f in plan(given, state="absent", rootless_users=["alice"]).findings if f.severity == "block"] == []


def test_superseded_packages_go_also_where_the_set_stays() -> None:
    given = good()
    given["packages"]["set"]["nvidia-docker2"] = "2.13.0-1"
    result = plan(given)
    assert (ids(result), result.details["superseded"]) == (["superseded"], ["nvidia-docker2"])
    given["packages"]["holds"].append("nvidia-docker2")
    assert [f.id for f in plan(given).findings] == ["container_toolkit.foreign_hold"]


def test_a_key_that_apt_trusts_everywhere_is_said() -> None:
    given = good()
    given["container_info"]["old_keys"] = ["/etc/apt/trusted.gpg"]
    assert [(f.id, f.severity) for f in plan(given).findings] == [("container_toolkit.old_key", "info")]
    assert plan(given).changes == []


@pytest.mark.parametrize("modprobe", [True, False])
def test_nodes_of_capabilities_are_made_where_that_is_possible(modprobe: bool) -> None:
    given = good()
    given["container_info"]["cdi"].update(caps_missing=["/dev/nvidia-caps/nvidia-cap12"], modprobe=modprobe)
    result = plan(given)
    assert ids(result) == (["cdi"] if modprobe else [])
    assert [finding.id for finding in result.findings] == ([] if modprobe else ["container_toolkit.caps_missing"])


def test_absent_takes_the_specification_away_with_what_wrote_it() -> None:
    assert "/var/run/cdi/nvidia.yaml" in plan(good(), state="absent").details["absent"]["files"]
    assert "/var/run/cdi/nvidia.yaml" not in plan(good(), state="absent", packages=False).details["absent"]["files"]


@pytest.mark.parametrize("text", ["", "<html>log in first</html>"])
def test_a_file_without_a_key_in_it_is_fetched_anew(text: str) -> None:
    given = good()
    given["container_info"]["owned"][packages.APT_KEY]["text"] = text
    result = plan(given)
    assert (ids(result), result.changes[0].before) == (["key"], "no key is in it")
    assert result.details["key"]["url"] == "https://nvidia.github.io/libnvidia-container/gpgkey"
    assert plan(given, repository_key=KEY).details["key"]["text"] == KEY


def test_another_source_brings_its_own_key() -> None:
    details = plan(good(), repository_url="http://mirror/libnvidia-container/stable/deb").details
    assert details["key"]["url"] == "http://mirror/libnvidia-container/gpgkey"
    assert "key" not in plan(good(), repository_key=KEY).details, "the same key was given"


DEFAULT_KEY = "https://nvidia.github.io/libnvidia-container/gpgkey"


@pytest.mark.parametrize(
    ("before", "after", "fetched"),
    [
        ({}, {"repository_key_url": "https://a/key"}, "https://a/key"),
        ({"repository_key_url": "https://a/key"}, {"repository_key_url": "https://b/key"}, "https://b/key"),
        ({"repository_key_url": "https://a/key"}, {}, DEFAULT_KEY),
        ({"repository_key": KEY}, {"repository_key_url": "https://a/key"}, "https://a/key"),
        ({"repository_key": KEY}, {}, DEFAULT_KEY),
        ({"repository_key_url": "https://a/key"}, {"repository_key_url": "https://a/key"}, None),
        ({"repository_key": KEY}, {"repository_key": KEY}, None),
    ],
)
def test_a_key_from_elsewhere_is_fetched_though_there_is_one(before: dict[str, Any], after: dict[str, Any], fetched: str | None) -> None:
    given = good()
    given["container_info"]["owned"][packages.APT_SOURCE]["text"] = packages.source_text(Settings(**before), "apt", "x86_64")
    result = plan(given, **after)
    assert ids(result) == (["key", "source"] if fetched else [])
    assert (result.details.get("key") or {}).get("url") == fetched


def test_a_password_in_the_keys_url_is_not_in_the_readable_source() -> None:
    assert "secret" not in packages.source_text(Settings(repository_key_url="https://me:secret@a/key"), "apt", "x86_64")


@pytest.mark.parametrize("where", ["status", "journal"])
def test_a_transaction_that_was_killed_is_finished(where: str) -> None:
    given = good()
    given["packages"]["broken"] = ["libnvidia-container1", "linux-image"] if where == "status" else []
    given["container_info"]["dpkg_journal"] = ["bash", "libnvidia-container1"] if where == "journal" else []
    result = plan(given)
    assert "packages" in ids(result), "also where the versions are right"
    assert result.details["packages"]["interrupted"] == ["libnvidia-container1"], "of the set alone"
    assert result.details["stack"]["container_toolkit"]["heals"] == ["libnvidia-container1"]
    left = plan(given, packages=False)
    assert "heals" not in left.details["stack"]["container_toolkit"], "who does not install does not heal"


def test_a_docker_that_is_active_and_does_not_answer_is_said() -> None:
    given = good()
    engine = given["container_info"]["engines"]["docker"]
    engine["running"] = None
    assert [(f.id, f.severity) for f in plan(given).findings] == [("container_engine.no_answer", "warn")]
    engine["unit"]["active"] = "inactive"
    assert plan(given).findings == [], "one that is down has nothing to answer"
