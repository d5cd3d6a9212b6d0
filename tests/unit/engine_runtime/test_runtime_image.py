"""Images by a stand-in of podman and docker with a store in a file: no registry is asked twice, nothing of anyone's is removed."""

from __future__ import annotations

import base64
import json
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _runtime_image as image
from ansible_collections.gpufleet.inference.plugins.module_utils import _runtime_layout as layout
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import WorkError

# registry: reference → id; local: reference → id. `says`: what a pull fails with. Every call is a line of the log.
ENGINE = """#!{python}
import json, os, sys
store = json.load(open({store!r}))
words = sys.argv[1:]
with open({log!r}, "a") as log:
    auth = os.environ.get("REGISTRY_AUTH_FILE")
    log.write(json.dumps([words, open(auth).read() if auth else ""]) + "\\n")
def end(text="", rc=0):
    json.dump(store, open({store!r}, "w"))
    print(text, file=sys.stderr if rc else sys.stdout)
    sys.exit(rc)
if words[0] == "info":
    end({root!r})
if words[:2] == ["image", "inspect"]:
    found = store["local"].get(words[-1]) or (words[-1].split(":")[-1] if words[-1].split(":")[-1] in store["local"].values() else None)
    if not found:
        end("no such image", 125)
    names = [name.split(":")[0] + "@sha256:" + "d" * 64 for name in store["local"] if store["local"][name] == found and store["digests"]]
    end(json.dumps({{"Id": found, "RepoDigests": names}}))
if words[:2] == ["image", "rm"]:
    store["local"] = {{name: one for name, one in store["local"].items() if one != words[-1]}}
    end()
if words[0] in ("pull", "load"):
    if store["says"]:
        end(store["says"], 125)
    store["local"].update(store["registry"] if words[0] == "pull" else store["archive"])
    end()
end("unknown words", 1)
"""
NAME, ONE, TWO = "registry.lab/vllm:v0.33.0", "1" * 64, "2" * 64


class Host:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "podman"
        self.set(registry={NAME: ONE}, local={}, archive={}, says="", digests=True)
        paths = {"store": str(folder / "store.json"), "log": str(folder / "log"), "root": str(folder)}
        self.program.write_text(ENGINE.format(python=sys.executable, **paths))
        self.program.chmod(0o755)

    def set(self, **parts: t.Any) -> None:
        path = self.folder / "store.json"
        path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **parts}))

    def local(self) -> dict[str, str]:
        return t.cast("dict[str, str]", json.loads((self.folder / "store.json").read_text())["local"])

    def calls(self) -> list[tuple[list[str], str]]:
        return [tuple(json.loads(line)) for line in (self.folder / "log").read_text().splitlines()]

    def job(self, name: str = NAME, **changes: t.Any) -> dict[str, t.Any]:
        job = {
            "name": "vllm-0.33.0-podman",
            "engine": "vllm", "version": "0.33.0", "runtime": str(self.program),
            "image": name, "image_id": "",
            "archive": "", "refresh": False, "auth_file": "", "registry_username": "me", "size": 0, "reserve": 0, "keep": 1,
            "build_timeout": 20.0,
        }  # fmt: skip
        return {**job, **changes}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(image, "RECORD", str(tmp_path / "engine_images.json"))
    monkeypatch.setattr(image, "RUN_DIR", str(tmp_path / "run"))
    users = [str(tmp_path / "gpufleet-engine-*.service")]
    monkeypatch.setattr(image, "user_of", lambda *names: layout.user_of(*names, files=users))
    return Host(tmp_path)


def work(job: dict[str, t.Any], **secrets: str) -> dict[str, t.Any]:
    return image.work(job, secrets, lambda _counts: None)


def test_a_tag_is_pulled_once_and_stays_where_it_led(host: Host) -> None:
    assert image.plan(host.job())["changes"] == ["pull", "record"]
    answer = work(host.job())
    assert answer["use"] == f"registry.lab/vllm@sha256:{'d' * 64}"
    host.set(registry={NAME: TWO}, local={NAME: TWO, "kept": ONE})  # somebody moved the tag, here too
    assert image.plan(host.job()) == {"changes": [], "use": answer["use"], "id": f"sha256:{ONE}"}
    host.set(says="registry.lab: dial tcp: no such host")
    assert image.plan(host.job())["changes"] == []
    with pytest.raises(WorkError) as caught:
        work(host.job(refresh=True))
    assert caught.value.reason == "unreachable"


def test_an_image_that_is_there_is_recorded_without_a_registry(host: Host) -> None:
    host.set(local={NAME: ONE}, says="no registry")
    assert image.plan(host.job())["changes"] == ["record"]
    work(host.job())
    assert image.plan(host.job())["changes"] == []


def test_an_archive_is_used_by_its_id(host: Host) -> None:
    archive = host.folder / "vllm.tar"
    with pytest.raises(WorkError, match="which is no file on this host"):
        image.plan(host.job(archive=str(archive)))
    archive.write_text("")
    with pytest.raises(WorkError, match=r"gave no registry\.lab/vllm"):
        work(host.job(archive=str(archive)))
    host.set(archive={NAME: ONE})
    with pytest.raises(WorkError) as caught:
        work(host.job(archive=str(archive), image_id=f"sha256:{TWO}"))
    assert caught.value.reason == "checksum"
    assert work(host.job(archive=str(archive), image_id=f"sha256:{ONE}"))["use"] == f"sha256:{ONE}"


def test_the_password_goes_by_a_file_that_goes(host: Host) -> None:
    work(host.job(), registry_password="s3cret")
    words, auth = next(call for call in host.calls() if call[0][0] == "pull")
    assert json.loads(auth) == {"auths": {"registry.lab": {"auth": base64.b64encode(b"me:s3cret").decode()}}}
    assert "s3cret" not in " ".join(words)
    assert not list((host.folder / "run").rglob("*.json"))


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ("unauthorized: authentication required s3cret", "denied"),
        ("manifest unknown", "not_found"),
        ("write /var/lib: no space left on device", "disk_full"),
        ("boom", "failed"),
    ],
)
def test_why_a_pull_failed(host: Host, says: str, reason: str) -> None:
    host.set(says=says)
    with pytest.raises(WorkError) as caught:
        work(host.job(), registry_password="s3cret")
    assert caught.value.reason == reason
    assert "s3cret" not in str(caught.value)
    assert not (host.folder / "engine_images.json").exists()


def test_no_space_and_no_engine(host: Host) -> None:
    with pytest.raises(WorkError) as caught:
        image.plan(host.job(size=1 << 60))
    assert caught.value.reason == "disk_full"
    with pytest.raises(WorkError) as caught:
        image.plan(host.job(runtime="/nowhere/docker"))
    assert caught.value.reason == "no_engine"


def test_old_images_go_but_none_that_is_ours_no_more_or_in_use(host: Host) -> None:
    names = [f"registry.lab/vllm:v0.{number}" for number in range(30, 34)]
    for number, name in enumerate(names):
        host.set(registry={name: str(number) * 64})
        work(host.job(name, keep=9))
    host.set(local={**host.local(), "foreign": "f" * 64})
    (host.folder / "gpufleet-engine-chat.service").write_text(f"ExecStart=podman run sha256:{'0' * 64} serve\n")
    answer = work(host.job(names[3], keep=1, refresh=True))
    assert answer["pruned"] == [names[1]]
    assert sorted(host.local()) == sorted(["foreign", names[0], names[2], names[3]])


def test_absent_asks_who_uses_it(host: Host) -> None:
    assert not image.absent(host.job(), check=False)["changed"]
    use = work(host.job())["use"]
    unit = host.folder / "gpufleet-engine-chat.service"
    unit.write_text(f"ExecStart=podman run {use} serve\n")
    with pytest.raises(WorkError, match="remove that instance first"):
        image.absent(host.job(), check=False)
    unit.unlink()
    assert image.absent(host.job(), check=True)["changed"]
    assert host.local() == {NAME: ONE}
    assert image.absent(host.job(), check=False)["changed"]
    assert host.local() == {}
