"""What is in the store, as an engine's server sees it."""

from __future__ import annotations

import json
from typing import Any

STORE = "/var/lib/gpufleet/trtllm_engines"


def test_current_leads_to_an_engine_that_fits_this_host(host: Any) -> None:
    folder = f"{STORE}/llama/current"
    stamp = json.loads(host.check_output(f"cat {folder}/stamp.json"))
    config = json.loads(host.check_output(f"cat {folder}/config.json"))
    assert (stamp["tensorrt_llm"], stamp["tensorrt"], stamp["cuda"], stamp["compute_capability"]) == ("1.2.1", "10.14.1", "13.1", "9.0")
    assert stamp["arguments"] == ["--gemm_plugin auto", "--max_batch_size 64"]
    assert config["build_config"]["max_batch_size"] == 64
    assert sorted(stamp["files"]) == ["config.json", "rank0.engine", "rank1.engine"]


def test_the_one_before_is_kept_and_nothing_else(host: Any) -> None:
    assert len(host.check_output(f"ls {STORE}/llama/snapshots").split()) == 2
    assert host.check_output(f"ls {STORE}/llama/partial 2>/dev/null || true") == ""
    assert host.check_output(f"ls {STORE}") == "llama"
    assert host.check_output("systemctl list-units --all --no-legend 'gpufleet-trtllm-*'") == ""


def test_a_second_run_was_quiet(action_log: Any, host_tasks: Any) -> None:
    assert action_log() == []
    assert len(action_log("module")) == 1
    assert host_tasks["total"] == 1
