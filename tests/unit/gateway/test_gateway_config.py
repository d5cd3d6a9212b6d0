"""The text of the configuration: taken by HAProxy itself, without secrets, and refused input."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess
import typing as t

import jsonschema
import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils import _gateway_input
from ansible_collections.gpufleet.inference.plugins.plugin_utils._gateway_files import files
from ansible_collections.gpufleet.inference.plugins.plugin_utils._gateway_health import health_of
from ansible_collections.gpufleet.inference.plugins.plugin_utils._gateway_input import read
from ansible_collections.gpufleet.inference.plugins.plugin_utils._gateway_types import floor_of
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix

from .conftest import ENGINE_KEY, KEY, gateway, haproxies, places

MATRIX = load_matrix()


def server(number: int = 0, **more: t.Any) -> dict[str, t.Any]:
    where = {"host": f"gpu-{number}.example.com", "instance": "chat", "address": f"10.0.0.{number + 1}", "port": 8000}
    return {**where, "engine": "vllm", "version": "0.33.0", "models": ["org/chat"], **more}


def certificate(folder: pathlib.Path) -> str:
    path = folder / "both.pem"
    if not path.exists():
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=gateway", "-days", "2"]
        done = subprocess.run([*command, "-keyout", "-", "-out", "-"], capture_output=True, check=True)
        path.write_bytes(done.stdout)
    return str(path)


CASES: list[dict[str, t.Any]] = [
    {"backends": []},
    {"backends": [server()]},
    {"backends": [server(number, agent_port=9990) for number in range(3)], "floor": 2},
    {"backends": [server(0, pool="short"), server(1, pool="long", agent_port=9990)], "long_tokens": 8000},
    {"backends": [server(0), server(1, pool="short")], "long_tokens": 8000},
    {"backends": [server(0, models=["a", "b"]), server(1, models=["c/d:e@1+2"], engine="tensorrt_llm", version="1.2.1")]},
    {"backends": [server(0, api_key=ENGINE_KEY), server(1, api_key=ENGINE_KEY)], "requests_per_minute": 60},
    {"backends": [server(0, address="fd00::1"), server(1, address="gpu-1.example.com", host="localhost")], "retry_on": [], "queue_max": 0},
    {"backends": [server()], "keys": [], "open": True, "metrics_listen": "", "paths": ["/v1/"], "listen": ["127.0.0.1:80", "[::1]:80"]},
    {"backends": [server()], "certificate": "CERTIFICATE"},
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_haproxy_takes_it_without_a_warning(number: int, haproxy: str, tmp_path: pathlib.Path) -> None:
    desired = dict(CASES[number])
    if "certificate" in desired:
        desired["certificate"] = certificate(tmp_path)
    for backend in desired["backends"]:
        if backend["address"] == "gpu-1.example.com":  # a name that needs no name server
            backend["address"] = "localhost"
    where = places(tmp_path)
    for path, (text, _mode) in files(gateway(**desired), where).items():
        pathlib.Path(path).write_text(text)
    pathlib.Path(where.server_state).write_text("1\n# be_id be_name\n")
    for program in haproxies():
        done = subprocess.run([*program, "-c", "-f", where.config], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "WARNING" not in done.stderr
        assert "ALERT" not in done.stderr


def test_the_configuration_holds_no_secret(tmp_path: pathlib.Path) -> None:
    where = places(tmp_path)
    made = files(gateway(backends=[server(api_key=ENGINE_KEY)]), where)
    digest = hashlib.sha256(KEY.encode()).hexdigest().upper()
    config, clients, engine_keys = (made[path] for path in (where.config, where.clients, where.engine_keys))
    assert KEY not in "".join(text for text, _mode in made.values())
    assert ENGINE_KEY not in config[0]
    assert digest not in config[0]
    assert clients == (f"{digest} team-a\n", 0o600)
    assert config[1] == 0o640
    assert ENGINE_KEY in engine_keys[0]
    assert engine_keys[1] == 0o600
    assert ENGINE_KEY not in repr(gateway(backends=[server(api_key=ENGINE_KEY)]))
    assert digest not in repr(gateway(backends=[server()]))


def test_a_hashed_key_is_the_key(tmp_path: pathlib.Path) -> None:
    where = places(tmp_path)
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    assert files(gateway(backends=[], keys=[{"name": "team-a", "sha256": digest}]), where) == files(gateway(backends=[]), where)


def test_the_same_servers_in_another_order_are_the_same_text(tmp_path: pathlib.Path) -> None:
    servers = [server(number, models=["b", "a"] if number % 2 else ["a", "b"]) for number in range(4)]
    one, other = (files(gateway(backends=order), places(tmp_path)) for order in (servers, servers[::-1]))
    assert one[places(tmp_path).clients] == other[places(tmp_path).clients]
    assert one == other


def found(**desired: t.Any) -> list[str]:
    made, findings = read({"keys": [{"name": "team-a", "key": KEY}], "backends": [server()], **desired}, MATRIX)
    assert bool(findings) == (made is None)
    assert all(finding.severity == "block" and finding.fix and finding.subject for finding in findings)
    text = " ".join(str(finding.to_dict()) for finding in findings)
    assert KEY not in text
    assert ENGINE_KEY not in text
    return [finding.message for finding in findings]


WRONG: list[tuple[dict[str, t.Any], str]] = [
    ({"backends": [server(), server()]}, "host and instance"),
    ({"backends": [server(), server(1, address="10.0.0.1")]}, "address and port"),
    ({"backends": [server(api_key=ENGINE_KEY), server(1)]}, "one api_key for all servers"),
    ({"backends": [server(models=["a", "b"]), server(1, models=["b"])]}, "b, served as a, b and as b"),
    ({"backends": [server(models=["a/b"]), server(1, models=["a_b"])]}, "a_b.default"),
    ({"backends": [server(pool="short"), server(1, pool="long")]}, "gpu_gateway_long_tokens 0"),
    ({"backends": [server(pool="medium")], "long_tokens": 10}, "pool medium"),
    ({"backends": [server(engine="vlm")]}, "did you mean vllm"),
    ({"backends": [server(models=["a b"])]}, "backends[0].models[0]"),
    ({"backends": [server(models=["a'b"])]}, "backends[0].models[0]"),
    ({"backends": [server(address="10.0.0.1 maxconn 1")]}, "backends[0].address"),
    ({"backends": [server(host="a\nb")]}, "backends[0].host"),
    ({"backends": [{"host": "a"}]}, "backends[0].instance is missing"),
    ({"backends": [server(api_key="a b " + ENGINE_KEY)]}, "backends[0].api_key"),
    ({"backends": "all"}, "'all' is not a list"),
    ({"keys": []}, "gpu_gateway_keys is empty"),
    ({"open": True}, "gpu_gateway_open is true although"),
    ({"keys": [{"name": "a", "key": "short"}]}, "keys[0].key is a text of 5 characters"),
    ({"keys": [{"name": "a", "key": 12345678901234567890}]}, "keys[0].key"),
    ({"keys": [{"name": "a"}]}, "a, with neither"),
    ({"keys": [{"name": "a", "key": KEY, "sha256": "0" * 64}]}, "a, with both"),
    ({"keys": [{"name": "a", "sha256": "xyz"}]}, "keys[0].sha256"),
    ({"keys": [{"name": "a", "key": KEY}, {"name": "a", "key": KEY + "2"}]}, "another client has it"),
    ({"keys": [{"name": "a", "key": KEY}, {"name": "b", "key": KEY}]}, "b, with the key of a"),
    ({"keys": [{"name": "a b", "key": KEY}]}, "keys[0].name"),
    ({"long_tokens": 100_000}, "at most what gpu_gateway_buffer_bytes shows"),
    ({"listen": ["8443"]}, "listen[0]"),
    ({"listen": ["*:0"]}, "a port from 1 to 65535"),
    ({"listen": ["*:8404"]}, "another port than"),
    ({"paths": ["v1"]}, "paths[0]"),
    ({"retry_on": ["all-retryable-errors"]}, "retry_on[0]"),
    ({"floor": "half"}, "floor"),
    ({"certificate": "cert.pem"}, "certificate"),
    ({"queue_secs": 3}, "did you mean queue_seconds"),
    ({"requests_per_minute": "60"}, "requests_per_minute"),
]


@pytest.mark.parametrize(("desired", "said"), WRONG, ids=[said for _desired, said in WRONG])
def test_wrong_input_is_named(desired: dict[str, t.Any], said: str) -> None:
    messages = found(**desired)
    assert any(said in message for message in messages), messages
    assert all(message.startswith("gpu_gateway_") for message in messages), messages


def test_all_that_is_wrong_is_said_at_once() -> None:
    assert len(found(keys=[{"name": "a", "key": "short"}], backends=[server(), server()], listen=["*:0"])) >= 4


@pytest.mark.parametrize("text", ["'", '"', "\\", "#", "%[src]", "${HOME}", "\n", " ", ";"])
def test_nothing_of_the_input_becomes_configuration(text: str) -> None:
    """Every text that reaches the file is closed by its pattern."""
    for where in ("host", "address", "failure_domain", "pool", "instance"):
        assert found(backends=[server(**{where: f"a{text}b"})]), where
    assert found(backends=[server(models=[f"a{text}b"])])
    assert found(keys=[{"name": f"a{text}b", "key": KEY}])
    for name, value in (
        ("listen", [f"*:80{text}"]),
        ("metrics_listen", f"*:80{text}"),
        ("paths", [f"/v1{text}"]),
        ("certificate", f"/a{text}b"),
    ):
        assert found(**{name: value}), name


def test_health_is_asked_as_the_engine_answers_it() -> None:
    assert health_of(MATRIX, "vllm", "0.33.0") == ("/health", 10)
    assert health_of(MATRIX, "sglang", "0.5.23") == ("/ready", 10)
    assert health_of(MATRIX, "sglang", "0.5.10") == ("/health", 25)
    assert health_of(MATRIX, "tensorrt_llm", "1.2.1")[0] == "/health"
    assert health_of(MATRIX, "vllm", "") == ("/health", 10)


def test_engines_that_differ_are_asked_what_all_have(tmp_path: pathlib.Path) -> None:
    mixed = [server(0), server(1, engine="sglang", version="0.5.23")]
    text = files(gateway(backends=mixed), places(tmp_path))[places(tmp_path).config][0]
    assert "uri /health " in text
    assert "uri /ready " not in text


@pytest.mark.parametrize(
    ("floor", "size", "stays"), [("50%", 3, 2), ("50%", 4, 2), ("0%", 4, 0), ("100%", 3, 3), (1, 4, 1), (9, 4, 4), ("50%", 0, 0)]
)
def test_floor(floor: int | str, size: int, stays: int) -> None:
    assert floor_of(floor, size) == stays


def test_the_schema_is_one() -> None:
    schema = _gateway_input.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert set(schema["properties"]) - {"keys", "backends", "floor"} <= set(vars(gateway(backends=[])))
