"""Long work in a unit: its code stands alone, a second run attaches, every end leaves a word."""

from __future__ import annotations

import json
import os
import re
import signal
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _job
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import WorkError
from ansible_collections.gpufleet.inference.plugins.module_utils._job import Job, Kind
from ansible_collections.gpufleet.inference.plugins.modules import model_snapshot

from .conftest import Units

WORK = """
import os, time
from ._errors import HostError, WorkError

def work(job, secrets, progress):
    progress({"text": "half"})
    if job["do"] == "wait":
        time.sleep(60)
    if job["do"] == "refuse":
        raise WorkError("full", "no room", {"stage": "copy"})
    if job["do"] == "host":
        raise HostError("odd host")
    if job["do"] == "disk":
        raise OSError(28, "No space left on device", "/x")
    if job["do"] == "crash":
        raise ValueError("oops")
    return {"told": secrets["token"] + job["do"]}
"""


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> Kind:
    kind = Kind("gpufleet-test", "gpufleet_tests", "_work")
    utils = Path(_job.__file__).parent

    def read(name: str) -> bytes:
        return WORK.encode() if name == "_work" else (utils / f"{name}.py").read_bytes()

    monkeypatch.setattr(_job, "closure", lambda names: _real(names, read))
    return kind


_real = _job.closure


def job_of(kind: Kind, tmp_path: Path) -> Job:
    return Job(kind, "one", str(tmp_path / "run"))


def ended(kind: Kind, units: Units, tmp_path: Path, do: str) -> dict[str, t.Any]:
    job = job_of(kind, tmp_path)
    assert job.start({"do": do}, {"token": "s3cret-"})
    units.end(job.unit)
    return job.status()


def test_the_result_comes_back_and_the_secret_is_gone(kind: Kind, units: Units, tmp_path: Path) -> None:
    assert ended(kind, units, tmp_path, "well") == {"state": "done", "result": {"told": "s3cret-well"}}
    left = "".join(path.read_text() for path in (tmp_path / "run").iterdir() if "status" not in path.name)
    assert "s3cret" not in left
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "run").iterdir()} == {0o600}


@pytest.mark.parametrize(
    ("do", "reason", "text", "details"),
    [
        ("refuse", "full", "no room", {"stage": "copy"}),
        ("host", "failed", "odd host", {}),
        ("disk", "failed", "/x: No space left on device", {}),
        ("crash", "failed", "ValueError: oops", {}),
    ],
)
def test_every_failure_has_its_words(
    kind: Kind, units: Units, tmp_path: Path, do: str, reason: str, text: str, details: dict[str, str]
) -> None:
    assert ended(kind, units, tmp_path, do) == {"state": "failed", "reason": reason, "text": text, "details": details}


def test_a_second_run_attaches_and_other_work_is_busy(kind: Kind, units: Units, tmp_path: Path) -> None:
    job = job_of(kind, tmp_path)
    assert job.start({"do": "wait"})
    child = units.children[job.unit]
    assert not job.start({"do": "wait"})
    assert units.children[job.unit] is child
    assert job.same({"do": "wait"})
    assert not job.same({"do": "well"})
    with pytest.raises(WorkError) as caught:
        job.start({"do": "well"})
    assert caught.value.reason == "busy"
    assert job.status()["state"] == "running"


def test_killed_is_a_state_and_the_next_start_is_a_new_one(kind: Kind, units: Units, tmp_path: Path) -> None:
    job = job_of(kind, tmp_path)
    job.start({"do": "wait"})
    os.kill(units.children[job.unit].pid, signal.SIGKILL)
    units.end(job.unit)
    assert job.status()["reason"] == "killed"
    assert job.start({"do": "well"}, {"token": ""})
    units.end(job.unit)
    assert job.status()["state"] == "done"
    job.forget()
    assert list((tmp_path / "run").iterdir()) == []


def test_a_unit_that_does_not_start_leaves_no_secret(kind: Kind, units: Units, tmp_path: Path) -> None:
    units.refuse = "systemd-run cannot start it"
    with pytest.raises(Exception, match="cannot start"):
        job_of(kind, tmp_path).start({"do": "well"}, {"token": "s3cret"})
    assert not list((tmp_path / "run").glob("*secrets*"))


@pytest.mark.parametrize("real", [model_snapshot.KIND], ids=lambda kind: kind.prefix)
def test_the_code_of_every_sort_of_work_stands_alone(real: Kind, units: Units, tmp_path: Path) -> None:
    """In a folder of its own, by a Python that knows nothing of Ansible: an empty job ends in the work's own words."""
    job = Job(real, "one", str(tmp_path / "run"))
    job.start({})
    units.end(job.unit)
    status = job.status()
    assert status["state"] == "failed"
    assert status["reason"] != "killed", "it did not even start"
    assert "Error: No module" not in json.dumps(status)


@pytest.mark.parametrize("module", [model_snapshot], ids=lambda module: module.__name__.rpartition(".")[2])
def test_the_archive_of_the_module_holds_what_the_unit_needs(module: t.Any) -> None:
    """Ansible packs what the module imports, and nothing else."""
    text = Path(module.__file__).read_text()
    first = list(re.findall(r"module_utils\.(_\w+) import", text))
    first += [name.strip() for line in re.findall(r"from \.\.module_utils import (.+)", text) for name in line.split(",")]
    needed = {name for name in module.KIND.files() if not name.startswith("__")}
    assert needed <= set(_real(first))
