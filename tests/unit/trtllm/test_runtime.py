"""A builder in a container: what it is given of the host, and that it is asked for its versions once."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _trtllm_build, _trtllm_runtime
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import WorkError
from ansible_collections.gpufleet.inference.plugins.module_utils._subprocess import Result
from ansible_collections.gpufleet.inference.plugins.module_utils._trtllm_runtime import Runtime

from .conftest import UUIDS, Bench

IMAGE = "nvcr.io/nvidia/tensorrt-llm/release:1.2.1"
ANSWER = 'a banner\n{"tensorrt_llm": "1.2.1", "tensorrt": "10.14.1", "cuda": "13.1"}\n'


def command(kind: str) -> list[str]:
    return Runtime(kind, IMAGE).command("n", ["--gemm_plugin", "auto"], UUIDS, "/srv/cp", "/s/engine", "/s/scratch")


@pytest.mark.parametrize("kind", ["docker", "podman"])
def test_a_container_sees_checkpoint_output_and_gpus_and_nothing_else(kind: str) -> None:
    words = command(kind)
    mounts = [words[place + 1] for place, word in enumerate(words) if word == "--volume"]
    assert mounts == ["/srv/cp:/srv/cp:ro", "/s/engine:/s/engine", "/s/scratch:/s/scratch"]
    assert words[words.index("--network") + 1] == "none"
    assert words[words.index("--pull") + 1] == "never"
    assert words[words.index("--cap-drop") + 1] == "ALL"
    image = words.index(IMAGE)
    assert words[image - 2 : image] == ["--entrypoint", "trtllm-build"]
    assert words[image + 1 :] == ["--checkpoint_dir", "/srv/cp", "--output_dir", "/s/engine", "--gemm_plugin", "auto"]


def test_gpus_are_named_as_each_runtime_takes_them() -> None:
    docker, podman = command("docker"), command("podman")
    assert docker[docker.index("--gpus") + 1] == f'"device={UUIDS[0]},{UUIDS[1]}"'
    assert podman[podman.index("--cgroups") + 1] == "split", "so that it ends with its unit"
    assert "--cgroups" not in docker
    assert [word for word in podman if word.startswith("nvidia.com/gpu=")] == [f"nvidia.com/gpu={uuid}" for uuid in UUIDS]


def test_in_a_venv_they_are_named_in_the_environment() -> None:
    assert Runtime("venv", "/v").environment(UUIDS, "/s")["CUDA_VISIBLE_DEVICES"] == ",".join(UUIDS)
    assert "CUDA_VISIBLE_DEVICES" not in Runtime("podman", IMAGE).environment(UUIDS, "/s")


class Podman:
    """podman as far as the module asks it: an image with an id, a Python that answers, removals."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.inspect = Result("ok", 0, "sha256:one\n", "")
        self.answer = Result("ok", 0, ANSWER, "")

    def run(self, argv: t.Sequence[str], **_options: t.Any) -> Result:
        self.calls.append(list(argv))
        return {"image": self.inspect, "run": self.answer}.get(argv[1], Result("ok", 0, "", ""))

    def started(self) -> int:
        return sum(call[1] == "run" for call in self.calls)


@pytest.fixture
def podman(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Podman:
    podman = Podman()
    monkeypatch.setattr(_trtllm_runtime, "run", podman.run)
    bench.options.update(runtime="podman", image=IMAGE)
    venv = Runtime("venv", str(bench.venv))
    monkeypatch.setattr(_trtllm_build.Runtime, "command", lambda _self, *args: _local(venv, args))
    return podman


def _local(venv: Runtime, args: tuple[t.Any, ...]) -> list[str]:
    """The stand-in in place of the container."""
    _name, words, _devices, checkpoint, output, _cwd = args
    return [venv.program, "--checkpoint_dir", checkpoint, "--output_dir", output, *words]


def test_an_image_that_an_engine_was_built_with_is_not_asked_again(bench: Bench, podman: Podman) -> None:
    bench.work()
    before = podman.started()
    assert bench.state() == (False, False, [])
    assert podman.started() == before
    podman.inspect = Result("ok", 0, "sha256:two\n", "")  # rebuilt, with the same releases in it
    assert bench.state() == (False, False, [])
    assert podman.started() == before + 1


def test_a_container_that_was_left_is_removed_before_and_after(bench: Bench, podman: Podman) -> None:
    bench.work()
    removed = [call for call in podman.calls if call[1] == "rm"]
    assert removed == [["podman", "rm", "--force", "gpufleet-trtllm-llama"]] * 2


@pytest.mark.parametrize(
    ("inspect", "answer", "text"),
    [
        (Result("missing", 127, "", "podman: No such file"), None, "podman is not on this host"),
        (Result("ok", 1, "", "Error: no such image"), None, "podman pull it first"),
        (None, Result("ok", 1, "", "Error: no python3"), "does not say which versions it has: Error: no python3"),
        (None, Result("ok", 0, "[]\n", ""), "does not say which versions it has"),
        (None, Result("ok", 0, '{"tensorrt_llm": null, "tensorrt": null, "cuda": null}', ""), "has no TensorRT-LLM"),
    ],
)
def test_an_image_that_cannot_be_used_is_named(bench: Bench, podman: Podman, inspect: t.Any, answer: t.Any, text: str) -> None:
    podman.inspect, podman.answer = inspect or podman.inspect, answer or podman.answer
    with pytest.raises(WorkError, match=text) as caught:
        bench.wish()
    assert caught.value.reason == "no_runtime"
