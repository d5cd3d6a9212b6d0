"""What a client sees, and what the host shows of keys."""

from __future__ import annotations

import json
from typing import Any

CLIENT, ENGINE = "a-key-of-the-first-client", "a-key-of-both-engines"
BODY = json.dumps({"model": "chat", "prompt": "The capital of France is", "max_tokens": 4})


def ask(host: Any, path: str, key: str, body: str = BODY) -> tuple[int, str]:
    command = "curl -s --path-as-is -m 10 -w '\\n%%{http_code}' -H %s -H 'Content-Type: application/json' -d %s http://127.0.0.1:8443%s"
    answer = host.run(command, f"Authorization: Bearer {key}", body, path)
    text, _, status = answer.stdout.rpartition("\n")
    return int(status), text


def test_a_second_run_was_quiet(host_tasks: dict[str, int], action_log: Any) -> None:
    assert host_tasks["total"] <= 4
    assert action_log() == []


def test_a_request_is_answered(host: Any) -> None:
    status, text = ask(host, "/v1/completions", CLIENT)
    assert (status, json.loads(text)["choices"][0]["text"]) == (200, " Paris. It lies")


def test_a_stream_comes_in_pieces(host: Any) -> None:
    body = json.dumps({**json.loads(BODY), "stream": True})
    status, text = ask(host, "/v1/completions", CLIENT, body)
    assert (status, text.count("data: {") > 3, "[DONE]" in text) == (200, True, True)


def test_a_wrong_key_and_the_engines_own_are_refused(host: Any) -> None:
    assert [ask(host, "/v1/completions", key)[0] for key in ("wrong-key-of-somebody", ENGINE)] == [401, 401]


def test_a_path_that_no_client_needs_is_refused(host: Any) -> None:
    assert ask(host, "/metrics", CLIENT)[0] == 403
    assert ask(host, "/v1/../metrics", CLIENT)[0] == 403


def test_an_unknown_model_is_named(host: Any) -> None:
    status, text = ask(host, "/v1/completions", CLIENT, BODY.replace("chat", "other"))
    assert status == 404
    assert "model_not_found" in text


def test_the_engine_that_is_left_serves(host: Any) -> None:
    host.check_output("sudo systemctl stop chat-a.service")
    try:
        assert [ask(host, "/v1/completions", CLIENT)[0] for _ in range(8)] == [200] * 8
    finally:
        host.check_output("sudo systemctl start chat-a.service")


def test_keys_are_read_by_root_alone_and_the_client_s_is_not_there(host: Any) -> None:
    assert host.run("sudo grep -rqF %s /etc/haproxy /var/lib/gpufleet", CLIENT).rc == 1
    assert host.run("sudo grep -rqF %s /etc/haproxy", ENGINE).rc == 0
    modes = host.check_output("sudo stat -c '%a %U' /etc/haproxy/gpufleet/clients.map /etc/haproxy/gpufleet/engine_keys.map")
    assert set(modes.splitlines()) == {"600 root"}
