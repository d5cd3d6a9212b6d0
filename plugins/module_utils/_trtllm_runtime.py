# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where trtllm-build runs, a venv or an image, and which versions it brings. Private to the collection.

Versions are read from package metadata by the very Python that will build. Neither tensorrt_llm nor torch is imported: each takes seconds
and refuses to load without a GPU.
"""

from __future__ import annotations

import json
import os
import typing as t

from ._errors import WorkError
from ._subprocess import Result, run

PROBE = """
import importlib.metadata as metadata, importlib.util as util, json, os, re
def version(*names):
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
def cuda():
    spec = util.find_spec("torch")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        try:
            found = re.search(r"^cuda[^=]*=\\s*'([0-9.]+)'", open(os.path.join(folder, "version.py")).read(), re.M)
        except OSError:
            found = None
        if found:
            return found.group(1)
    return os.environ.get("CUDA_VERSION")
tensorrt = version("tensorrt", "tensorrt_cu13", "tensorrt_cu12", "tensorrt_cu13_bindings", "tensorrt_cu12_bindings")
print(json.dumps({"tensorrt_llm": version("tensorrt_llm", "tensorrt-llm"), "tensorrt": tensorrt, "cuda": cuda()}))
"""
_PROBE_SECONDS, _IMAGE_SECONDS = 60, 180
_LIMITS = ("--ipc", "host", "--ulimit", "memlock=-1", "--ulimit", "stack=67108864")
"""As NVIDIA documents for its images."""


class Runtime(t.NamedTuple):
    """`kind` is venv, docker or podman; `place` the venv's folder or the image."""

    kind: str
    place: str

    @property
    def program(self) -> str:
        return os.path.join(self.place, "bin/trtllm-build") if self.kind == "venv" else "trtllm-build"

    def image_id(self) -> str:
        """Id of the image on this host, empty for a venv."""
        if self.kind == "venv":
            return ""
        result = run([self.kind, "image", "inspect", "--format", "{{.Id}}", self.place], timeout=30)
        if result.state == "missing":
            raise WorkError("no_runtime", f"{self.kind} is not on this host; install it, or use another runtime")
        if not result.success:
            raise WorkError("no_runtime", f"image {self.place} is not on this host ({_last(result)}); {self.kind} pull it first")
        return result.out.strip()

    def versions(self) -> dict[str, t.Optional[str]]:
        """tensorrt_llm, tensorrt and cuda of this runtime."""
        if self.kind == "venv":
            python = os.path.join(self.place, "bin/python3")
            if not os.path.exists(python) or not os.path.exists(self.program):
                lacks = "trtllm-build" if os.path.exists(python) else "Python"
                raise WorkError("no_runtime", f"venv is {self.place}, which has no {lacks} on this host; install TensorRT-LLM there first")
            result = run([python, "-I", "-c", PROBE], timeout=_PROBE_SECONDS)
        else:
            command = [self.kind, "run", "--rm", "--pull", "never", "--network", "none", "--entrypoint", "python3", self.place]
            result = run([*command, "-I", "-c", PROBE], timeout=_IMAGE_SECONDS)
        try:
            found = json.loads(result.out.strip().splitlines()[-1])
            return {name: found[name] for name in ("tensorrt_llm", "tensorrt", "cuda")}
        except (ValueError, IndexError, KeyError, TypeError):
            text = f"the Python of {self.place} does not say which versions it has: {_last(result)}"
            raise WorkError("no_runtime", text) from None

    def command(self, name: str, words: t.Sequence[str], devices: t.Sequence[str], checkpoint: str, output: str, cwd: str) -> list[str]:
        """trtllm-build with `words`; of a container only the checkpoint (to read), the output and the scratch folder are the host's."""
        build = ["--checkpoint_dir", checkpoint, "--output_dir", output, *words]
        if self.kind == "venv":
            return [self.program, *build]
        if self.kind == "docker":
            # The inner quotes are Docker's: without them the comma ends the option.
            gpus = ["--gpus", f'"device={",".join(devices)}"']
        else:
            gpus = [word for device in devices for word in ("--device", f"nvidia.com/gpu={device}")]
        mounts = [f"{checkpoint}:{checkpoint}:ro", f"{output}:{output}", f"{cwd}:{cwd}"]
        return [
            *(self.kind, "run", "--rm", "--name", name, "--pull", "never", "--network", "none", "--workdir", cwd),
            *(("--cgroups", "split") if self.kind == "podman" else ()),  # it stays in the unit, and ends with it
            *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", *_LIMITS, *gpus),
            *(word for mount in mounts for word in ("--volume", mount)),
            *("--env", f"HOME={cwd}", "--entrypoint", self.program, self.place, *build),
        ]

    def environment(self, devices: t.Sequence[str], cwd: str) -> dict[str, str]:
        """Of the builder in a venv, over a minimal one; of the container's command."""
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        if self.kind != "venv":
            return {"PATH": path, "HOME": "/root", "LC_ALL": "C.UTF-8"}
        own = {"PATH": f"{self.place}/bin:{path}", "HOME": cwd, "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
        return {**own, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(devices)}

    def clear(self, name: str) -> None:
        """Remove a container that a killed build left; Docker's do not end with their unit."""
        if self.kind != "venv":
            run([self.kind, "rm", "--force", name], timeout=60)


def _last(result: Result) -> str:
    lines = (result.err or result.out).strip().splitlines()
    return lines[-1] if lines else result.state
