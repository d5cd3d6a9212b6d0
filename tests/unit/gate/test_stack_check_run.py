# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""stack_check as Ansible runs it: one round trip, all findings, nothing that comes from another run, clear words on wrong input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[3]
CHECK = "gpufleet.inference.stack_check"


@pytest.fixture
def sysfs(tmp_path: Path) -> str:
    """One H100 on the PCI bus, no driver."""
    gpu = tmp_path / "sys/bus/pci/devices/0000:1b:00.0"
    gpu.mkdir(parents=True)
    for name, value in {"vendor": "0x10de", "device": "0x2330", "class": "0x030200", "numa_node": "0"}.items():
        (gpu / name).write_text(value + "\n")
    return str(tmp_path / "sys")


def play(folder: Path, *tasks: dict[str, Any], check: bool = False) -> tuple[list[dict[str, Any]], str]:
    """Results of the tasks on localhost, and the output."""
    namespace = folder / "collections/ansible_collections/gpufleet"
    namespace.mkdir(parents=True, exist_ok=True)
    if not (namespace / "inference").exists():
        (namespace / "inference").symlink_to(CHECKOUT)
    out = folder / "results.json"
    numbered = [{"name": f"Task {n}", "register": f"result_{n}", "ignore_errors": True, **task} for n, task in enumerate(tasks)]
    names = ", ".join(f"result_{n}" for n in range(len(tasks)))
    save = {"name": "Save", "ansible.builtin.copy": {"content": f"{{{{ [{names}] | to_json }}}}", "dest": str(out), "mode": "0600"}}
    book = folder / "play.yml"
    variables = {"ansible_python_interpreter": "/usr/bin/python3"}
    steps = [*numbered, {**save, "check_mode": False}]
    book.write_text(yaml.safe_dump([{"name": "Test", "hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": steps}]))
    env = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_NOCOLOR": "1",
    }
    argv = [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", "-c", "local", str(book), *(["--check"] if check else [])]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return list(json.loads(out.read_text())), done.stdout + done.stderr


def test_a_blocked_host_gets_all_findings_in_words_and_no_facts(tmp_path: Path, sysfs: str) -> None:
    asked = {"driver": {"branch": 535, "kernel_modules": "open"}, "cuda": {"toolkits": ["13.0.2"]}}
    options = {"component": "host", "sysfs_root": sysfs, "expected_gpus": 8, "stack": asked}
    (blocked, reported), output = play(tmp_path, {CHECK: options}, {CHECK: {**options, "report_only": True}})
    ids = {finding["id"] for finding in blocked["findings"] if finding["severity"] == "block"}
    assert {"host.gpu_count", "driver.branch_ended"} <= ids
    assert blocked["failed"] is True
    assert "ansible_facts" not in blocked
    for name in ids:
        assert name in blocked["msg"]
    assert "The PCI bus shows 1 GPUs, the inventory expects 8." in output
    assert reported["failed"] is False
    assert {finding["id"] for finding in reported["findings"]} >= ids


def test_facts_are_read_once_and_again_when_asked(tmp_path: Path, sysfs: str) -> None:
    options = {"component": "host", "sysfs_root": sysfs, "report_only": True}
    (first, second, third), _output = play(tmp_path, {CHECK: options}, {CHECK: options}, {CHECK: {**options, "refresh": True}})
    assert first["ansible_facts"]["gpufleet"]["generation"] == 1
    assert "ansible_facts" not in second
    assert third["ansible_facts"]["gpufleet"]["generation"] == 2
    gpu = first["ansible_facts"]["gpufleet"]["info"]["gpus"][0]
    assert (gpu["product"], gpu["architecture"]) == ("NVIDIA H100 80GB HBM3", "hopper")


def test_check_mode_predicts_for_the_checks_that_follow(tmp_path: Path, sysfs: str) -> None:
    host = {"component": "host", "sysfs_root": sysfs, "desired": {"nvidia_ml_py_version": "13.615.71"}, "report_only": True}
    (first, second), _output = play(tmp_path, {CHECK: host}, {CHECK: host}, check=True)
    assert (first["changed"], first["converge"]) == (True, False)
    assert [change["id"] for change in first["changes"]] == ["host.nvidia_ml_py"]
    assert (second["changed"], second["changes"]) == (False, [])
    (real,), _output = play(tmp_path, {CHECK: host})
    assert (real["changed"], real["converge"]) == (False, True)


def test_what_converge_left_undone_is_a_finding(tmp_path: Path, sysfs: str) -> None:
    options = {"component": "host", "sysfs_root": sysfs, "desired": {"nvidia_ml_py_version": "13.615.71"}, "verify": True}
    ((result,), output) = play(tmp_path, {CHECK: options})
    assert "host.not_converged" in {finding["id"] for finding in result["findings"]}
    assert "this is still to do: nvidia-ml-py 13.615.71 goes under /opt/gpufleet/python" in output


def test_wrong_input_is_named(tmp_path: Path, sysfs: str) -> None:
    host = {"component": "host", "sysfs_root": sysfs}
    (tmp_path / "overlay.yml").write_text("gpus:\n  - {id: x, arch: 7, sourse: me}\n")
    (tmp_path / "lock.yml").write_text("schema: 99\ngroups: {}\n")
    cases: list[tuple[dict[str, Any], str]] = [
        ({**host, "component": "gpu"}, "value of component must be one of"),
        ({**host, "disruption_max": "everything"}, "disruption_max is 'everything'; expected one of none, engine_restart"),
        ({**host, "lock": str(tmp_path / "no.yml")}, "does not exist. Write it with playbook gpufleet.inference.lock"),
        ({**host, "lock": str(tmp_path / "lock.yml")}, "its schema is 99"),
        ({**host, "matrix_overlay": [str(tmp_path / "overlay.yml")]}, "sourse"),
        ({**host, "desired": {"nvidia_ml_py_version": "newest"}}, "'newest', which is not a version"),
        ({**host, "nvml_timeout": "soon"}, "nvml_timeout"),
        (
            {**host, "stack": {"drvier": {}}},
            "stack has a key 'drvier' that means nothing (gpu_stack_wanted, gpu_preflight_stack): did you mean driver?",
        ),
        ({**host, "stack": {"driver": {"brnach": 580}}}, "did you mean branch?"),
    ]
    results, _output = play(tmp_path, *[{CHECK: options} for options, _message in cases])
    for result, (options, message) in zip(results, cases, strict=True):
        assert result["failed"] is True, options
        assert message in result["msg"], result["msg"]


def test_it_refuses_to_run_in_the_background(tmp_path: Path, sysfs: str) -> None:
    (result,), _output = play(tmp_path, {CHECK: {"component": "host", "sysfs_root": sysfs}, "async": 60, "poll": 5})
    assert result["failed"] is True
    assert "async" in result["msg"]
