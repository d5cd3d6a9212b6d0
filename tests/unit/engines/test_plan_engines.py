# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Component `engines`: what is to be done with instances, in every state that a host can be in, and what stops it."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import jsonschema
import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils import _plan_engines
from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Plan
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_definition import digest, with_secrets
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_model import Matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._plan_engines_facts import Here, host_of

from .conftest import UUID, context

GIB = 1 << 30
ROOT = Path(__file__).resolve().parents[3]
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
FOLDER = "/models/llama"


class Site:
    """One host with two H100s; `run` plans, `applied` is the host after the plan was carried out."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        self.info: dict[str, t.Any] = {"records": {}, "units": {}, "files": {}, "started_with": {}, "ports": {}, "users": [], "jobs": {}}
        self.facts: dict[str, t.Any] = {
            "state": "ok",
            "gpus": [
                {
                    "index": n,
                    "uuid": UUID.format(n),
                    "product": "NVIDIA H100 80GB HBM3",
                    "compute_capability": "9.0",
                    "memory_bytes": {"total": 80 * GIB, "used": 0, "reserved": GIB // 2},
                    "processes": [],
                }
                for n in range(2)
            ],
            "containers": {"toolkit": {"version": "1.18.1-1"}, "engines": {}},
            "services": [],
        }
        self.models: dict[str, t.Any] = {FOLDER: {"path": FOLDER, "config": LLAMA, "weights": {"loaded_bytes": 16060522496}}}
        self.over: dict[str, t.Any] = {}

    def run(self, *specs: t.Any, engine: str = "vllm", check_mode: bool = False, **desired: t.Any) -> Plan:
        facts = {**self.facts, "engine_info": self.info, "model_info": self.models}
        asked = {"engine": engine, "instances": list(specs), "host": "h1", "shared": {"version": "0.33.0"}, **desired}
        return _plan_engines.plan(asked, facts, self.matrix, context(check_mode=check_mode))

    def applied(self, plan: Plan) -> None:
        for row in plan.details["instances"]:
            name, wanted = row["name"], row["definition"]
            keys = ("engine", "version", "model", "served_name", "gpus", "host", "port", "user", "runtime", "program")
            self.info["records"][name] = {"definition_sha256": wanted["sha256"], "state": "ok", **{key: wanted[key] for key in keys}}
            self.info["started_with"][name] = wanted["sha256"]
            for unit, text in wanted["units"].items():
                self.info["units"][unit] = {"active_state": "active", "enabled": "enabled", "need_daemon_reload": False}
                self.info["files"][f"/etc/systemd/system/{unit}"] = {"text": text, "mode": "0644", "uid": 0}
            for path, file in wanted["files"].items():
                self.info["files"][path] = {"sha256": file["sha256"], "mode": file["mode"], "uid": 0}
            self.info["ports"][str(wanted["port"])] = {"pid": 7, "process": "vllm", "unit": f"gpufleet-engine-{name}.service"}
        self.info["users"] = ["gpufleet-engine"]


@pytest.fixture
def site(matrix: Matrix) -> Site:
    return Site(matrix)


def chat(**over: t.Any) -> dict[str, t.Any]:
    return {"name": "chat", "model": FOLDER, "gpus": [0], **over}


def blocks(plan: Plan) -> list[str]:
    return [finding.id for finding in plan.findings if finding.severity == "block"]


def ids(plan: Plan) -> list[str]:
    return [change.id for change in plan.changes]


def test_a_new_instance_is_planned_and_a_second_run_is_quiet(site: Site) -> None:
    first = site.run(chat(api_key="hunter2"))
    assert (blocks(first), ids(first), first.disruption) == ([], ["engines.install"], "none")
    (row,) = first.details["instances"]
    assert row["action"] == "switch"
    jsonschema.validate(row["definition"], json.loads((ROOT / "schemas/engine_definition.schema.json").read_text()))
    assert "--max-model-len 131072" in row["definition"]["units"]["gpufleet-engine-chat.service"], "the planner's numbers are in the unit"
    assert first.details["users"] == ["gpufleet-engine"]
    site.applied(first)
    again = site.run(chat(api_key="hunter2"))
    assert (blocks(again), ids(again), again.decision) == ([], [], "nothing")


def test_no_secret_leaves_the_planner(site: Site) -> None:
    spec = chat(api_key="hunter2", hf_token="hunter3")
    plan = site.run(spec)
    site.applied(plan)
    other = site.run(chat(api_key="hunter4", hf_token="hunter3"))
    assert ids(other) == ["engines.update", "engines.update"], "the engine's file and the check's"
    shown = json.dumps([plan.to_dict(), other.to_dict()])
    assert not any(secret in shown for secret in ("hunter2", "hunter3", "hunter4"))
    definition = plan.details["instances"][0]["definition"]
    whole = with_secrets(definition, spec)
    texts = {path.rpartition("/")[2]: file["text"] for path, file in whole["files"].items()}
    assert texts == {"secrets.yaml": 'api-key: "hunter2"\n', "hf_token": "hunter3", "api_key": "hunter2"}
    assert digest(whole) == definition["sha256"]
    with pytest.raises(ValueError, match="not the one that the plan was made with"):
        with_secrets(definition, chat(api_key="hunter4", hf_token="hunter3"))


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"version": "0.32.0"}, "version is 0.33.0, becomes 0.32.0"),
        ({"port": 8001}, "port is 8000, becomes 8001"),
        ({"args": {"max-model-len": 4096}}, "unit gpufleet-engine-chat.service differs"),
        ({"probe": {"kind": "chat"}}, "definition is the recorded one"),
    ],
)
def test_an_update_names_what_differs(site: Site, over: dict[str, t.Any], words: str) -> None:
    site.applied(site.run(chat()))
    plan = site.run(chat(**over))
    assert set(ids(plan)) == {"engines.update"}
    assert plan.disruption == "engine_restart"
    assert words in " ".join(change.message for change in plan.changes)
    assert plan.details["instances"][0]["drain"] is True


def test_an_update_of_a_stopped_instance_disturbs_nobody(site: Site) -> None:
    site.applied(site.run(chat()))
    site.info["units"]["gpufleet-engine-chat.service"].update(active_state="failed", result="exit-code", exec_main_status=1)
    assert site.run(chat(port=8001)).disruption == "none"


def test_the_diff_shows_the_unit_that_somebody_changed(site: Site) -> None:
    site.applied(site.run(chat()))
    path = "/etc/systemd/system/gpufleet-engine-chat.service"
    wanted = site.info["files"][path]["text"]
    site.info["files"][path]["text"] = wanted.replace("KillMode=mixed", "KillMode=none")
    (change,) = site.run(chat()).changes
    assert "KillMode=none" in change.before
    assert change.after == wanted


UNIT = "gpufleet-engine-chat.service"


def _fail(info: dict[str, t.Any]) -> None:
    info["units"][UNIT].update(active_state="failed", result="exit-code", exec_main_status=79)


@pytest.mark.parametrize(
    ("spoil", "change", "action", "disruption"),
    [
        (_fail, "engines.start", "start", "none"),
        (lambda info: info["units"].pop(UNIT), "engines.start", "start", "none"),
        (lambda info: info["started_with"].update(chat=""), "engines.restart", "restart", "engine_restart"),
        (
            lambda info: info["records"]["chat"].update(state="failed", failure={"stage": "ready", "text": "503"}),
            "engines.restart",
            "restart",
            "none",
        ),
        (lambda info: info["started_with"].update(chat="older"), "engines.restart", "restart", "engine_restart"),
        (lambda info: info["units"][UNIT].update(need_daemon_reload=True), "engines.restart", "restart", "engine_restart"),
        (lambda info: info["units"][UNIT].update(enabled="disabled"), "engines.enable", "enable", "none"),
        (lambda info: info["records"]["chat"].update(state="switching"), "engines.heal", "switch", "engine_restart"),
        (lambda info: info["jobs"].update(chat={"unit": "x"}), "engines.attach", "switch", "engine_restart"),
        (lambda info: info["files"].pop(f"/etc/systemd/system/{UNIT}"), "engines.update", "switch", "engine_restart"),
    ],
)
def test_what_is_wrong_with_the_host_is_put_right(
    site: Site, spoil: t.Callable[[dict[str, t.Any]], t.Any], change: str, action: str, disruption: str
) -> None:
    site.applied(site.run(chat()))
    spoil(site.info)
    plan = site.run(chat())
    assert (blocks(plan), ids(plan), plan.disruption) == ([], [change], disruption)
    assert [row["action"] for row in plan.details["instances"]] == [action]


def test_gpus_and_ports_of_other_engines_are_theirs(site: Site) -> None:
    site.applied(site.run(chat(api_key="k")))
    sglang = {"engine": "sglang", "shared": {"version": "0.5.23"}}
    for spec, words in (({"gpus": [0]}, "used by chat as well"), ({"gpus": [1], "port": 8000}, "chat's port too")):
        plan = site.run({"name": "other", "model": FOLDER, **spec}, **sglang)
        assert (set(blocks(plan)), plan.changes) == ({"engine.bad_input"}, [])
        assert words in " ".join(finding.message for finding in plan.findings)
    assert ids(site.run({"name": "other", "model": FOLDER, "gpus": [1]}, **sglang)) == ["engines.install"]


def test_instances_of_other_variables_are_seen_before_the_first_is_touched(site: Site) -> None:
    beside = {"vllm": {"instances": [chat(name="first")], "shared": {"version": "0.33.0"}}}
    plan = site.run({"name": "other", "model": FOLDER, "gpus": [0]}, engine="sglang", shared={"version": "0.5.23"}, beside=beside)
    assert blocks(plan) == ["engine.bad_input"]
    assert "used by first as well" in plan.findings[0].message
    same = site.run({"name": "first", "model": FOLDER, "gpus": [1]}, engine="sglang", shared={"version": "0.5.23"}, beside=beside)
    assert "is the name of two instances" in same.findings[0].message
    wrong = {"vllm": {"instances": [chat(gpus=[9])], "shared": {"version": "0.33.0"}}}
    assert blocks(site.run({"name": "o", "model": FOLDER}, engine="sglang", shared={"version": "0.5.23"}, beside=wrong)) == []


def test_a_record_that_cannot_be_read_stops_everything_else_warns(site: Site) -> None:
    site.info["errors"] = {"docker": "no answer"}
    assert blocks(site.run(chat())) == []
    site.info["errors"] = {"/var/lib/gpufleet/engine_records/chat": "its schema is 9"}
    plan = site.run(chat())
    assert (blocks(plan), plan.changes) == (["engine.record_unreadable"], [])


def test_the_same_name_twice(site: Site) -> None:
    plan = site.run(chat(), chat(gpus=[1], port=8001))
    assert plan.changes == []
    assert "is the name of two instances of this host" in " ".join(finding.message for finding in plan.findings)


def test_an_instance_may_move_to_another_engine(site: Site) -> None:
    site.applied(site.run(chat()))
    plan = site.run(chat(port=8000), engine="sglang", shared={"version": "0.5.23"})
    assert blocks(plan) == []
    assert "engine is vllm, becomes sglang" in " ".join(change.message for change in plan.changes)


def test_strangers_on_port_and_gpu(site: Site) -> None:
    site.info["ports"]["8000"] = {"pid": 55, "process": "nginx", "unit": "nginx.service"}
    site.facts["gpus"][0]["processes"] = [{"pid": 66, "name": "python", "unit": "user-1000.slice"}]
    plan = site.run(chat())
    assert blocks(plan) == ["engine.port_taken", "engine.gpu_taken"]
    port, gpu = (finding for finding in plan.findings if finding.severity == "block")
    assert (port.nearest, "nginx (pid 55, unit nginx.service)" in port.message) == ("8001", True)
    assert "python (pid 66" in gpu.message


def test_what_runs_as_asked_is_no_obstacle_to_itself(site: Site) -> None:
    site.applied(site.run(chat()))
    site.facts["gpus"][0]["processes"] = [{"pid": 7, "name": "vllm", "unit": UNIT}]
    assert blocks(site.run(chat(port=8000, args={"max-model-len": 4096}))) == []


def test_memory_in_use_changes_no_number(site: Site) -> None:
    site.applied(site.run(chat()))
    site.facts["gpus"][0]["memory_bytes"]["used"] = 72 * GIB
    again = site.run(chat())
    assert (blocks(again), ids(again)) == ([], [])


def test_args_are_the_planners_wish(site: Site) -> None:
    unit = site.run(chat(args={"max_model_len": "32k"})).details["instances"][0]["definition"]["units"][UNIT]
    assert "--max-model-len 32k" in unit
    assert "engine.plan_fit" not in blocks(site.run(chat()))
    site.facts["gpus"][0]["memory_bytes"]["total"] = 12 * GIB
    small = site.run(chat())
    assert blocks(small)
    assert small.findings[0].subject.startswith("chat")  # type: ignore[union-attr]
    assert small.details["instances"] == []


def test_a_model_that_cannot_be_read(site: Site) -> None:
    site.models[FOLDER] = {"error": "/models/llama does not exist"}
    assert blocks(site.run(chat())) == ["engine.model_unreadable"]
    assert blocks(site.run(chat(), check_mode=True)) == []
    assert blocks(site.run(chat(), plan=False)) == []
    hub = site.run(chat(model="org/model"))
    assert (blocks(hub), [finding.id for finding in hub.findings]) == ([], ["engine.not_planned"])


def test_an_engine_on_the_cpu(site: Site) -> None:
    site.facts["gpus"] = []
    plan = site.run(chat(gpus=[]))
    assert blocks(plan) == []
    assert "--gpu " not in plan.details["instances"][0]["definition"]["units"][UNIT]


def test_what_is_not_listed_is_left_and_reported_or_purged(site: Site) -> None:
    site.applied(site.run(chat()))
    left = site.run()
    assert (left.changes, [finding.id for finding in left.findings]) == ([], ["engine.not_listed"])
    purged = site.run({"name": "new", "model": FOLDER, "gpus": [0], "port": 8001}, purge=True)
    assert ids(purged) == ["engines.install", "engines.remove"]
    assert [row["action"] for row in purged.details["instances"]] == ["remove", "switch"]
    assert (
        site.run({"name": "s", "model": FOLDER, "gpus": [1]}, engine="sglang", shared={"version": "0.5.23"}, purge=True).details[
            "instances"
        ][0]["name"]
        == "s"
    )


def test_absent_removes_what_is_listed_or_everything(site: Site) -> None:
    site.applied(site.run(chat(), chat(name="two", gpus=[1], port=8001)))
    assert [change.subject for change in site.run(chat(), state="absent").changes] == ["chat"]
    assert [change.subject for change in site.run(state="absent").changes] == ["chat", "two"]
    assert site.run(chat(), state="absent").disruption == "engine_restart"
    assert site.run(state="absent", engine="sglang").changes == []


def test_check_mode_before_the_driver(site: Site) -> None:
    site.facts["state"], site.facts["gpus"] = "no_driver", [{"index": 0, "uuid": None}]
    plan = site.run(chat(), check_mode=True)
    assert (blocks(plan), ids(plan)) == ([], ["engines.install"])
    assert blocks(site.run(chat())) == ["engine.gpus_unreadable"]
    assert blocks(site.run(chat(gpus=[]))) == []


@pytest.mark.parametrize(
    ("desired", "words"),
    [
        ({"instances": {"chat": {}}}, "vllm_instances is dict; expected a list"),
        ({"shared": ["x"]}, "vllm_instance_defaults is list"),
        ({"instances": ["chat"]}, "is no mapping with name"),
        ({"instances": [{"name": "chat", "model": FOLDER, "args": {"swap-space": 4}}]}, "swap-space"),
    ],
)
def test_wrong_input_is_named(site: Site, desired: dict[str, t.Any], words: str) -> None:
    plan = site.run(**desired)
    assert plan.changes == []
    assert words in " ".join(finding.message for finding in plan.findings if finding.severity == "block")


def test_members_of_a_group(site: Site) -> None:
    nodes = {"members": [{"host": "h0", "address": "10.0.0.1"}, {"host": "h1", "address": "10.0.0.2"}]}
    (row,) = site.run(chat(nodes=nodes, host="10.0.0.2")).details["instances"]
    assert row["definition"]["ready"] is None, "only the head answers"
    stranger = site.run(chat(nodes={"members": [{"host": "a", "address": "10.0.0.1"}, {"host": "b", "address": "10.0.0.2"}]}))
    assert "do not name this host (h1)" in stranger.findings[0].message


@pytest.mark.parametrize(
    ("toolkit", "unit"),
    [
        ("1.17.8-1", "gpufleet-cdi-refresh.service"),
        ("1.18.1-1", "nvidia-cdi-refresh.service"),
        ("1.19.0-1", "gpufleet-cdi-refresh.service"),
        ("1.19.1-1", "nvidia-cdi-refresh.service"),
    ],
)
def test_the_unit_that_writes_cdi(toolkit: str, unit: str) -> None:
    facts = {"containers": {"toolkit": {"version": toolkit}, "engines": {"docker": {"version": "27.5"}}}}
    assert host_of(Here({}, facts)).cdi_unit == unit
    assert host_of(Here({}, facts)).docker_cdi is False
    assert host_of(Here({"docker": {"cdi": True}}, facts)).docker_cdi is True
