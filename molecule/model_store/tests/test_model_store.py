"""What is in the store, as an engine sees it."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests/lab/standin"))
from model_hub import COMMIT, model

STORE = "/var/lib/gpufleet/models"


def sha256(host: Any, path: str) -> str:
    return str(host.check_output(f"sha256sum {path}").split()[0])


def test_current_leads_to_the_asked_commit_with_its_patches(host: Any) -> None:
    link = host.check_output(f"readlink {STORE}/llama/current")
    assert link.startswith(f"snapshots/{COMMIT}+")
    config = json.loads(host.check_output(f"cat {STORE}/llama/current/config.json"))
    assert config == {"model_type": "llama", "seed": 1, "pad_token_id": 3}
    assert host.check_output(f"cat {STORE}/llama/current/chat_template.jinja") == "{{ messages }}"


def test_weights_are_those_of_the_hub_and_lie_there_once(host: Any) -> None:
    for name, content in model().items():
        if name.endswith(".safetensors"):
            assert sha256(host, f"{STORE}/llama/current/{name}") == hashlib.sha256(content).hexdigest()
            assert host.check_output(f"stat -c %h {STORE}/llama/snapshots/{COMMIT}/{name}") == "2"


def test_a_folder_was_copied(host: Any) -> None:
    assert sha256(host, f"{STORE}/shared/current/config.json") == hashlib.sha256(model(7)["config.json"]).hexdigest()


def test_nothing_is_left_over(host: Any) -> None:
    assert host.check_output(f"find {STORE} -name '*.incomplete' -o -name '*.partial' -o -name guest -o -name 'half'") == ""
    with host.sudo():
        assert host.check_output("find /run -path /run/user -prune -o -name '*.token' -print") == ""
    assert host.check_output(f"stat -c '%U %a' {STORE}/llama/model.json") == "root 644"


def test_the_token_is_nowhere_on_the_host(host: Any) -> None:
    # sudo logs this very command: its pattern must not match itself
    command = "grep -rl 'lab[-]token' /etc/model-hub.json /var/lib/gpufleet /run/gpufleet /var/log"
    with host.sudo():
        assert host.run(command).stdout == "/etc/model-hub.json\n"


def test_a_second_run_was_quiet(action_log: Any, host_tasks: Any) -> None:
    assert action_log() == []
    assert len(action_log("module")) == 2
    assert host_tasks["total"] <= 2
