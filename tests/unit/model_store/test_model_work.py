"""Fetching, verifying, patching, switching and pruning against a hub that fails on demand."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import jsonschema
import pytest
from model_hub import COMMIT, NEWER, HubServer, model, safetensors

from ansible_collections.gpufleet.inference.plugins.module_utils import _model_fetch, _model_work
from ansible_collections.gpufleet.inference.plugins.module_utils._model_hub import ModelError
from ansible_collections.gpufleet.inference.plugins.module_utils._model_layout import Layout
from ansible_collections.gpufleet.inference.plugins.module_utils._model_patch import merge_patch
from ansible_collections.gpufleet.inference.plugins.module_utils._model_verify import check_folder

Job = dict[str, t.Any]
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_model_fetch, "_WAITS", (0.01, 0.01))


def work(job: Job, token: str = "") -> dict[str, t.Any]:
    return _model_work.work(job, {"token": token}, lambda _progress: None)


def reason(job: Job, token: str = "") -> str:
    with pytest.raises(ModelError) as caught:
        work(job, token)
    return caught.value.reason


def content(path: str) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(Path(path).rglob("*")) if file.is_file()}


def test_a_revision_comes_whole_and_current_leads_to_it(job: Job) -> None:
    done = work(job)
    wanted = {name: data for name, data in model().items() if not name.startswith("original")}
    assert content(done["path"]) == wanted
    assert os.path.realpath(Layout(job["store"], "llama").current) == done["path"]
    assert not _model_work.state_of(job).work


def test_a_second_look_asks_nobody_and_reads_no_file(job: Job, hub: HubServer) -> None:
    work(job)
    hub.calls.clear()
    assert not _model_work.state_of(job).work
    assert hub.calls == []


def test_a_file_that_broke_off_is_resumed_where_it_ended(job: Job, hub: HubServer) -> None:
    name = "model-00001-of-00002.safetensors"
    hub.faults[name] = "once cut"
    work(job)
    ranges = [span for path, span in hub.calls if path.endswith(name)]
    half = len(model()[name]) // 2
    assert ranges == ["", f"bytes={half}-"]


def test_what_a_failed_run_fetched_is_not_fetched_again(job: Job, hub: HubServer) -> None:
    hub.faults["model-00002-of-00002.safetensors"] = "always 500"
    assert reason({**job, "workers": 1}) == "unreachable"
    assert not os.path.lexists(Layout(job["store"], "llama").current)
    hub.faults.clear()
    hub.calls.clear()
    work(job)
    assert [path.rpartition("/")[2] for path, _span in hub.calls[1:]].count("model-00001-of-00002.safetensors") == 0


@pytest.mark.parametrize("name", ["config.json", "model-00001-of-00002.safetensors"])  # known by git's blob id, and by SHA-256
def test_a_wrong_file_is_thrown_away_and_the_model_in_use_stays(job: Job, hub: HubServer, name: str) -> None:
    before = work(job)["path"]
    hub.faults = {name: "always wrong"}
    assert reason({**job, "revision": NEWER}) == "checksum"
    assert os.path.realpath(Layout(job["store"], "llama").current) == before
    assert not list(Path(job["store"]).rglob(name + "*.incomplete"))


def test_the_token_is_for_the_hub_alone(job: Job, hub: HubServer, cdn: HubServer) -> None:
    hub.token, hub.elsewhere = "secret", cdn
    work(job, "secret")
    assert set(hub.seen_tokens) == {"Bearer secret"}
    assert cdn.seen_tokens == ["", ""]


def test_refusals_of_the_hub_have_names(job: Job, hub: HubServer) -> None:
    assert reason({**job, "revision": "f" * 40}) == "not_found"
    hub.token = "secret"
    assert reason(job) == "denied"
    assert reason(job, "wrong") == "gated"
    assert reason({**job, "endpoint": "http://127.0.0.1:1"}) == "unreachable"
    assert reason({**job, "endpoint": "ftp://mirror"}) == "failed"


def test_an_answer_for_another_commit_is_refused(job: Job, hub: HubServer) -> None:
    hub.revisions[COMMIT] = (NEWER, model(2))
    assert reason(job) == "bad_answer"


def test_a_file_name_that_leads_out_of_the_folder_is_refused(job: Job, hub: HubServer, tmp_path: Path) -> None:
    hub.revisions[COMMIT] = (COMMIT, {"../../../evil": b"x"})
    assert reason(job) == "bad_answer"
    assert not list(tmp_path.rglob("evil"))


def test_a_branch_stays_where_it_led_until_a_refresh(job: Job, hub: HubServer) -> None:
    job["revision"] = "main"
    assert work(job)["identity"] == COMMIT
    hub.revisions["main"] = (NEWER, model(2))
    assert not _model_work.state_of(job).work
    job["refresh"] = True
    assert work(job)["identity"] == NEWER


def test_a_disk_that_is_too_small_is_seen_before_the_first_byte(job: Job, hub: HubServer) -> None:
    assert reason({**job, "reserve": 1 << 60}) == "disk_full"
    assert not any("resolve" in path for path, _span in hub.calls)
    with pytest.raises(ModelError, match="short"):
        _model_work.missing({**job, "reserve": 1 << 60}, "")


def test_patches_make_a_folder_of_their_own(job: Job) -> None:
    plain = work(job)["path"]
    patches = {"config.json": {"rope_theta": None, "rope": {"base": 5}}, "chat_template.jinja": "{{ x }}"}
    done = work({**job, "patches": patches})
    assert json.loads(Path(done["path"], "config.json").read_text()) == {"model_type": "llama", "seed": 1, "rope": {"base": 5}}
    assert Path(done["path"], "chat_template.jinja").read_text() == "{{ x }}"
    assert Path(plain, "config.json").read_bytes() == model()["config.json"]
    shard = "model-00001-of-00002.safetensors"
    assert os.path.samefile(f"{plain}/{shard}", f"{done['path']}/{shard}")
    assert done["previous"] == plain


def test_a_changed_patch_fetches_nothing(job: Job, hub: HubServer) -> None:
    work({**job, "patches": {"config.json": {"a": 1}}})
    hub.calls.clear()
    wish = {**job, "patches": {"config.json": {"a": 2}}}
    state = _model_work.state_of(wish)
    assert (state.fetch, state.patch, state.switch) == (False, True, True)
    work(wish)
    assert hub.calls == []


def test_a_patch_of_a_file_that_is_no_json_needs_its_whole_text(job: Job) -> None:
    assert reason({**job, "patches": {"tokenizer.model": {"a": 1}}}) == "bad_patch"


@pytest.mark.parametrize("patches", [{}, {"config.json": {"a": 1}}])
def test_going_back_needs_no_network(job: Job, hub: HubServer, patches: dict[str, t.Any]) -> None:
    job["patches"] = patches
    first = work(job)["path"]
    work({**job, "revision": NEWER})
    hub.calls.clear()
    assert work(job)["path"] == first
    assert hub.calls == []


def test_old_snapshots_go_but_not_the_one_that_patches_stand_on(job: Job) -> None:
    work(job)
    patched = {**job, "revision": NEWER, "patches": {"config.json": {"a": 1}}, "keep": 0}
    done = work(patched)
    assert sorted(os.listdir(Layout(job["store"], "llama").snapshots)) == sorted([NEWER, done["identity"]])
    assert not _model_work.state_of(patched).work


def test_patched_folders_that_are_out_of_use_go(job: Job) -> None:
    for value in (1, 2):
        done = work({**job, "patches": {"config.json": {"a": value}}})
    assert sorted(os.listdir(Layout(job["store"], "llama").snapshots)) == sorted([COMMIT, done["identity"]])


@pytest.mark.parametrize("harm", ["truncate", "remove", "touch"])
def test_a_snapshot_that_was_changed_is_brought_anew(job: Job, harm: str) -> None:
    path = Path(work(job)["path"], "model-00001-of-00002.safetensors")
    if harm == "truncate":
        path.write_bytes(path.read_bytes()[:-1])
    elif harm == "remove":
        path.unlink()
    else:
        os.utime(path, (1, 1))
    assert _model_work.state_of(job).fetch
    work(job)
    assert path.read_bytes() == model()[path.name]


def test_a_folder_serves_as_source(job: Job, tmp_path: Path) -> None:
    share = tmp_path / "share"
    for name, data in model().items():
        (share / name).parent.mkdir(parents=True, exist_ok=True)
        (share / name).write_bytes(data)
    wish = {**job, "repo": "", "revision": "", "path": str(share)}
    done = work(wish)
    assert content(done["path"])["config.json"] == model()["config.json"]
    assert not _model_work.state_of(wish).work
    (share / "config.json").write_text('{"model_type": "other"}')
    assert _model_work.state_of(wish).fetch
    (share / "model-00002-of-00002.safetensors").write_bytes(b"\x10")
    assert reason(wish) == "truncated"
    assert reason({**wish, "path": str(tmp_path / "nowhere")}) == "not_found"


@pytest.mark.parametrize(
    ("name", "data", "word"),
    [
        ("m.safetensors", safetensors(b"x" * 50)[:-1], "truncated"),
        ("m.safetensors", safetensors(b"x" * 50) + b"y", "damaged"),
        ("m.safetensors", b"\xff" * 64, "truncated"),
        ("m.safetensors", b"\x02\0\0\0\0\0\0\0{]", "damaged"),
        ("m.safetensors", b"", "truncated"),
        ("model.safetensors.index.json", b'{"weight_map": {"a": "gone.safetensors"}}', "incomplete"),
        ("model.safetensors.index.json", b"{}", "damaged"),
        ("config.json", b"{", "damaged"),
        ("config.json", b"[]", "damaged"),
    ],
)
def test_what_cannot_be_loaded_is_seen_without_loading_it(tmp_path: Path, name: str, data: bytes, word: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ModelError) as caught:
        check_folder(str(tmp_path))
    assert caught.value.reason == word


def test_own_digests_are_compared_as_well(job: Job) -> None:
    assert reason({**job, "sha256": {"config.json": "0" * 64}}) == "checksum"
    assert reason({**job, "sha256": {"nothing.json": "0" * 64}}) == "checksum"


@pytest.mark.parametrize(
    ("target", "patch", "merged"),
    [  # of the cases in RFC 7396, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch(target: t.Any, patch: t.Any, merged: t.Any) -> None:
    assert merge_patch(target, patch) == merged


def test_the_record_is_of_its_schema(job: Job) -> None:
    work({**job, "revision": "main", "patches": {"config.json": {"a": 1}}})
    schema = json.loads((ROOT / "schemas/state.schema.json").read_text())["$defs"]["model_record"]
    jsonschema.validate(json.loads(Path(Layout(job["store"], "llama").record).read_text()), schema)


def test_a_folder_that_is_not_ours_is_not_removed(job: Job) -> None:
    layout = Layout(job["store"], "llama")
    os.makedirs(layout.root)
    Path(layout.root, "precious").write_text("x")
    with pytest.raises(ModelError) as caught:
        _model_work.remove(layout)
    assert caught.value.reason == "taken"
    os.unlink(Path(layout.root, "precious"))
    work(job)
    assert _model_work.remove(layout)
    assert not os.path.exists(layout.root)
