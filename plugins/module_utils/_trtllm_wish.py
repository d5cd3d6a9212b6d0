# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine that is asked for, on this host as it is: its stamp and the job that would build it. Private to the collection."""

from __future__ import annotations

import typing as t

from ._errors import WorkError
from ._model_layout import Layout
from ._nvml import Options
from ._trtllm_checkpoint import Checkpoint, read_checkpoint
from ._trtllm_gpus import Gpus, read_gpus
from ._trtllm_runtime import Runtime
from ._trtllm_stamp import Stamp, arguments, identity, read_stamp


class Wish(t.NamedTuple):
    """What decides, and what a build needs besides."""

    stamp: Stamp
    runtime: Runtime
    devices: tuple[str, ...]
    words: list[list[str]]
    weights_bytes: int

    def target(self, layout: Layout) -> str:
        return layout.snapshot(identity(self.stamp))

    def job(self, options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """What `work` is given."""
        kept = {key: options[key] for key in ("name", "store", "checkpoint", "keep", "reserve", "build_timeout")}
        own = {"stamp": self.stamp, "words": self.words, "weights_bytes": self.weights_bytes, "devices": list(self.devices)}
        return {**kept, **own, "runtime": self.runtime.kind, "place": self.runtime.place}


def read_wish(options: t.Mapping[str, t.Any], layout: Layout, nvml: t.Optional[Options] = None) -> Wish:
    """Cheap things first: a wrong checkpoint is said before a container is started to ask for versions."""
    checkpoint = read_checkpoint(options["checkpoint"])
    _as_asked(checkpoint, options)
    gpus = read_gpus(options["gpus"], nvml)
    place = (
        (options["venv"] or f"/opt/gpufleet/engines/tensorrt_llm/{options['version']}")
        if options["runtime"] == "venv"
        else options["image"]
    )
    runtime = Runtime(options["runtime"], place)
    words = [[str(word) for word in option] for option in options["words"]]
    stamp = {**_versions(runtime, layout, options["version"]), **_facts(checkpoint, gpus), "arguments": arguments(words)}
    workers = min(checkpoint.ranks, len(gpus.uuids))
    if workers > 1 and not any(option[0] == "--workers" for option in words):
        words.append(["--workers", str(workers)])
    return Wish(stamp, runtime, gpus.uuids, words, checkpoint.weights_bytes)


def _as_asked(checkpoint: Checkpoint, options: t.Mapping[str, t.Any]) -> None:
    for name, flag in (("tensor_parallel", "tp_size"), ("pipeline_parallel", "pp_size")):
        have, asked = getattr(checkpoint, name), options[name]
        if asked is not None and asked != have:
            fix = f"convert it again with --{flag} {asked}, or set {name} to {have}"
            raise WorkError("wrong_checkpoint", f"{name} is {asked}; the checkpoint {options['checkpoint']} is for {have}: {fix}")


def _versions(runtime: Runtime, layout: Layout, asked: str) -> dict[str, t.Any]:
    """Of an image that an engine was built with they are known: no container is started to ask again."""
    image = runtime.image_id()
    used = read_stamp(layout.in_use()) or {}
    found = used if image and used.get("built_with") == image else runtime.versions()
    if not found["tensorrt_llm"]:
        raise WorkError("no_runtime", f"{runtime.place} has no TensorRT-LLM; install {asked} there")
    if str(found["tensorrt_llm"]).partition("+")[0] != asked:
        raise WorkError("wrong_version", f"version is {asked}; {runtime.place} has TensorRT-LLM {found['tensorrt_llm']}")
    return {**{name: found[name] for name in ("tensorrt_llm", "tensorrt", "cuda")}, "built_with": image}


def _facts(checkpoint: Checkpoint, gpus: Gpus) -> dict[str, t.Any]:
    parallel = {"tensor_parallel": checkpoint.tensor_parallel, "pipeline_parallel": checkpoint.pipeline_parallel}
    own = {"driver": gpus.driver, "gpu": gpus.product, "compute_capability": gpus.compute_capability}
    return {**parallel, **own, "checkpoint": checkpoint.identity}
