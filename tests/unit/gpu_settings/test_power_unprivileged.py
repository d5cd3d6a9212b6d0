"""The same code as a user without rights: it reads and foresees, and says what it may not."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import tempfile
import typing as t

import pynvml
import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_apply import Request, apply
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_lock import hold
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_rules import compile_rules
from ansible_collections.gpufleet.inference.plugins.module_utils._gpu_settings_session import GOVERNOR_LOCK, Paths, governor_runs, settle
from ansible_collections.gpufleet.inference.plugins.module_utils._nvml import Options, run_bounded

NOBODY = 65534
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become nobody")


@pytest.fixture
def public(machine: t.Callable[..., t.Any], monkeypatch: pytest.MonkeyPatch) -> t.Iterator[t.Any]:
    """A machine that everybody may read and only root may change."""
    assert pynvml  # imported before rights are dropped: nobody may not read everything that this Python is made of
    host = machine()
    folder = pathlib.Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    shutil.copytree(host.root, folder / "root")
    host.root, host.paths = folder / "root", Paths.below(str(folder / "root"))
    library = shutil.copy(host.options.library, folder)
    host.options = Options(timeout=20, library=library, run_dir=host.paths.run_dir)
    monkeypatch.setenv("SIMULATED_GPU_ROOT", str(host.root))
    yield host
    shutil.rmtree(folder)


def as_nobody(work: t.Callable[[], t.Any]) -> t.Any:
    """The JSON-able result of `work` in a child without rights; an exception as its text."""
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            answer = work()
        except BaseException as exc:
            answer = f"{type(exc).__name__}: {exc}"
        os.write(sink, json.dumps(answer).encode())
        os._exit(0)
    os.close(sink)
    os.waitpid(pid, 0)
    with os.fdopen(source) as answers:
        return json.load(answers)


def request(**more: t.Any) -> Request:
    compiled = compile_rules(300, True, None)
    return Request(compiled.rules, compiled.origins, **more)


def test_check_mode_foresees_everything(public: t.Any) -> None:
    data = as_nobody(lambda: settle(request(check=True), public.paths, public.options, "test").data)
    assert [gpu["settings"]["power_limit"]["status"] for gpu in data["gpus"]] == ["set", "set"]
    assert public.limits() == [700000, 700000]


def test_every_setter_is_denied_by_name(public: t.Any) -> None:
    data = as_nobody(lambda: run_bounded(lambda session, _request: apply(session, request()), {}, public.options).data)
    for gpu in data["gpus"]:
        assert gpu["settings"]["power_limit"]["status"] == "denied"
        assert gpu["settings"]["power_limit"]["error"] == "NO_PERMISSION"
    assert public.limits() == [700000, 700000]


def test_without_rights_there_is_no_lock_and_no_traceback(public: t.Any) -> None:
    said = as_nobody(lambda: settle(request(), public.paths, public.options, "test").state)
    assert said.startswith("HostError: cannot use the lock")
    assert said.endswith("Permission denied")


def test_a_running_governor_is_seen_without_rights(public: t.Any) -> None:
    assert as_nobody(lambda: governor_runs(public.paths)) is False
    with hold(public.paths.run_dir, GOVERNOR_LOCK, "governor"):
        assert as_nobody(lambda: governor_runs(public.paths)) is True
    assert as_nobody(lambda: governor_runs(public.paths)) is False
