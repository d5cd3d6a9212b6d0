"""Writing an engine's files: validated before, back in place after any failure, links and modes kept."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _config_files as config_files
from ansible_collections.gpufleet.inference.plugins.module_utils import _engine_apply as apply
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError
from ansible_collections.gpufleet.inference.plugins.module_utils._subprocess import Result

OK = Result("ok", 0, "", "")
BAD = Result("ok", 1, "", "refused: no")


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Answers by the first two words of a command; what was asked is under `asked`."""
    answers: dict[str, Any] = {"asked": []}

    def run(argv: list[str], timeout: float = 0) -> Result:
        answers["asked"].append(" ".join(argv[:3]))
        found = answers.get(" ".join(argv[:2]), OK)
        return found.pop(0) if isinstance(found, list) else found

    monkeypatch.setattr(apply, "run", run)
    monkeypatch.setattr(apply, "docker_info", lambda path: {"ServerVersion": "26"})
    monkeypatch.setattr(apply, "show_units", lambda names: {names[0]: {"InvocationID": "abc"}})
    monkeypatch.setattr(apply, "BACKUPS", str(tmp_path / "backups"))
    monkeypatch.setattr(apply, "RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setattr(apply, "ENGINES_RECORD", str(tmp_path / "run/engines.json"))
    monkeypatch.setattr(apply, "DOCKER_CDI_SWITCHED", str(tmp_path / "docker_cdi.json"))
    monkeypatch.setattr(apply.os, "chown", lambda *a: None)
    return answers


def job(path: Path, text: str | None = "new", **given: Any) -> apply.Job:
    values = {
        "engine": "docker",
        "unit": "docker.service",
        "stage": {"daemon.json": "new"},
        "validate": ["dockerd", "--validate", "{stage}/daemon.json"],
        "dump": [],
        "action": "restart",
        "user": "",
        "timeout": 0.5,
    }
    seen = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
    return apply.Job(files=[{"path": str(path), "text": text, "seen": seen}], **{**values, **given})


def test_written_restarted_recorded(tmp_path: Path, commands: dict[str, Any]) -> None:
    file = tmp_path / "daemon.json"
    file.write_text("old")
    file.chmod(0o640)
    outcome = apply.apply(job(file))
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o640)
    assert [Path(path).read_text() for path in outcome.backups] == ["old"]
    assert "abc" in (tmp_path / "run/engines.json").read_text()
    assert [line for line in commands["asked"] if line.startswith("systemctl restart")] == ["systemctl restart docker.service"]


def test_line_ends_of_another_system_come_back_as_they_were(tmp_path: Path, commands: dict[str, Any]) -> None:
    file = tmp_path / "daemon.json"
    file.write_bytes(b"{\r\n}\r\n")
    commands["systemctl restart"] = [BAD, OK]
    with pytest.raises(HostError, match="old configuration"):
        apply.apply(job(file))
    assert file.read_bytes() == b"{\r\n}\r\n"


@pytest.mark.parametrize("existed", [True, False])
def test_what_somebody_writes_meanwhile_is_not_lost(tmp_path: Path, commands: dict[str, Any], existed: bool) -> None:
    file = tmp_path / "daemon.json"
    if existed:
        file.write_text("old")
    decided = job(file)
    file.write_text("theirs")
    with pytest.raises(HostError, match="changed by somebody else"):
        apply.apply(decided)
    assert file.read_text() == "theirs"
    assert not (tmp_path / "backups").exists()


def test_refused_before_writing(tmp_path: Path, commands: dict[str, Any]) -> None:
    file = tmp_path / "daemon.json"
    file.write_text("old")
    commands["dockerd --validate"] = BAD
    with pytest.raises(HostError, match="nothing was written: refused: no"):
        apply.apply(job(file))
    assert file.read_text() == "old"
    assert not (tmp_path / "backups").exists()
    assert list((tmp_path / "run").iterdir()) == [], "the stage is removed"


@pytest.mark.parametrize("existed", [True, False])
def test_an_engine_that_does_not_start_has_its_old_file_back(tmp_path: Path, commands: dict[str, Any], existed: bool) -> None:
    file = tmp_path / "daemon.json"
    if existed:
        file.write_text("old")
    commands["systemctl restart"] = [BAD, OK]
    with pytest.raises(HostError, match="old configuration of docker is back"):
        apply.apply(job(file))
    assert (file.read_text() if existed else file.exists()) == ("old" if existed else False)


def test_an_engine_that_starts_and_does_not_answer(tmp_path: Path, commands: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "daemon.json"
    file.write_text("old")
    monkeypatch.setattr(apply, "docker_info", lambda path: None)
    with pytest.raises(HostError, match="did not come up within"):
        apply.apply(job(file))
    assert file.read_text() == "old"
    assert commands["asked"].count("systemctl restart docker.service") == 2


def test_a_dump_that_fails_restores(tmp_path: Path, commands: dict[str, Any]) -> None:
    file = tmp_path / "config.toml"
    file.write_text("old")
    commands["containerd config"] = BAD
    with pytest.raises(HostError, match="fails with the new files"):
        apply.apply(job(file, dump=["containerd", "config", "dump"]))
    assert file.read_text() == "old"


def test_a_link_stays_a_link(tmp_path: Path, commands: dict[str, Any]) -> None:
    target, link = tmp_path / "site.json", tmp_path / "daemon.json"
    target.write_text("old")
    link.symlink_to("site.json")
    apply.apply(job(link))
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_removal(tmp_path: Path, commands: dict[str, Any]) -> None:
    file = tmp_path / "99-nvidia.toml"
    file.write_text("old")
    apply.apply(job(file, text=None, validate=[]))
    assert not file.exists()


def test_five_backups_are_kept(tmp_path: Path, commands: dict[str, Any]) -> None:
    file = tmp_path / "daemon.json"
    folder = tmp_path / "backups"
    folder.mkdir()
    name = str(file).strip("/").replace("/", "_")
    for number in range(7):
        (folder / f"{name}.2020010{number}T000000").write_text("x")
    file.write_text("old")
    apply.apply(job(file))
    assert len(list(folder.iterdir())) == 5


@pytest.mark.parametrize(
    ("make", "state", "reason"),
    [
        (lambda p: None, "absent", ""),
        (lambda p: p.write_text(""), "ok", ""),
        (lambda p: p.symlink_to("/nowhere"), "unreadable", "link to /nowhere"),
        (lambda p: p.mkdir(), "not_a_file", "not a regular file"),
        (lambda p: p.write_bytes(b"\xff\xfe"), "unreadable", "not UTF-8"),
        (lambda p: p.write_bytes(b" " * (config_files.LIMIT + 1)), "huge", "bytes, more than"),
    ],
)
def test_what_a_file_can_be(tmp_path: Path, make: Any, state: str, reason: str) -> None:
    path = tmp_path / "config"
    make(path)
    found = config_files.read_config(str(path))
    assert found["state"] == state
    assert reason in found["reason"]


def test_imports_are_read_without_being_parsed(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("x = 1")
    (tmp_path / "b.toml").write_text("y = 1")
    root = tmp_path / "config.toml"
    root.write_text(f'version = 2\nimports = [\n  "{tmp_path}/a.toml", # one\n  "{tmp_path}/none/*.toml"]\n')
    files = config_files.with_imports(config_files.read_config(str(root)), f"{tmp_path}/b*.toml")
    assert [Path(file["path"]).name for file in files] == ["config.toml", "a.toml", "b.toml"]
    root.write_text('imports = ["a.toml"]\n')
    assert [file["text"] for file in config_files.with_imports(config_files.read_config(str(root)))][1:] == ["x = 1"]


def test_a_switch_of_cdi_is_remembered_until_it_is_taken_back(tmp_path: Path, commands: dict[str, Any]) -> None:
    record, files = tmp_path / "docker_cdi.json", [tmp_path / "daemon.json", tmp_path / "alice.json"]
    for file in files:
        apply.apply(job(file, cdi_switch="on"))
    assert json.loads(record.read_text()) == {"files": sorted(map(str, files))}
    apply.apply(job(files[0], "{}", cdi_switch="off"))
    assert json.loads(record.read_text()) == {"files": [str(files[1])]}
    apply.apply(job(files[1], "{}", cdi_switch="off"))
    assert not record.exists()


def test_a_switch_that_went_back_is_forgotten(tmp_path: Path, commands: dict[str, Any]) -> None:
    commands["systemctl restart"] = [BAD, OK]
    with pytest.raises(HostError, match="old configuration"):
        apply.apply(job(tmp_path / "daemon.json", cdi_switch="on"))
    assert not (tmp_path / "docker_cdi.json").exists()
