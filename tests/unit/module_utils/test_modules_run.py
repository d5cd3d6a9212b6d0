# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_info and host_lock as Ansible runs them: AnsiballZ, real interpreters, wrong input, without privileges."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[3]
SERVER = CHECKOUT / "tests/integration/hung/blocking_fuse.py"
needs_fuse = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="needs root and /dev/fuse for a process that cannot be killed"
)
INFO = "gpufleet.inference.gpu_info"
LOCK = "gpufleet.inference.host_lock"
SYSTEM_PYTHON = "/usr/bin/python3"
OLDEST = sorted(Path("~/.pyenv/versions").expanduser().glob("3.9.*/bin/python3"))


class Play:
    """Runs tasks on localhost and returns their results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        namespace = folder / "collections/ansible_collections/gpufleet"
        namespace.mkdir(parents=True)
        (namespace / "inference").symlink_to(CHECKOUT)
        os.chmod(folder, 0o755)

    def __call__(
        self, *tasks: dict[str, Any], python: str = SYSTEM_PYTHON, prefix: tuple[str, ...] = (), check: bool = False, **variables: Any
    ) -> list[dict[str, Any]]:
        numbered = [{"name": f"Task {n}", "register": f"result_{n}", "ignore_errors": True, **task} for n, task in enumerate(tasks)]
        out = self.folder / "results.json"
        names = ", ".join(f"result_{n}" for n in range(len(tasks)))
        save = {
            "name": "Save",
            "ansible.builtin.copy": {"content": "{{ [" + names + "] | to_json }}", "dest": str(out), "mode": "0600"},
            "check_mode": False,
            "become": False,
        }
        play = {
            "name": "Test",
            "hosts": "localhost",
            "gather_facts": False,
            "vars": {"ansible_python_interpreter": python, **variables},
            "tasks": [*numbered, save],
        }
        book = self.folder / "play.yml"
        book.write_text(yaml.safe_dump([play]))
        env = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder / "collections"),
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_REMOTE_TMP": "/tmp/.ansible-test-${USER}",
            "ANSIBLE_NOCOLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        ansible = [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", "-c", "local", str(book)]
        argv = [*prefix, *ansible, *(["--check"] if check else [])]
        result = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "Traceback" not in result.stdout + result.stderr
        return list(json.loads(out.read_text()))


@pytest.fixture
def play(tmp_path: Path) -> Play:
    return Play(tmp_path)


def _valid(info: dict[str, Any]) -> dict[str, Any]:
    import jsonschema

    jsonschema.validate(info, json.loads((CHECKOUT / "schemas/gpu_info.schema.json").read_text()))
    return info


@pytest.mark.parametrize(
    "python",
    [
        pytest.param(SYSTEM_PYTHON, id="system"),
        pytest.param(
            str(OLDEST[-1]) if OLDEST else "",
            id="oldest",
            marks=pytest.mark.skipif(not OLDEST, reason="needs a Python 3.9 under ~/.pyenv/versions"),
        ),
    ],
)
def test_a_simulated_machine(play: Play, machine: Any, python: str) -> None:
    host = machine("h200x2")
    import pynvml

    options = {
        "nvml_library": host.options.library,
        "sysfs_root": str(host.root / "sys"),
        "procfs_root": str(host.root / "proc"),
        "python_path": str(Path(pynvml.__file__).parent),
        "nvml_timeout": 30,
    }
    plain, full = play({INFO: options}, {INFO: {**options, "details": True, "expected_gpus": 3}}, python=python)
    assert plain["changed"] is False
    assert _valid(plain["gpu_info"])["state"] == "ok"
    assert plain["gpu_info"]["gpus"][1]["product"] == "NVIDIA H200"
    assert plain["gpu_info"]["nvml"]["pynvml"]["version"].startswith("1")
    assert _valid(full["gpu_info"])["state"] == "lost"
    assert full["gpu_info"]["gpus"][0]["inforom"]


def test_this_host_as_it_is_in_check_mode(play: Play) -> None:
    (result,) = play({INFO: {}}, check=True)
    info = _valid(result["gpu_info"])
    assert info["host"]["kernel"]["release"] == os.uname().release
    assert info["host"]["root"] is (os.geteuid() == 0)


WRONG = (
    (INFO, {"nvml_timeout": "soon"}, "cannot be converted to a float"),
    (INFO, {"nvml_timeout": 0}, "nvml_timeout is 0.0, expected seconds from 0.1 to 600; the default is 10"),
    (INFO, {"nvml_timeout": 601}, "nvml_timeout is 601.0, expected seconds"),
    (INFO, {"nvml_timeout": "nan"}, "expected seconds from 0.1 to 600"),
    (INFO, {"expected_gpus": "many"}, "cannot be converted to an int"),
    (INFO, {"expected_gpus": -1}, "expected_gpus is -1, expected a number of GPUs, 0 or more"),
    (INFO, {"details": "perhaps"}, "is not a valid boolean"),
    (INFO, {"gpu": "all"}, "Unsupported parameters"),
    (LOCK, {"ttl": "long"}, "cannot be converted to an int"),
    (LOCK, {"ttl": 5}, "ttl is 5, expected seconds from 60 to 86400; the default is 3600"),
    (LOCK, {"state": "locked"}, "value of state must be one of: present, absent, got: locked"),
)


def test_wrong_input(play: Play) -> None:
    """One play, since starting Ansible is what costs; every message is looked at."""
    path = {LOCK: {"path": str(play.folder / "lock")}, INFO: {}}
    results = play(*({module: {**path[module], **options}} for module, options, _message in WRONG))
    wrong = []
    for (_module, options, message), result in zip(WRONG, results, strict=True):
        if not result["failed"] or message not in result["msg"]:
            wrong.append((options, result["msg"]))
    assert not wrong


def _pynvml_for_all(host: Any) -> Path:
    """nvidia-ml-py where every user may read it, as gpu_preflight leaves it."""
    import pynvml

    for found in Path(pynvml.__file__).parent.glob("nvidia_ml_py-*"):
        host.write(f"opt/gpufleet/python/{found.name}/METADATA")
    return host.write("opt/gpufleet/python/pynvml.py", Path(pynvml.__file__).read_text()).parent


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest keeps its own to itself."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_without_privileges(play: Play, machine: Any, open_folder: Path) -> None:
    host = machine("h200x2", root=open_folder / "machine")
    hidden = host.write("sys/class/infiniband/mlx5_0/device/vpd", b"SW_MNG")
    hidden.chmod(0o600)
    become = {"become": True, "become_user": "nobody", "become_method": "su", "vars": {"ansible_become_flags": "-s /bin/sh"}}
    options = {
        "nvml_library": host.options.library,
        "sysfs_root": str(host.root / "sys"),
        "procfs_root": str(host.root / "proc"),
        "python_path": str(_pynvml_for_all(host)),
    }
    info, lock = play({INFO: options, **become}, {LOCK: {"path": "/run/gpufleet-test/run.lock"}, **become})
    info = _valid(info["gpu_info"])
    assert info["host"]["root"] is False
    assert (info["state"], info["reason"]) == ("ok", "")
    assert info["gpus"][0]["power"]["limit_mw"] == 700000
    assert info["counts"]["pci"] == 2
    assert {"part": "pci.infiniband.mlx5_0.sw_mng", "reason": f"{hidden}: permission denied", "needs_root": True} in info["unread"]
    assert lock["failed"]
    assert "the lock needs root" in lock["msg"]


def test_two_runs_on_one_host(play: Play) -> None:
    path = str(play.folder / "run/run.lock")
    take = {LOCK: {"path": path, "what": "a test"}}
    taken, renewed = play(take, take)
    assert (taken["changed"], renewed["changed"]) == (True, False)
    assert taken["lock"]["what"] == "a test"
    assert taken["lock"]["owner"]["controller"] == os.uname().nodename

    (replaced,) = play(take)
    assert replaced["taken_over"]["run_id"] == taken["lock"]["run_id"], "that run is over, on this very controller"

    lock = json.loads(Path(path).read_text())
    lock.update(run_id="elsewhere-1-2", owner={**lock["owner"], "controller": "elsewhere"})
    Path(path).write_text(json.dumps(lock))
    refused, released = play(take, {LOCK: {"path": path, "state": "absent"}})
    assert refused["failed"]
    assert refused["msg"].startswith("another run is changing this host: a test, by ")
    assert "on elsewhere" in refused["msg"]
    assert released["changed"] is False
    assert json.loads(Path(path).read_text())["run_id"] == "elsewhere-1-2"

    lock.update(run_id="alive", owner={"controller": os.uname().nodename, "pid": os.getpid(), "start_time": _start_time(), "user": "x"})
    Path(path).write_text(json.dumps(lock))
    refused, _unused = play(take, take)
    assert refused["failed"], "an owner on this controller that lives keeps its lock"


def _start_time() -> str:
    from ansible_collections.gpufleet.inference.plugins.module_utils._wait import start_time

    return str(start_time(os.getpid()))


def test_the_lock_in_check_mode_does_nothing(play: Play) -> None:
    path = play.folder / "run/run.lock"
    (result,) = play({LOCK: {"path": str(path)}}, check=True)
    assert result["changed"] is False
    assert not path.parent.exists()


@needs_fuse
def test_a_hung_driver_through_ansible(play: Play, machine: Any, tmp_path: Path) -> None:
    """In a mount namespace of its own, so that the mark in /run/gpufleet is nobody else's."""
    host = machine("h200x2")
    import pynvml

    mount = tmp_path / "fuse"
    mount.mkdir()
    host.simulate("fault", "hang_path", str(mount / "blocked"))
    options = {
        "nvml_library": host.options.library,
        "sysfs_root": str(host.root / "sys"),
        "procfs_root": str(host.root / "proc"),
        "python_path": str(Path(pynvml.__file__).parent),
        "nvml_timeout": 1,
    }
    script = tmp_path / "run.sh"
    script.write_text(
        "set -e\nmkdir -p /run/gpufleet\nmount -t tmpfs none /run/gpufleet\n"
        f"{sys.executable} {SERVER} {mount} > {tmp_path}/fuse.out &\nserver=$!\n"
        f"until grep -q ready {tmp_path}/fuse.out; do sleep 0.05; done\n"
        f'rc=0; "$@" || rc=$?\nls /run/gpufleet > {tmp_path}/mark\ntouch {mount}.release; sleep 0.5\n'
        f"umount -l {mount}; kill $server || true; exit $rc\n"
    )
    begin = time.monotonic()
    clock = {"ansible.builtin.command": "date +%s.%N"}
    results = play(clock, {INFO: options}, clock, {INFO: options}, clock, prefix=("unshare", "-m", "sh", str(script)))
    first, second = _valid(results[1]["gpu_info"]), _valid(results[3]["gpu_info"])
    assert (first["state"], second["state"]) == ("hung", "hung")
    assert first["nvml"]["hung"] == second["nvml"]["hung"]
    assert first["nvml"]["hung"]["call"].startswith("nvml")
    assert (tmp_path / "mark").read_text() == "nvml_hung.json\n"
    assert 1000 <= first["duration_ms"] < 2000
    assert second["duration_ms"] < 500
    moments = [float(results[n]["stdout"]) for n in (0, 2, 4)]
    assert moments[1] - moments[0] > moments[2] - moments[1], "the second call does not wait"
    assert time.monotonic() - begin < 60
