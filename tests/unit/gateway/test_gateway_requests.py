"""Requests through a real HAProxy with the rendered configuration: who may ask what, and who answers."""

from __future__ import annotations

import json
import threading
import time
import typing as t
import urllib.request

import pytest
from engine_server import EngineServer

from .conftest import ENGINE_KEY, KEY, Start, backend

Engines = t.Callable[..., EngineServer]


def asked(engine: EngineServer) -> int:
    return len([call for call in engine.calls if call.startswith("/v1/")])


def test_a_request_is_answered_with_the_engines_own_key(start: Start, engines: Engines) -> None:
    engine = engines(key=ENGINE_KEY)
    running = start(backends=[backend(engine, api_key=ENGINE_KEY)])
    assert running.completion().status == 200
    engine.key = "another"
    assert running.completion().status == 401, "the engine sees the key that the gateway adds, not the client's"


@pytest.mark.parametrize("headers", [{}, {"x-api-key": KEY}])
def test_the_clients_key_ends_at_the_gateway(start: Start, engines: Engines, headers: dict[str, str]) -> None:
    engine = engines(key=KEY)
    running = start(backends=[backend(engine)])
    assert running.request(body={"model": "chat"}, **headers).status == 401, "the engine would have taken the client's own key"


@pytest.mark.parametrize(
    "path",
    ["/metrics", "/invocations", "/v1/load_lora_adapter", "/v1/../metrics", "/v1/completions/..", "/v1/%63ompletions", "//v1/completions"],
)
def test_other_paths_do_not_pass(start: Start, engines: Engines, path: str) -> None:
    engine = engines()
    running = start(backends=[backend(engine)])
    answer = running.request(path, {"model": "chat"})
    assert (answer.status, answer.error["type"]) == (403, "path_not_allowed")
    assert asked(engine) == 0


def test_a_prefix_passes_what_is_below_it_but_no_way_out(start: Start, engines: Engines) -> None:
    engine = engines()
    running = start(backends=[backend(engine)], paths=["/v1/"])
    assert running.completion().status == 200
    assert running.request("/v1/../metrics", {"model": "chat"}).status == 403
    assert running.request("/v2/completions", {"model": "chat"}).status == 403


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer " + KEY + "x"}, {"Authorization": KEY}, {"Authorization": "Basic " + KEY}, {"x-api-key": "no"}],
)
def test_without_a_valid_key_nothing_is_asked(start: Start, engines: Engines, headers: dict[str, str]) -> None:
    engine = engines()
    running = start(backends=[backend(engine)])
    answer = running.request(body={"model": "chat"}, key="", **headers)
    assert (answer.status, answer.error["type"]) == (401, "invalid_api_key")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert asked(engine) == 0


@pytest.mark.parametrize("headers", [{"Authorization": "bearer  " + KEY}, {"x-api-key": KEY}])
def test_a_key_is_taken_in_the_forms_that_clients_send(start: Start, engines: Engines, headers: dict[str, str]) -> None:
    running = start(backends=[backend(engines())])
    assert running.request(body={"model": "chat"}, key="", **headers).status == 200


def test_an_open_gateway_asks_for_no_key(start: Start, engines: Engines) -> None:
    running = start(backends=[backend(engines())], keys=[], open=True)
    assert running.request(body={"model": "chat"}, key="").status == 200


def test_models_lead_to_their_servers(start: Start, engines: Engines) -> None:
    chat, code = engines("org/chat"), engines("code")
    running = start(backends=[backend(chat), backend(code, 1)])
    assert running.completion("org/chat").status == 200
    assert running.completion("code").status == 200
    assert (asked(chat), asked(code)) == (1, 1)
    unknown = running.completion("other")
    assert (unknown.status, unknown.error["type"]) == (404, "model_not_found")
    missing = running.request(body={"prompt": "hi"})
    assert (missing.status, missing.error["type"]) == (400, "model_missing")
    listed = json.loads(running.request("/v1/models").body)
    assert [item["id"] for item in listed["data"]] == ["code", "org/chat"]


def test_a_model_named_after_a_long_prompt_is_still_seen(start: Start, engines: Engines) -> None:
    """Some clients write the messages first."""
    chat, code = engines("chat"), engines("code")
    running = start(backends=[backend(chat), backend(code, 1)])
    late = {"prompt": "x" * 200_000, "max_tokens": 1, "model": "code"}
    assert running.request(body=late).status == 200
    assert (asked(chat), asked(code)) == (0, 1)
    late["prompt"] = "x" * 400_000
    answer = running.request(body=late)
    assert (answer.status, answer.error["type"]) == (400, "model_missing"), "named beyond the buffer: refused, not sent to the wrong model"


@pytest.mark.parametrize("chunked", [False, True])
def test_long_requests_go_to_their_pool(start: Start, engines: Engines, chunked: bool) -> None:
    short, long = engines(), engines()
    running = start(backends=[backend(short, pool="short"), backend(long, 1, pool="long")], long_tokens=1000, bytes_per_token=4)
    for size in (100, 3900, 4100, 100_000):
        body = json.dumps({"model": "chat", "max_tokens": 1, "prompt": "x" * size}).encode()
        connection = running.connect()
        head = {"Authorization": f"Bearer {KEY}"}
        sent: t.Any = (body[start_at : start_at + 1000] for start_at in range(0, len(body), 1000)) if chunked else body
        connection.request("POST", "/v1/completions", sent, head, encode_chunked=chunked)
        # The stand-in reads no chunked bodies: where it was sent is what counts.
        status = connection.getresponse().status
        assert status == (200 if not chunked else 404), size
        connection.close()
    assert (asked(short), asked(long)) == (2, 2)


def test_short_requests_go_to_long_servers_when_theirs_are_gone(start: Start, engines: Engines) -> None:
    short, long = engines(), engines()
    running = start(backends=[backend(short, pool="short"), backend(long, 1, pool="long")], long_tokens=1000)
    running.ask("set server chat.short/gpu-0_chat state maint")
    assert running.completion().status == 200
    assert (asked(short), asked(long)) == (0, 1)


def test_tokens_leave_as_they_come(start: Start, engines: Engines) -> None:
    engine = engines()
    engine.script = {"delay": 0.15}
    running = start(backends=[backend(engine)])
    connection = running.connect()
    body = json.dumps({"model": "chat", "stream": True, "max_tokens": 6})
    connection.request("POST", "/v1/completions", body, {"Authorization": f"Bearer {KEY}"})
    response = connection.getresponse()
    times = []
    for line in response:
        if line.startswith(b"data:"):
            times.append(time.monotonic())
    gaps = [later - earlier for earlier, later in zip(times, times[1:6])]
    assert len(times) == 8
    assert min(gaps) > 0.05, f"events came together: {gaps}"


def test_a_full_queue_says_so(start: Start, engines: Engines) -> None:
    engine = engines()
    engine.script = {"delay": 0.25}
    running = start(backends=[backend(engine, maxconn=1)], queue_max=1)
    answers: list[t.Any] = []
    threads = []
    for count in range(4):
        thread = threading.Thread(target=lambda: answers.append(running.completion()))
        thread.start()
        threads.append(thread)
        if count == 0:
            running.wait(lambda: running.stat("chat.default", "gpu-0_chat", "scur") == "1", "one at work")
        elif count == 1:
            running.wait(lambda: running.stat("chat.default", "BACKEND", "qcur") == "1", "one in the queue")
    for thread in threads:
        thread.join()
    assert sorted(answer.status for answer in answers) == [200, 200, 503, 503]
    full = next(answer for answer in answers if answer.status == 503)
    assert full.error["type"] == "queue_full"
    assert full.headers["retry-after"] == "5"


def test_a_wait_in_the_queue_ends(start: Start, engines: Engines) -> None:
    engine = engines()
    engine.script = {"delay": 0.6}
    running = start(backends=[backend(engine, maxconn=1)], queue_seconds=1)
    thread = threading.Thread(target=running.completion)
    thread.start()
    running.wait(lambda: running.stat("chat.default", "gpu-0_chat", "scur") == "1", "the first request")
    answer = running.completion()
    thread.join()
    assert (answer.status, answer.error["type"]) == (503, "unavailable")


def test_a_failed_server_costs_no_request(start: Start, engines: Engines) -> None:
    """A vLLM that was told to stop answers 500, a full one 503: the other server is asked."""
    good, bad = engines(), engines()
    running = start(backends=[backend(good), backend(bad, 1)])
    for script in ({"status": 500}, {"status": 503}):
        bad.script = script
        assert [running.completion().status for _number in range(4)] == [200] * 4


def test_what_a_client_did_wrong_is_its_own(start: Start, engines: Engines) -> None:
    good, other = engines(), engines()
    good.script = other.script = {"status": 400}
    running = start(backends=[backend(good), backend(other, 1)])
    assert running.completion().status == 400
    assert asked(good) + asked(other) == 1


def test_more_than_a_client_may_send(start: Start, engines: Engines) -> None:
    other = "team-b-secret-key-0002"
    keys = [{"name": "team-a", "key": KEY, "requests_per_minute": 2}, {"name": "team-b", "key": other}]
    running = start(backends=[backend(engines())], keys=keys, requests_per_minute=4)
    statuses = [running.completion().status for _number in range(4)]
    assert statuses == [200, 200, 429, 429]
    assert [running.request(body={"model": "chat"}, key=other).status for _number in range(5)] == [200] * 4 + [429]


def test_too_large_is_refused_before_it_is_read(start: Start, engines: Engines) -> None:
    engine = engines()
    running = start(backends=[backend(engine)], body_bytes_max=2048)
    answer = running.completion(prompt="x" * 3000)
    assert (answer.status, answer.error["type"]) == (413, "request_too_large")
    assert asked(engine) == 0


def test_ready_means_every_model_has_a_server(start: Start, engines: Engines) -> None:
    running = start(backends=[backend(engines()), backend(engines("code"), 1)])
    assert running.request("/readyz", key="").status == 200
    running.ask("set server code.default/gpu-1_chat state maint")
    assert running.request("/readyz", key="").status == 503


def test_an_engine_that_is_not_ready_gets_nothing(start: Start, engines: Engines) -> None:
    good, sick = engines(), engines()
    sick.script = {"health": 503}
    running = start(quick=True, backends=[backend(good), backend(sick, 1)])
    running.wait(lambda: running.stat("chat.default", "gpu-1_chat", "status") == "DOWN", "the check")
    assert [running.completion().status for _number in range(4)] == [200] * 4
    assert asked(sick) == 0


def test_metrics(start: Start, engines: Engines) -> None:
    running = start(backends=[backend(engines())])
    running.completion()
    with urllib.request.urlopen(f"http://127.0.0.1:{running.metrics_port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    assert 'haproxy_server_http_responses_total{proxy="chat.default",server="gpu-0_chat",code="2xx"} 1' in text
    assert running.request("/metrics").status == 403
