"""Engines as their clients and an attacker on the host see them."""

from __future__ import annotations

import json
from typing import Any

import pytest

KEY = "lab-secret-key"
PORTS = {"chat": 8000, "small": 8010, "fast": 30000, "deep": 8020}


def ask(host: Any, name: str, key: str = "") -> tuple[int, str]:
    body = json.dumps({"model": "tiny", "prompt": "The capital of France is", "max_tokens": 3})
    header = f"-H 'Authorization: Bearer {key}'" if key else ""
    url = f"http://127.0.0.1:{PORTS[name]}/v1/completions"
    out = host.check_output(f"curl -s -w '\\n%{{http_code}}' {header} -H 'Content-Type: application/json' -d '{body}' {url}")
    text, _newline, status = out.rpartition("\n")
    return int(status), text


@pytest.mark.parametrize(("name", "key"), [("chat", KEY), ("small", ""), ("fast", KEY), ("deep", "")])
def test_each_answers(host: Any, name: str, key: str) -> None:
    status, text = ask(host, name, key)
    assert (status, json.loads(text)["choices"][0]["text"]) == (200, " Paris. It")


@pytest.mark.parametrize("name", ["chat", "fast"])
def test_keys_are_asked_for(host: Any, name: str) -> None:
    assert ask(host, name)[0] == 401
    assert ask(host, name, "another")[0] == 401


def test_the_key_is_only_in_files_of_root(host: Any) -> None:
    # sudo logs this very command: its pattern must not match itself
    pattern = KEY.replace("-secret-", "-[s]ecret-")
    with host.sudo():
        found = host.run(f"grep -rl -e '{pattern}' /etc /var/lib/gpufleet /run/gpufleet /run/systemd /var/log /opt/gpufleet").stdout.split()
        modes = {path: host.check_output(f"stat -c '%U %a' {path}") for path in found}
        assert "/etc/gpufleet/engines/chat/secrets.yaml" in modes
        assert set(modes.values()) == {"root 600"}, modes
        assert host.run(f"cat /proc/[0-9]*/cmdline | grep -a -c -e '{pattern}'").stdout.strip() == "0"
        assert host.run(f"journalctl --no-pager | grep -c -e '{pattern}'").stdout.strip() == "0"


def test_engines_are_not_root_and_hardened(host: Any) -> None:
    for name in PORTS:
        pid = host.check_output(f"systemctl show --property=MainPID --value gpufleet-engine-{name}.service")
        assert host.check_output(f"stat -c %U /proc/{pid}") == "gpufleet-engine"
    # other users of the host must not read what an engine keeps
    assert host.run("ls /var/lib/gpufleet/engines/chat").rc != 0


def test_facts_show_the_services(host: Any) -> None:
    assert host.check_output("systemctl list-units --no-legend --state=failed 'gpufleet-*'") == ""
    enabled = host.check_output("systemctl list-unit-files --no-legend 'gpufleet-engine-*'")
    for name in PORTS:
        assert f"gpufleet-engine-{name}.service" in enabled


def test_a_second_run_was_quiet(action_log: Any, host_tasks: Any) -> None:
    assert action_log() == []
    # facts once, engine_info for each role, the model for each
    assert len(action_log("module")) <= 7
    assert host_tasks["total"] <= 12
