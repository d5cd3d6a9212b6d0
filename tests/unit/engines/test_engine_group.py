"""An instance over several hosts: order, health of the whole, what is restarted as one, and the interface of each member."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _interfaces
from ansible_collections.gpufleet.inference.plugins.module_utils._subprocess import Result
from ansible_collections.gpufleet.inference.plugins.plugin_utils import _engine_group as group
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_host import check_host
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_interface import placed, variables
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_job import Host
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_lifecycle import lifecycle
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_unit import units

from .conftest import FACTS, Reader

MEMBERS = [{"host": name, "address": f"10.0.0.{number}"} for number, name in enumerate("abc", 1)]
SERVER, RAY = "gpufleet-engine-chat.service", "gpufleet-engine-chat-ray.service"
KINDS: dict[str, dict[str, t.Any]] = {
    "mp": {"nodes": {"members": MEMBERS}},
    "ray": {"nodes": {"members": MEMBERS, "launcher": "ray"}},
    "sglang": {"engine": "sglang", "version": "0.5.23", "nodes": {"members": MEMBERS}},
    "mpi": {"engine": "tensorrt_llm", "version": "1.2.1", "nodes": {"members": MEMBERS}, "host": "10.0.0.1"},
}


def made(read: Reader, kind: str) -> tuple[dict[str, t.Any], t.Any]:
    instance = read.instance(**KINDS[kind])
    return instance, lifecycle(read.matrix, instance["engine"], instance["version"])


def shown(steps: list[group.Step]) -> str:
    return " ".join(f"{step.host}{'-' if step.verb == 'stop' else '+'}{'ray' if step.unit == RAY else ''}" for step in steps)


ORDER = {
    "mp": ("a+ b+ c+", "a- b- c-"),
    "ray": ("a+ray b+ray c+ray a+", "a- c-ray b-ray a-ray"),
    "sglang": ("a+ b+ c+", "a- b- c-"),
    "mpi": ("a+", "a-"),
}


@pytest.mark.parametrize("kind", ORDER)
def test_the_order_of_start_and_stop(read: Reader, kind: str) -> None:
    made_ = made(read, kind)
    assert (shown(group.start(*made_)), shown(group.stop(*made_))) == ORDER[kind]
    assert group.restart(*made_) == group.stop(*made_) + group.start(*made_)


@pytest.mark.parametrize("kind", ORDER)
def test_each_member_runs_the_units_that_are_rendered_for_it(read: Reader, kind: str) -> None:
    for member in group.members(*made(read, kind)):
        rendered = units(read.job(rank=member.rank, **KINDS[kind]), Host())
        assert {name for name in rendered if "watch" not in name} == set(member.units)


def test_on_a_single_host_there_is_no_group(read: Reader) -> None:
    instance = read.instance()
    life = lifecycle(read.matrix, "vllm", instance["version"])
    assert (group.members(instance, life), group.restart(instance, life)) == ([], [])


def active(*hosts: str, unit: str = SERVER) -> dict[str, t.Any]:
    return {host: {unit: {"active_state": "active", "result": "success"}} for host in hosts}


def test_a_group_is_well_only_with_all_its_units_and_a_completion(read: Reader) -> None:
    made_ = made(read, "mp")
    assert group.whole(*made_, active("a", "b", "c"), True) == []
    assert group.whole(*made_, active("a", "b", "c"), None) == ["the head was not asked for a completion"]
    assert group.whole(*made_, active("a", "b", "c"), False) == ["the head gives no completion"]
    failed = {**active("a"), "b": {SERVER: {"active_state": "failed", "result": "exit-code"}}, "c": {}}
    assert group.whole(*made_, failed, True) == [
        f"{SERVER} on b (rank 1) is failed (exit-code)",
        f"{SERVER} on c (rank 2) is not there",
    ]
    assert group.whole(*made_, active("a", "b"), True) == ["c (rank 2) was not read"]


def test_over_ray_each_member_counts_and_over_mpi_the_head_alone(read: Reader) -> None:
    ray = active("a", "b", "c", unit=RAY)
    assert group.whole(*made(read, "ray"), ray, True) == [f"{SERVER} on a (rank 0) is not there"]
    assert group.whole(*made(read, "mpi"), active("a"), True) == []


def test_hosts_that_share_an_instance_are_taken_together(read: Reader) -> None:
    def over(*hosts: str) -> dict[str, t.Any]:
        members = [{"host": host, "address": f"10.0.0.{number}"} for number, host in enumerate(hosts, 1)]
        return read.instance(nodes={"members": members})

    assert group.together("abcdef", [over("d", "b"), over("e", "f"), read.instance()]) == [["a"], ["b", "d"], ["c"], ["e", "f"]]
    assert group.together("abc", [over("a", "b"), over("b", "c")]) == [["a", "b", "c"]]
    assert group.together("ab", [over("a", "elsewhere")]) == [["a"], ["b"]]
    assert group.together([], []) == []


HOST = {"lo": ["127.0.0.1", "::1"], "eth0": ["192.0.2.7"], "ib0": ["10.0.0.2", "fe80::1"], "docker0": ["172.17.0.1"], "down": []}


def at(read: Reader, address: str, **nodes: t.Any) -> tuple[dict[str, t.Any], list[str]]:
    members = [{"host": "a", "address": "10.0.0.1"}, {"host": "b", "address": address}]
    instance, findings = placed(read.instance(nodes={"members": members, **nodes}), "b", HOST)
    return instance, [f"{one.message} {one.nearest}" for one in findings]


def test_the_interface_is_the_one_with_the_members_address(read: Reader) -> None:
    instance, wrong = at(read, "10.0.0.2")
    assert not wrong
    assert instance["nodes"]["interface"] == "ib0"
    assert read.instance()["nodes"] is None
    assert placed(instance, "elsewhere", HOST) == (instance, [])
    used, _findings = check_host([instance], FACTS)
    assert used


def test_an_address_that_no_interface_has_is_refused_with_those_there_are(read: Reader) -> None:
    _instance, (text,) = at(read, "10.0.0.22")
    assert "is the address of no interface of this host" in text
    assert "eth0 192.0.2.7" in text
    assert text.endswith("10.0.0.2")
    _instance, (text,) = at(read, "127.0.0.1")
    assert "not reached from other hosts" in text


def test_an_interface_of_the_site_must_have_the_address(read: Reader) -> None:
    assert at(read, "10.0.0.2", interface="=ib0")[0]["nodes"]["interface"] == "=ib0"
    assert at(read, "10.0.0.2", interface="^docker0,lo")[1] == []
    _instance, (text,) = at(read, "10.0.0.2", interface="eth0")
    assert "ib0 has it" in text


def test_a_name_needs_an_interface_beside_it(read: Reader) -> None:
    _instance, (text,) = at(read, "gpu-02.example.com")
    assert "nodes.interface" in text
    assert at(read, "gpu-02.example.com", interface="ib0")[1] == []


def test_nccl_and_gloo_are_told_in_their_own_words() -> None:
    assert variables("ib0") == variables("=ib0") == {"NCCL_SOCKET_IFNAME": "=ib0", "GLOO_SOCKET_IFNAME": "ib0"}
    assert variables("^docker0,lo") == {"NCCL_SOCKET_IFNAME": "^docker0,lo"}


def test_interfaces_are_read_from_iproute(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[{},{"ifname": "lo", "addr_info": [{"local": "127.0.0.1"}, {}]}, {"ifname": "eth0"}]'
    for result, wanted in (
        (Result("ok", 0, text, ""), {"lo": ["127.0.0.1"], "eth0": []}),
        (Result("missing", 127, "", "no ip"), {}),
        (Result("ok", 0, "eth0: up", ""), {}),
        (Result("ok", 0, '[{"name": 1}]', ""), {}),
    ):
        monkeypatch.setattr(_interfaces, "run", lambda *_args, _result=result, **_more: _result)
        assert _interfaces.read_interfaces() == wanted
