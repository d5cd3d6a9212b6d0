"""The stack lock: resolution for hardware groups, drift, and the action that writes it."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import jsonschema
import pytest
import yaml
from ansible.errors import AnsibleActionFail

from ansible_collections.gpufleet.inference.plugins.action import stack_lock
from ansible_collections.gpufleet.inference.plugins.plugin_utils import _facts
from ansible_collections.gpufleet.inference.plugins.plugin_utils._lock import group_of, resolve
from ansible_collections.gpufleet.inference.plugins.plugin_utils._lock_drift import drift
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix import evaluate
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_model import Matrix

from .conftest import ROOT, context, ids, info, only

SCHEMA = json.loads((ROOT / "schemas/stack_lock.schema.json").read_text())
V100 = "Tesla V100-SXM2-32GB"
MIXED = ("NVIDIA L40S", "NVIDIA L40S", "NVIDIA GeForce RTX 4090")

Lock = t.Callable[..., tuple[dict[str, t.Any], dict[str, str]]]


@pytest.fixture
def lock(matrix: Matrix) -> Lock:
    def run(hosts: dict[str, t.Any], **wanted: t.Any) -> tuple[dict[str, t.Any], dict[str, str]]:
        document, problems = resolve(matrix, hosts, wanted, context())
        jsonschema.validate(document, SCHEMA)
        return document, problems

    return run


def test_hosts_with_the_same_hardware_are_one_group(lock: Lock) -> None:
    document, problems = lock({"b": info(), "a": info(driver=None), "m": info(MIXED), "r": info(system="rocky9")})
    assert problems == {}
    assert {name: group["hosts"] for name, group in document["groups"].items()} == {
        "h100_sxm@debian12-x86_64": ["a", "b"],
        "l40s+rtx4090@debian12-x86_64": ["m"],
        "h100_sxm@rhel9-x86_64": ["r"],
    }


def test_the_newest_supported_combination_is_taken_with_its_rows(lock: Lock, matrix: Matrix) -> None:
    group = lock({"a": info()})[0]["groups"]["h100_sxm@debian12-x86_64"]
    assert group["driver"] == {"branch": 620, "version": "620.70.06", "kernel_modules": "open", "source": "nvidia"}
    assert group["cuda"] == {"toolkit": "13.5.0"}
    assert group["container_toolkit"] == {"version": "1.20.0"}
    assert group["engines"]["vllm"]["version"] == "0.33.0"
    assert group["engines"]["tensorrt_llm"]["version"] == "1.2.1", "final releases before candidates"
    assert {row["row"] for row in group["rows"]} >= {
        "branch.620",
        "safe.driver.620",
        "h100_sxm",
        "cuda.13.5.0",
        "toolkit.1.20.0",
        "vllm.0.33.0",
    }
    assert all(row["row"] in matrix.rows and row["source"] for row in group["rows"])


def test_what_is_resolved_passes_the_gate(lock: Lock, matrix: Matrix) -> None:
    for hosts in ({"a": info()}, {"a": info(MIXED)}, {"a": info((V100,), driver=None)}, {"a": info(("NVIDIA B200",) * 8)}):
        for group in lock(hosts)[0]["groups"].values():
            stack = {
                "component": "driver",
                "driver": group["driver"],
                "cuda": {"toolkits": [group["cuda"]["toolkit"]]},
                "container_toolkit": group["container_toolkit"],
                "engines": [{"name": name, "engine": name, "runtime": "docker", **entry} for name, entry in group["engines"].items()],
            }
            assert [item for item in evaluate(matrix, hosts["a"], stack, context()) if item.severity == "block"] == []


def test_old_gpus_get_the_last_branch_and_cuda_that_know_them(lock: Lock) -> None:
    group = lock({"a": info((V100,), driver=None)})[0]["groups"]["v100@debian12-x86_64"]
    assert (group["driver"]["branch"], group["driver"]["kernel_modules"]) == (580, "proprietary")
    assert group["cuda"]["toolkit"] == "12.9.2"
    assert group["engines"] == {}, "no engine without a blocking advisory runs on Volta"


def test_hosts_that_cannot_be_resolved_are_named(lock: Lock) -> None:
    document, problems = lock(
        {
            "a": info(),
            "gone": {},
            "cpu": info(()),
            "new": info(("NVIDIA Z9000",)),
            "odd": info((V100, "NVIDIA B200")),
            "el7": info(system="centos7"),
        }
    )
    assert list(document["groups"]) == ["h100_sxm@debian12-x86_64"]
    assert set(problems) == {"gone", "cpu", "new", "odd", "el7"}
    assert "no facts" in problems["gone"]
    assert "no GPU" in problems["cpu"]
    assert "NVIDIA Z9000" in problems["new"]
    assert "no supported driver" in problems["odd"]
    assert "rhel7" in problems["el7"]


@pytest.mark.parametrize(
    ("wanted", "driver", "toolkit"),
    [
        ({"stack": "lts-580"}, "580.178.04", "13.0.3"),
        ({"stack": "production-595"}, "595.91.07", "13.2.2"),
        ({"driver": {"branch": 595}}, "595.91.07", "13.2.2"),
        ({"driver": {"branch": 580}, "cuda": {"toolkits": ["12.9.1"]}}, "580.178.04", "12.9.1"),
        ({"channel": "newest"}, "620.70.06", "13.5.0"),
    ],
)
def test_what_is_asked_for_is_taken(lock: Lock, wanted: dict[str, t.Any], driver: str, toolkit: str) -> None:
    group = next(iter(lock({"a": info()}, **wanted)[0]["groups"].values()))
    assert (group["driver"]["version"], group["cuda"]["toolkit"]) == (driver, toolkit)


def test_a_container_toolkit_that_is_asked_for_is_judged(lock: Lock) -> None:
    group = next(iter(lock({"a": info()}, container_toolkit={"version": "1.19.1"})[0]["groups"].values()))
    assert group["container_toolkit"] == {"version": "1.19.1"}
    assert "container_toolkit.advisory" in lock({"a": info()}, container_toolkit={"version": "1.17.4"})[1]["a"]


def test_the_hosts_old_docker_is_no_reason_against_a_version(lock: Lock) -> None:
    old = info(over={"containers": {"engines": {"docker": {"version": "20.10.24", "active": "active"}}}})
    assert lock({"a": old})[1] == {}


def test_a_driver_version_and_its_modules_are_taken_as_asked(lock: Lock) -> None:
    document, problems = lock({"a": info()}, driver={"version": "595.91.07", "kernel_modules": "proprietary"})
    assert problems == {}
    group = next(iter(document["groups"].values()))
    assert (group["driver"]["branch"], group["driver"]["version"], group["driver"]["kernel_modules"]) == (595, "595.91.07", "proprietary")
    assert "driver.advisory" in lock({"a": info()}, driver={"version": "595.71.05"})[1]["a"]
    assert "does not know driver branch 605" in lock({"a": info()}, driver={"branch": 605})[1]["a"]
    assert "does not know CUDA toolkit 13.9" in lock({"a": info()}, cuda={"toolkits": ["13.9"]})[1]["a"]


def test_a_branch_that_is_asked_for_gets_the_modules_that_the_gpus_need(lock: Lock) -> None:
    group = next(iter(lock({"a": info((V100,), driver=None)}, driver={"branch": 580}, cuda={"toolkits": ["12.9.2"]})[0]["groups"].values()))
    assert group["driver"]["kernel_modules"] == "proprietary"
    assert next(iter(lock({"a": info()}, driver={"branch": 580})[0]["groups"].values()))["driver"]["kernel_modules"] == "open"


def test_engines_are_those_asked_for(lock: Lock) -> None:
    assert set(next(iter(lock({"a": info()}, engines=["vllm"])[0]["groups"].values()))["engines"]) == {"vllm"}
    exact = next(iter(lock({"a": info()}, engines={"vllm": "0.32.0"})[0]["groups"].values()))["engines"]
    assert exact["vllm"]["version"] == "0.32.0"
    assert "0.99" in lock({"a": info()}, engines={"vllm": "0.99"})[1]["a"]


def test_a_stack_out_of_support_is_not_locked(lock: Lock) -> None:
    document, problems = lock({"a": info()}, stack="guides-2024")
    assert document["groups"] == {}
    assert "matrix.stack_out_of_support" in problems["a"]
    assert "driver.branch_ended" in problems["a"]


def test_a_site_can_allow_what_is_out_of_support(matrix: Matrix) -> None:
    names = ("driver.branch_ended", "driver.advisory", "matrix.stack_out_of_support")
    allow = tuple({"id": name, "reason": "frozen until spring", "expires": "2027-03-01"} for name in names)
    document, problems = resolve(matrix, {"a": info(driver=None)}, {"stack": "guides-2024"}, context(allow=allow))
    assert problems == {}
    group = document["groups"]["h100_sxm@debian12-x86_64"]
    assert (group["driver"]["version"], group["cuda"]["toolkit"]) == ("550.54.14", "12.4.1")
    assert "sglang" not in group["engines"], "CUDA 13 engines do not run on it"
    expired = tuple({**entry, "expires": "2026-01-01"} for entry in allow)
    assert resolve(matrix, {"a": info(driver=None)}, {"stack": "guides-2024"}, context(allow=expired))[0]["groups"] == {}
    assert "policy.allow_invalid" in resolve(matrix, {"a": info()}, {}, context(allow=({"id": "x"},)))[1]["a"]


def test_a_stack_for_other_gpus_leaves_the_group_out(lock: Lock) -> None:
    document, problems = lock({"a": info(), "v": info((V100,), driver=None)}, stack="lts-580")
    assert list(document["groups"]) == ["h100_sxm@debian12-x86_64"]
    assert "cuda.architecture_dropped" in problems["v"]


def test_an_unknown_stack_and_an_unknown_channel(lock: Lock) -> None:
    assert "no named stack 'x'" in lock({"a": info()}, stack="x")[1]["a"]
    assert "channel 'fast'" in lock({"a": info()}, channel="fast")[1]["a"]


def test_group_of_a_host(lock: Lock) -> None:
    document = lock({"a": info()})[0]
    group = group_of(document, "a")
    assert group
    assert group["driver"]["branch"] == 620
    assert group_of(document, "b") is None
    with pytest.raises(ValueError, match="no groups"):
        group_of({"schema": 1}, "a")
    with pytest.raises(ValueError, match="schema is 2, this version of the collection understands 1"):
        group_of({**document, "schema": 2}, "a")


def test_drift(lock: Lock) -> None:
    document = lock({"a": info()})[0]
    same = info(
        over={
            "cuda": {"toolkits": [{"version": "13.5.0", "path": "/usr/local/cuda-13.5", "origin": "package", "default": True}]},
            "containers": {"toolkit": {"version": "1.20.0", "packages": {}, "refresh_units": True}},
        }
    )
    assert drift(document, "a", same) == []
    other = info(
        driver="595.91.07",
        modules="proprietary",
        over={
            "cuda": {"toolkits": [{"version": "13.0.3", "path": "/usr/local/cuda-13.0", "origin": "package", "default": True}]},
            "containers": {"toolkit": {"version": "1.19.1", "packages": {}, "refresh_units": True}},
        },
    )
    found = drift(document, "a", other)
    assert ids(found) == ["lock.container_toolkit_drift", "lock.cuda_drift", "lock.driver_drift", "lock.kernel_modules_drift"]
    assert (only(found, "lock.driver_drift").found, only(found, "lock.driver_drift").needed) == ("595.91.07", "620.70.06")
    assert ids(drift(document, "b", same)) == ["lock.group_missing"]
    assert only(drift(document, "a", info(driver=None)), "lock.driver_drift").found == "none"
    on_disk = info(over={"driver": {"loaded": None}})
    assert drift(document, "a", on_disk) == []
    running = info()
    running["driver"]["loaded"]["version"] = "595.91.07"
    assert only(drift(document, "a", running), "lock.driver_drift").found == "595.91.07", "what runs counts, not what is installed"


# The action, without a connection: its own reading of hostvars, the file, check mode.
class Task:
    def __init__(self, args: dict[str, t.Any], check_mode: bool = False) -> None:
        self.args, self.check_mode, self.diff, self.async_val, self.action = args, check_mode, True, 0, "stack_lock"
        self.environment: list[t.Any] = []


def run_action(args: dict[str, t.Any], hosts: dict[str, t.Any], check_mode: bool = False) -> tuple[dict[str, t.Any], list[str]]:
    warnings: list[str] = []
    action = stack_lock.ActionModule.__new__(stack_lock.ActionModule)
    action._task = Task(args, check_mode)
    action._display = type("Display", (), {"warning": staticmethod(warnings.append)})()
    action._connection = type("Connection", (), {"_shell": type("Shell", (), {"tmpdir": "unused"})()})()
    action._templar = None
    facts = {
        name: {"ansible_facts": {_facts.FACT: _facts.collected({}, _facts.run_id(), document)} if document else {}}
        for name, document in hosts.items()
    }
    return action.run(task_vars={"hostvars": facts}), warnings


def test_the_action_writes_once(tmp_path: Path) -> None:
    path = tmp_path / "stack.lock.yml"
    args = {"path": str(path), "hosts": ["a", "b"], "engines": ["vllm"]}
    hosts = {"a": info(), "b": {}}
    predicted, warnings = run_action(args, hosts, check_mode=True)
    assert predicted["changed"]
    assert "h100_sxm@debian12" in predicted["diff"]["after"]
    assert not path.exists(), "check mode writes nothing"
    assert any("b is in no group" in text for text in warnings)

    written, _ = run_action(args, hosts)
    assert written["changed"]
    assert written["unresolved"] == {"b": "no facts were read from this host in this run"}
    document = yaml.safe_load(path.read_text())
    jsonschema.validate(document, SCHEMA)
    assert path.stat().st_mode & 0o777 == 0o644

    document["resolved_at"] = "2026-01-01"
    path.write_text(stack_lock.HEADER + "---\n" + yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True))
    again, _ = run_action(args, hosts)
    assert not again["changed"], "a lock that says the same keeps its date"


def test_the_action_ignores_facts_of_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "stack.lock.yml"
    real = _facts.run_id()
    answers = iter([real + "-yesterday"])
    monkeypatch.setattr(_facts, "run_id", lambda: next(answers, real))
    with pytest.raises(AnsibleActionFail, match="no facts were read"):
        run_action({"path": str(path), "hosts": ["a"]}, {"a": info()})
    assert not path.exists()


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"hosts": ["nobody"]}, "nobody, which is not in the inventory"),
        ({"hosts": ["a"], "engines": 5}, "expected a list of names"),
        ({"hosts": ["a"], "matrix_overlay": ["/nowhere.yml"]}, "cannot be read"),
        ({"hosts": ["a"], "stack": "guides-2024"}, "stays as it is"),
    ],
)
def test_the_action_says_what_is_wrong(tmp_path: Path, args: dict[str, t.Any], text: str) -> None:
    with pytest.raises(AnsibleActionFail, match=text):
        run_action({"path": str(tmp_path / "x.yml"), **args}, {"a": info()})


def test_a_lock_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AnsibleActionFail, match="could not be written"):
        run_action({"path": str(tmp_path / "file" / "x.yml"), "hosts": ["a"]}, {"a": info()})
