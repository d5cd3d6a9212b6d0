"""When an engine is built, what a failure leaves, and that a good one is never lost, with the stand-in of trtllm-build."""

from __future__ import annotations

import json
import os
import shutil
import time
import typing as t
from pathlib import Path

import jsonschema
import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _trtllm_work
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import WorkError

from .conftest import UUIDS, Bench, standin

ROOT = Path(__file__).resolve().parents[3]


def failure(bench: Bench, **over: t.Any) -> WorkError:
    with pytest.raises(WorkError) as caught:
        bench.work(**over)
    return caught.value


def content(path: str) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(Path(path).iterdir())}


def test_an_engine_is_built_once(bench: Bench) -> None:
    assert bench.state().differs == ["there is no engine yet"]
    done = bench.work()
    assert os.path.realpath(bench.layout.current) == done["path"]
    assert sorted(content(done["path"])) == ["config.json", "rank0.engine", "rank1.engine", "stamp.json"]
    assert bench.state() == (False, False, [])
    assert bench.work()["built"] is False
    assert len(bench.calls()) == 1
    (line,) = bench.calls()
    assert line[line.index("--workers") + 1] == "2"  # two GPUs are there for two ranks
    assert sorted(os.listdir(bench.layout.root)) == ["build.log", "current", "snapshots"]


def test_the_stamp_is_as_its_schema_says(bench: Bench) -> None:
    schema = json.loads((ROOT / "schemas/state.schema.json").read_text())
    stamp = json.loads(Path(bench.work()["path"], "stamp.json").read_text())
    jsonschema.Draft202012Validator({**schema["$defs"]["trtllm_stamp"], "$defs": schema["$defs"]}).validate(stamp)
    assert stamp["arguments"] == ["--gemm_plugin auto", "--max_batch_size 64"]
    assert (stamp["tensorrt_llm"], stamp["tensorrt"], stamp["cuda"]) == ("1.2.1", "10.14.1", "13.1")


def _driver(bench: Bench) -> None:
    bench.gpus = bench.gpus._replace(driver="580.126.09")


def _architecture(bench: Bench) -> None:
    bench.gpus = bench.gpus._replace(product="NVIDIA B200", compute_capability="10.0")


def _arguments(bench: Bench) -> None:
    bench.args(max_batch_size=32, gemm_plugin="auto")


def _weights(bench: Bench) -> None:  # the same sizes, as after training on
    standin.checkpoint(Path(bench.options["checkpoint"]), tensor=2, seed=9)


def _parallel(bench: Bench) -> None:
    standin.checkpoint(Path(bench.options["checkpoint"]), tensor=1, pipeline=2)


def _release(bench: Bench) -> None:
    bench.versions = {**bench.versions, "tensorrt_llm": "1.2.0"}
    bench.options["version"] = "1.2.0"
    flags = json.loads((bench.venv / "options.json").read_text())
    standin.make_venv(bench.venv, flags, bench.versions)


def _tensorrt(bench: Bench) -> None:
    flags = json.loads((bench.venv / "options.json").read_text())
    standin.make_venv(bench.venv, flags, {**bench.versions, "tensorrt": "10.15.1", "cuda": "13.2"})


CHANGES: list[tuple[t.Callable[[Bench], None], list[str]]] = [
    (_driver, ["driver: 580.95.05, now 580.126.09"]),
    (_architecture, ["GPU: NVIDIA H200, now NVIDIA B200", "compute capability: 9.0, now 10.0"]),
    (_arguments, ["arguments: without --max_batch_size 64, with --max_batch_size 32"]),
    (_weights, ["checkpoint: "]),
    (_parallel, ["tensor parallel size: 2, now 1", "pipeline parallel size: 1, now 2", "checkpoint: "]),
    (_release, ["TensorRT-LLM: 1.2.1, now 1.2.0"]),
    (_tensorrt, ["TensorRT: 10.14.1, now 10.15.1", "CUDA: 13.1, now 13.2"]),
]


@pytest.mark.parametrize(("change", "said"), CHANGES, ids=[change.__name__.strip("_") for change, _said in CHANGES])
def test_it_is_rebuilt_when_something_that_decides_has_changed_and_says_what(
    bench: Bench, change: t.Callable[[Bench], None], said: list[str]
) -> None:
    before = bench.work()["path"]
    change(bench)
    state = bench.state()
    assert state.build
    assert len(state.differs) == len(said)
    assert all(have.startswith(wanted) for have, wanted in zip(state.differs, said)), state.differs
    done = bench.work()
    assert done["previous"] == before
    assert bench.state() == (False, False, [])


def test_it_is_not_rebuilt_for_what_does_not_change_an_engine(bench: Bench) -> None:
    bench.work()
    bench.args(gemm_plugin="auto", max_batch_size=64, workers=1, log_level="verbose")  # another order, too
    os.utime(os.path.join(bench.options["checkpoint"], "rank0.safetensors"), (1, 1))
    bench.gpus = bench.gpus._replace(uuids=UUIDS[:1])
    assert bench.state() == (False, False, [])


def test_going_back_builds_nothing(bench: Bench) -> None:
    first = bench.work()["path"]
    _arguments(bench)
    bench.work()
    bench.args(max_batch_size=64, gemm_plugin="auto")
    state = bench.state()
    assert (state.build, state.switch) == (False, True)
    assert bench.work()["path"] == first
    assert len(bench.calls()) == 2


FAILED: list[tuple[dict[str, t.Any], str, str]] = [
    ({"fail": "memory"}, "out_of_memory", "fewer workers"),
    ({"fail": "disk"}, "disk_full", "make room"),
    ({"fail": "other"}, "build_failed", "check error log"),
    ({"skip": "rank1.engine"}, "incomplete", "rank1.engine of 2 has 0 bytes"),
    ({"config": {"version": "1.1.0"}}, "wrong", "has version 1.1.0, asked was 1.2.1"),
    ({"config": {"build_config": {"max_batch_size": 8}}}, "wrong", "has max_batch_size 8, asked was 32"),
    ({"config": {"pretrained_config": {"mapping": {"tp_size": 1, "pp_size": 1}}}}, "wrong", "has tp_size 1, asked was 2"),
]


@pytest.mark.parametrize(("behaviour", "reason", "text"), FAILED, ids=[f"{row[1]}: {row[0]}" for row in FAILED])
def test_a_failed_build_leaves_the_good_engine(bench: Bench, behaviour: dict[str, t.Any], reason: str, text: str) -> None:
    good = bench.work()["path"]
    before = content(good)
    _arguments(bench)
    bench.behave(**behaviour)
    error = failure(bench)
    assert error.reason == reason
    assert text in str(error)
    assert os.path.realpath(bench.layout.current) == good
    assert content(good) == before
    assert not os.listdir(os.path.join(bench.layout.root, "partial"))
    bench.behave()
    assert bench.work()["built"]


def test_a_failure_shows_the_last_lines_and_keeps_the_log(bench: Bench) -> None:
    bench.behave(fail="memory")
    error = failure(bench)
    assert error.details["log"][-1] == standin.FAILURES["memory"]
    assert standin.FAILURES["memory"] in Path(bench.layout.root, "build.log").read_text()


def test_a_build_without_an_end_is_ended(bench: Bench) -> None:
    bench.behave(seconds=60)
    begun = time.monotonic()
    error = failure(bench, build_timeout=0.2)
    assert error.reason == "timeout"
    assert time.monotonic() - begun < 4


def test_progress_is_the_last_line(bench: Bench) -> None:
    bench.behave(seconds=0.4)
    seen: list[dict[str, t.Any]] = []
    wish = bench.wish()
    _trtllm_work.work(wish.job(bench.options), {}, seen.append)
    assert any("Building engine for rank" in one["text"] for one in seen)


def test_what_a_killed_build_left_is_cleared(bench: Bench) -> None:
    left = Path(bench.layout.partial("x"), "engine")
    left.mkdir(parents=True)
    (left / "rank0.engine").write_bytes(b"half")
    bench.work()
    assert not left.exists()


@pytest.mark.parametrize("harm", ["truncate", "remove", "add"])
def test_an_engine_that_was_changed_is_built_anew(bench: Bench, harm: str) -> None:
    path = Path(bench.work()["path"])
    if harm == "truncate":
        (path / "rank0.engine").write_bytes(b"short")
    elif harm == "remove":
        (path / "rank1.engine").unlink()
    else:
        (path / "rank2.engine").write_bytes(b"foreign")
    assert bench.state().differs == ["files of the engine were changed or lost"]
    bench.work()
    assert bench.state() == (False, False, [])
    assert sorted(content(str(path))) == ["config.json", "rank0.engine", "rank1.engine", "stamp.json"]


def test_a_stamp_of_a_newer_version_of_this_collection_is_refused_and_stays(bench: Bench) -> None:
    stamp = Path(bench.work()["path"], "stamp.json")
    stamp.write_text(stamp.read_text().replace('"schema": 1', '"schema": 2'))
    with pytest.raises(Exception, match="understands up to 1"):
        bench.state()


def test_old_engines_go_the_one_before_stays(bench: Bench) -> None:
    folders = []
    for size in (1, 2, 3):
        bench.args(max_batch_size=size)
        folders.append(bench.work()["path"])
    assert sorted(os.listdir(bench.layout.snapshots)) == sorted(os.path.basename(path) for path in folders[1:])


def test_a_disk_that_is_too_small_is_seen_before_the_build(bench: Bench) -> None:
    error = failure(bench, reserve=1 << 60)
    assert error.reason == "disk_full"
    assert "short" in str(error)
    assert bench.calls() == []


def _gone(bench: Bench) -> None:
    shutil.rmtree(bench.options["checkpoint"])


def _hugging_face(bench: Bench) -> None:
    Path(bench.options["checkpoint"], "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}')


def _no_mapping(bench: Bench) -> None:
    Path(bench.options["checkpoint"], "config.json").write_text('{"mapping": {"tp_size": 2}}')


def _wrong_mapping(bench: Bench) -> None:
    Path(bench.options["checkpoint"], "config.json").write_text('{"architecture": "L", "mapping": {"tp_size": "two"}}')


def _context_parallel(bench: Bench) -> None:
    Path(bench.options["checkpoint"], "config.json").write_text('{"architecture": "L", "mapping": {"tp_size": 1, "world_size": 2}}')


def _no_json(bench: Bench) -> None:
    Path(bench.options["checkpoint"], "config.json").write_text("{")


def _cut_off(bench: Bench) -> None:
    path = Path(bench.options["checkpoint"], "rank1.safetensors")
    path.write_bytes(path.read_bytes()[:-1])


def _lost_rank(bench: Bench) -> None:
    Path(bench.options["checkpoint"], "rank1.safetensors").unlink()


def _no_venv(bench: Bench) -> None:
    shutil.rmtree(bench.venv)


def _no_builder(bench: Bench) -> None:
    (bench.venv / "bin/trtllm-build").unlink()


def _other_version(bench: Bench) -> None:
    bench.options["version"] = "1.2.0"


def _other_size(bench: Bench) -> None:
    bench.options["tensor_parallel"] = 4


BAD: list[tuple[t.Callable[[Bench], None], str, str]] = [
    (_gone, "not_found", "no config.json on this host"),
    (_hugging_face, "wrong_checkpoint", "serve this folder as it is"),
    (_no_mapping, "wrong_checkpoint", "expected a TensorRT-LLM checkpoint"),
    (_wrong_mapping, "wrong_checkpoint", "mapping.tp_size of"),
    (_context_parallel, "wrong_checkpoint", "for 2 GPUs with tp_size 1"),
    (_no_json, "damaged", "not valid JSON"),
    (_cut_off, "truncated", "rank1.safetensors"),
    (_lost_rank, "incomplete", "lacks rank1.safetensors"),
    (_no_venv, "no_runtime", "has no Python"),
    (_no_builder, "no_runtime", "has no trtllm-build"),
    (_other_version, "wrong_version", "has TensorRT-LLM 1.2.1"),
    (_other_size, "wrong_checkpoint", "convert it again with --tp_size 4, or set tensor_parallel to 2"),
]


@pytest.mark.parametrize(("harm", "reason", "text"), BAD, ids=[harm.__name__.strip("_") for harm, _reason, _text in BAD])
def test_bad_input_is_named_and_nothing_is_touched(bench: Bench, harm: t.Callable[[Bench], None], reason: str, text: str) -> None:
    good = bench.work()["path"]
    harm(bench)
    error = failure(bench)
    assert error.reason == reason  # type: ignore[attr-defined]
    assert text in str(error)
    assert os.path.realpath(bench.layout.current) == good


def test_only_what_is_ours_is_removed(bench: Bench) -> None:
    bench.work()
    Path(bench.layout.root, "notes.txt").write_text("mine")
    with pytest.raises(WorkError, match=r"notes\.txt"):
        _trtllm_work.remove(bench.layout)
    assert os.path.isdir(bench.layout.current)
    Path(bench.layout.root, "notes.txt").unlink()
    _trtllm_work.remove(bench.layout)
    assert not os.path.exists(bench.layout.root)
