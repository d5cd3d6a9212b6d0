"""What a client of the real vLLM sees, and what nobody sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

URL = "http://127.0.0.1:8000"
KEY = "lab-secret-key"


def ask(host: Any, path: str, body: dict[str, Any], key: str = KEY) -> str:
    words = f"-H 'Authorization: Bearer {key}'" if key else ""
    done = host.run(
        f"for i in $(seq 90); do curl -sf {URL}/health && break; sleep 2; done; "
        f"curl -sN -w '\\n%{{http_code}}' {words} -H 'Content-Type: application/json' {URL}{path} -d '{json.dumps(body)}'"
    )
    assert done.rc == 0, done.stderr
    return str(done.stdout)


CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "temperature": 0, "ignore_eos": True}


def test_chat(host: Any) -> None:
    body, _newline, status = ask(host, "/v1/chat/completions", CHAT).rpartition("\n")
    assert status == "200", body
    answer = json.loads(body)
    assert answer["usage"]["completion_tokens"] == 8


def test_a_stream_says_what_the_whole_answer_says(host: Any) -> None:
    whole = json.loads(ask(host, "/v1/chat/completions", CHAT).rpartition("\n")[0])["choices"][0]["message"]["content"]
    lines = ask(host, "/v1/chat/completions", {**CHAT, "stream": True}).splitlines()
    parts = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    assert "data: [DONE]" in lines
    assert len(parts) > 2
    assert "".join(part["choices"][0]["delta"].get("content") or "" for part in parts if part["choices"]) == whole


def test_without_the_key_there_is_no_answer(host: Any) -> None:
    assert ask(host, "/v1/chat/completions", CHAT, key="").endswith("\n401")
    assert ask(host, "/v1/chat/completions", CHAT, key="wrong").endswith("\n401")


def test_the_key_is_seen_nowhere(host: Any) -> None:
    with host.sudo():
        assert KEY not in host.run("ps axww -o args").stdout
        assert KEY not in host.run("systemctl cat gpufleet-engine-tiny.service").stdout
        assert host.run(f"grep -r {KEY} /proc/$(systemctl show -P MainPID gpufleet-engine-tiny.service)/environ").rc != 0


def test_the_second_run_changed_nothing(action_log: Callable[..., list[Any]]) -> None:
    assert action_log() == []


def test_the_venv_is_not_writable_for_the_engine(host: Any) -> None:
    with host.sudo():
        assert host.run("su -s /bin/sh gpufleet-engine -c 'touch /opt/gpufleet/engines/vllm/0.31.0/bin/x'").rc != 0
