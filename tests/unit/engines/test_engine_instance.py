"""Instances: what is refused and by which name, defaults, and several on one host."""

from __future__ import annotations

import json
import typing as t

import jsonschema
import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils import _engine_host, _engine_instance
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix import evaluate
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_model import Matrix

from .conftest import FACTS, MIG, UUID, Reader, context, spec

REFUSED: list[tuple[dict[str, t.Any], str, str, str | None]] = [
    # what is set, subject, in the message, nearest
    ({"engine": "vlm"}, "chat.engine", "did you mean vllm", "vllm"),
    ({"prot": 8000}, "chat.prot", "did you mean port", "port"),
    ({"port": 80000}, "chat.port", "not between 1 and 65535", None),
    ({"port": "8000x"}, "chat.port", "not a whole number", None),
    ({"name": "Chat One"}, "Chat One.name", "does not have the form", None),
    ({"version": "latest"}, "chat.version", "does not have the form", None),
    ({"version": "0.33.0\n"}, "chat.version", "does not have the form", None),
    ({"model": "/srv/m\n"}, "chat.model", "does not have the form", None),
    ({"gpus": ["0-3"]}, "chat.gpus[0]", "does not have the form", None),
    ({"gpus": "some"}, "chat.gpus", "does not have the form", None),
    ({"drain_seconds": 0}, "chat.drain_seconds", "not between", None),
    ({"workload": "chat"}, "chat.workload", "is none of", None),
    ({"runtime": "podman", "version": "0.32.9"}, "chat.image", "is needed", None),
    ({"image": "vllm/vllm-openai:v0.33.0"}, "chat.image", "only with runtime docker or podman", "runtime: podman"),
    ({"config": {"a": 1}}, "chat.config", "TensorRT-LLM only", "args"),
    ({"engine": "tensorrt_llm", "version": "1.2.1", "api_key": "hunter2"}, "chat.api_key", "has no API keys", None),
    ({"engine": "sglang", "version": "0.5.2", "api_key": "hunter2"}, "chat.api_key", "in the process list", "SGLang 0.5.3 or newer"),
    ({"nodes": {"members": [{"host": "a", "address": "10.0.0.1"}]}}, "chat.nodes.members", "must", None),
    (
        {"nodes": {"launcher": "sglang", "members": [{"host": "a", "address": "10.0.0.1"}, {"host": "b", "address": "10.0.0.2"}]}},
        "chat.nodes.launcher",
        "it has mp or ray",
        "mp",
    ),
    (
        {"nodes": {"members": [{"host": "a", "address": "10.0.0.1"}, {"host": "a", "address": "10.0.0.2"}]}},
        "chat.nodes.members",
        "name one host twice",
        None,
    ),
]


@pytest.mark.parametrize(
    ("over", "subject", "text", "nearest"), REFUSED, ids=[f"{row[1]} {list(row[0].values())[-1]}"[:60] for row in REFUSED]
)
def test_refused(read: Reader, over: dict[str, t.Any], subject: str, text: str, nearest: str | None) -> None:
    found = read.found(**over)
    assert [(item.id, item.severity) for item in found] == [("engine.bad_input", "block")]
    assert found[0].subject == subject
    assert text in found[0].message
    assert subject in found[0].fix
    assert found[0].nearest == nearest
    assert "hunter2" not in str(found[0].to_dict())


@pytest.mark.parametrize("key", ["engine", "model", "version"])
def test_a_missing_key_is_named(matrix: Matrix, key: str) -> None:
    without = {name: value for name, value in spec().items() if name != key}
    instance, found = _engine_instance.read(without, matrix, context())
    assert instance is None
    assert [item.subject for item in found] == [f"chat.{key}"]


@pytest.mark.parametrize("what", [None, "chat", 3, ["chat"]])
def test_what_is_no_mapping_is_said(matrix: Matrix, what: t.Any) -> None:
    instance, (found,) = _engine_instance.read(what, matrix, context())
    assert instance is None
    assert "no mapping" in found.message


def test_a_secret_of_the_wrong_type_is_not_shown(read: Reader) -> None:
    assert "hunter2" not in str([item.to_dict() for item in read.found(api_key="hunter2", prot=1, hf_token="hunter2")])


def test_defaults_depend_on_engine_release_and_runtime(read: Reader) -> None:
    vllm, sglang = read.instance(), read.instance(engine="sglang", version="0.5.23", model="org/model", runtime="docker")
    assert (vllm["port"], sglang["port"]) == (8000, 30000)
    assert (vllm["offline"], sglang["offline"]) == (True, False)
    assert vllm["venv"].endswith("/vllm/0.33.0")
    assert vllm["image"] is None
    assert sglang["image"] == "lmsysorg/sglang:v0.5.23"
    assert vllm["host"] == sglang["host"] == "127.0.0.1"


def test_a_normalised_instance_is_valid_and_stays_the_same(read: Reader, matrix: Matrix) -> None:
    first = read.instance(args={"max-model-len": 8}, env={"NCCL_DEBUG": "INFO"}, api_key="k")
    jsonschema.validate({key: value for key, value in first.items() if value is not None}, _engine_instance.schema())
    again, found = _engine_instance.read({key: value for key, value in first.items() if value is not None}, matrix, context())
    assert (again, found) == (first, [])


def test_the_schema_uses_only_what_the_own_reader_knows() -> None:
    known = {
        "type",
        "enum",
        "pattern",
        "minLength",
        "minimum",
        "maximum",
        "items",
        "minItems",
        "properties",
        "additionalProperties",
        "required",
    }
    jsonschema.Draft202012Validator.check_schema(_engine_instance.schema())
    text = json.dumps(_engine_instance.schema())
    assert not [word for word in ("oneOf", "anyOf", "$ref", "const", "maxItems", "propertyNames") if f'"{word}"' in text], known


def host(read: Reader, *over: dict[str, t.Any]) -> list[t.Any]:
    return _engine_host.check_host([read.instance(**one) for one in over], FACTS)[1]


def test_instances_that_share_nothing_are_fine(read: Reader) -> None:
    assert host(read, {}, {"name": "b", "engine": "sglang", "version": "0.5.23", "gpus": [UUID.format(1), MIG]}) == []
    assert host(read, {}, {"name": "b", "gpus": [1], "host": "10.0.0.1"}) == [], "one port on two addresses"


CLASHES = [
    ({"gpus": [1], "port": 8001}, "chat.name", "two instances"),
    ({"name": "b", "gpus": [1]}, "b.port", "chat's port too"),
    ({"name": "b", "gpus": [1], "host": "0.0.0.0"}, "b.port", "chat's port too"),
    ({"name": "b", "engine": "sglang", "version": "0.5.23", "gpus": [UUID.format(0)]}, "b.gpus", "used by chat as well"),
    ({"name": "b", "port": 1, "gpus": "all"}, "b.gpus", "used by chat as well"),
    ({"name": "b", "port": 1, "gpus": [9]}, "b.gpus", "is no GPU of this host"),
    ({"name": "b", "port": 1, "gpus": [1, UUID.format(1)]}, "b.gpus", "is there twice"),
    ({"name": "b", "port": 1, "gpus": [3]}, "b.gpus", "name its MIG devices"),
    ({"name": "b", "port": 1, "gpus": [1], "parallel": {"tensor_parallel_size": 2}}, "b.parallel", "is 2 ranks"),
]


@pytest.mark.parametrize(("other", "subject", "text"), CLASHES, ids=[f"{row[1]}: {row[2]}" for row in CLASHES])
def test_clashes_on_a_host(read: Reader, other: dict[str, t.Any], subject: str, text: str) -> None:
    (found,) = host(read, {}, other)
    assert (found.severity, found.subject) == ("block", subject)
    assert text in found.message


def test_a_wrong_gpu_names_the_nearest(read: Reader) -> None:
    (found,) = host(read, {"gpus": [UUID.format(0).replace("-0000-", "-0001-", 1)]})
    assert (found.nearest or "").startswith("GPU-")
    assert UUID.format(1) in found.message


def test_the_gate_judges_instances(read: Reader, matrix: Matrix) -> None:
    instance = read.instance(version="0.33.0", args={"max-model-len": 1})
    stack = {"engines": _engine_host.stack([{**instance, "image": "vllm/vllm-openai:v0.32.0", "runtime": "docker"}])}
    assert "engine.image_mismatch" in {item.id for item in evaluate(matrix, FACTS, stack, context())}
    unknown = {"engines": _engine_host.stack([{**instance, "version": "0.99.0"}])}
    found = [item for item in evaluate(matrix, FACTS, unknown, context()) if item.id == "engine.version_unknown"]
    assert found
    assert "0.33.0" in (found[0].nearest or "")
