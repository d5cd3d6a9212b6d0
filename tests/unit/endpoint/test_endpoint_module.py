"""The module as Ansible runs it, on the system's and on the oldest Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from engine_server import EngineServer

PYTHONS = ["/usr/bin/python3", *map(str, sorted(Path("~/.pyenv/versions").expanduser().glob("3.9.*/bin/python3")))]


def run(python: str, **options: t.Any) -> dict[str, t.Any]:
    """One task on localhost; its result."""
    command = [sys.executable, "-m", "ansible", "adhoc", "localhost", "-m", "gpufleet.inference.endpoint_check", "-a", json.dumps(options)]
    command += ["-e", f"ansible_python_interpreter={python}", "-c", "local"]
    env = {**os.environ, "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1", "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.oneline", "NO_COLOR": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)
    return {"failed": done.returncode != 0, **json.loads(done.stdout[done.stdout.index("{") :].splitlines()[0])}


@pytest.mark.parametrize("python", PYTHONS)
def test_an_endpoint_that_answers(engine: EngineServer, tmp_path: Path, python: str) -> None:
    engine.key = "secret"
    key = tmp_path / "key"
    key.write_text("secret\n")
    found = run(python, url=engine.url, model="chat", checks=["chat", "stream"], api_key_file=str(key), expect="Paris")
    assert (found["state"], found["changed"], found["models"]) == ("ready", False, ["chat"])
    assert found["checks"]["stream"]["tokens"] == 8


def test_what_the_engine_says_of_its_cache_comes_with_the_answer(engine: EngineServer) -> None:
    engine.script = {"metrics": 'vllm:cache_config_info{block_size="16",num_gpu_blocks="10",kv_cache_size_tokens="160"} 1.0\n'}
    found = run(PYTHONS[0], url=engine.url, metrics="/metrics")
    assert (found["cache"]["engine"], found["cache"]["tokens"], found["cache"]["blocks"]) == ("vllm", 160, 10)
    engine.script = {}
    assert run(PYTHONS[0], url=engine.url, metrics="/metrics")["cache"] == {}
    assert "cache" not in run(PYTHONS[0], url=engine.url)


def test_one_that_does_not(engine: EngineServer) -> None:
    engine.key = "secret"
    found = run(PYTHONS[0], url=engine.url, api_key="not-it", timeout=0)
    assert (found["failed"], found["state"]) == (True, "wrong")
    assert "the API key is not accepted" in found["msg"]
    assert "not-it" not in json.dumps(found)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"url": "localhost:8000"}, "expected http or https"),
        ({"expect": "("}, "no regular expression"),
        ({"max_tokens": 0}, "expected 1 to 4096"),
        ({"metrics": "metrics"}, "expected a path such as /metrics"),
        ({"metrics": "/nothing"}, "/nothing answers 404"),
        ({"api_key_file": "/nonexistent"}, "which is not there"),
        ({"url": "http://127.0.0.1:1"}, "refuses connections"),
    ],
)
def test_input_that_cannot_be_used(engine: EngineServer, options: dict[str, t.Any], word: str) -> None:
    found = run(PYTHONS[0], **{"url": engine.url, "timeout": 0, **options})
    assert found["failed"]
    assert word in found["msg"]
