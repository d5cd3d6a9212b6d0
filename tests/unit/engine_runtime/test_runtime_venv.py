"""Venvs as pip makes them: whole or not there, one beside the other, and gone only when nobody names them."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _runtime_layout as layout
from ansible_collections.gpufleet.inference.plugins.module_utils import _runtime_venv as venv
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import WorkError
from ansible_collections.gpufleet.inference.plugins.module_utils._subprocess import run

from .conftest import MakeJob


def work(job: dict[str, t.Any], **secrets: str) -> dict[str, t.Any]:
    return venv.work(job, secrets, lambda _counts: None)


def builds(job: dict[str, t.Any]) -> list[str]:
    return sorted(os.listdir(Path(job["root"], "vllm/builds")))


@pytest.mark.usefixtures("whole_pip")
def test_built_verified_stamped_and_then_quiet(make_job: MakeJob) -> None:
    job = make_job()
    assert venv.plan(job)["changes"] == ["build", "link"]
    answer = work(job)
    assert venv.plan(job)["changes"] == []
    assert run([f"{answer['link']}/bin/vllm"]).out == "0.33.0\n"
    known = layout.stamp(answer["path"])
    assert known is not None
    assert (known["says"], known["installer"], known["packages"]) == ("0.33.0", "pip", 1)


def test_another_lock_is_built_beside_and_the_old_one_still_runs(make_job: MakeJob) -> None:
    first = work(make_job())
    again = make_job(body="print('rebuilt {version}')")
    second = work(again)
    assert second["path"] != first["path"] == second["previous"]
    assert run([f"{first['path']}/bin/vllm"]).out == "0.33.0\n"
    assert run([f"{first['link']}/bin/vllm"]).out == "rebuilt 0.33.0\n"


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"verify": ["vllm", "--version"]}, "broken", "vllm --version does not work in the new venv: no such flag"),
        ({"find_links": ["/nowhere"]}, "not_found", "No matching distribution"),
        ({"size": 1 << 60}, "disk_full", "short"),
        ({"python": "python2.7"}, "no_python", "python is python2.7, which does not run on this host"),
        ({"python_requires": ">=4"}, "no_python", "this release takes Python >=4"),
        ({"installer": "uv"}, "no_installer", "give its wheel by uv_wheel"),
    ],
)
def test_a_build_that_fails_leaves_what_was_there(make_job: MakeJob, changes: dict[str, t.Any], reason: str, words: str) -> None:
    before = work(make_job("0.32.0"))
    body = "sys.exit('no such flag') if sys.argv[1:] else print('{version}')"
    job = make_job("0.33.0", body, **changes)
    with pytest.raises(WorkError) as caught:
        work(job)
    assert (caught.value.reason, words in str(caught.value)) == (reason, True), str(caught.value)
    assert builds(job) == [os.path.basename(before["path"])]
    assert not os.path.lexists(Path(job["root"], "vllm/0.33.0"))


def test_a_wheel_that_is_not_the_lock_s(make_job: MakeJob) -> None:
    job = make_job()
    make_job(body="print('changed')")  # another file of the same name
    with pytest.raises(WorkError) as caught:
        work(job)
    assert caught.value.reason == "checksum"


def test_killed_in_the_middle_is_healed(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job()
    answer = work(job)
    os.unlink(f"{answer['path']}/{layout.STAMP}")  # as if it had never come so far
    Path(answer["path"], "bin/vllm").write_text("half")
    assert venv.plan(job)["changes"] == ["build"]
    work(job)
    assert run([f"{answer['link']}/bin/vllm"]).out == "0.33.0\n"


def test_an_interpreter_that_went_with_an_upgrade(make_job: MakeJob) -> None:
    answer = work(make_job())
    os.unlink(f"{answer['path']}/bin/python")
    assert venv.plan(make_job())["changes"] == ["build"]


def test_old_builds_go_but_none_that_an_instance_names(make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = tmp_path / "gpufleet-engine-chat.service"
    monkeypatch.setattr(venv, "prune", lambda where, keep: layout.prune(where, keep, [str(unit)]))
    paths = {}
    for version in ("0.30.0", "0.31.0", "0.31.1"):
        paths[version] = work(make_job(version, keep=9))["path"]
    unit.write_text(f"ExecStart={paths['0.30.0']}/bin/vllm serve\n")
    answer = work(make_job("0.33.0", keep=0))
    assert sorted(answer["pruned"]) == sorted([paths["0.31.0"], paths["0.31.1"]])
    assert sorted(os.listdir(tmp_path / "engines/vllm")) == ["0.30.0", "0.33.0", "builds"]


def test_absent_asks_who_uses_it(make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job()
    link = work(job)["link"]
    unit = tmp_path / "gpufleet-engine-chat.service"
    monkeypatch.setattr(venv, "user_of", lambda *names: layout.user_of(*names, files=[str(unit)]))
    unit.write_text(f"ExecStart={link}.1/bin/vllm\n")  # another version, whose name begins the same
    assert venv.absent(job, check=True)["changed"]
    unit.write_text(f"ExecStart={link}/bin/vllm\n")
    with pytest.raises(WorkError, match="remove that instance first"):
        venv.absent(job, check=False)
    unit.unlink()
    assert venv.absent(job, check=False)["changed"]
    assert not venv.absent(job, check=False)["changed"]
    assert not os.path.lexists(link)


def test_a_folder_of_somebody_else_is_not_replaced(make_job: MakeJob) -> None:
    job = make_job()
    Path(job["root"], "vllm/0.33.0").mkdir(parents=True)
    with pytest.raises(WorkError, match="no symbolic link of this module"):
        work(job)


def test_progress_counts_packages(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(venv, "_EVERY", 0.02)
    said: list[dict[str, t.Any]] = []
    venv.work(make_job(), {}, said.append)
    assert said[0]["packages_total"] == 1
    assert said[-1] == {"phase": "asking the engine for its version"}
