# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_container_check: exactly the GPUs that were given, by UUID, MIG devices instead of their parents, nothing left behind."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _container_check as check
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError
from ansible_collections.gpufleet.inference.plugins.module_utils._subprocess import Result

A, B = "GPU-0000000a-aaaa-bbbb-cccc-000000000000", "GPU-0000000b-aaaa-bbbb-cccc-000000000000"
M1, M2 = "MIG-00000001-aaaa-bbbb-cccc-000000000000", "MIG-00000002-aaaa-bbbb-cccc-000000000000"
LISTING = f"""GPU 0: NVIDIA H200 (UUID: {A})
  MIG 3g.71gb     Device  0: (UUID: {M1})
  MIG 3g.71gb     Device  1: (UUID: {M2})
GPU 1: NVIDIA H200 (UUID: {B})
"""


def test_mig_devices_stand_for_their_gpu() -> None:
    assert check.uuids(LISTING) == [M1, M2, B]


@pytest.mark.parametrize(
    ("outside", "wanted", "inside", "problems"),
    [
        ([A, B], [B], [B], []),
        ([A, B], [B], [A, B], [f"{A} is in the container and was not given to it"]),
        ([A, B], [A, B], [A], [f"{B} is not in the container"]),
        ([A], [B], [], [f"{B} is asked for and not on this host"]),
        ([M1, M2, B], [M2], [M2], []),
        ([M1, M2, B], [M2], [M1, M2], [f"{M1} is in the container and was not given to it"]),
        ([], [], [], ["NVML shows no GPU on this host, so there is nothing to compare with"]),
    ],
)
def test_compare(outside: list[str], wanted: list[str], inside: list[str], problems: list[str]) -> None:
    assert check.compare(outside, wanted, inside) == problems


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    answers: dict[str, Any] = {"asked": [], "run": Result("ok", 0, LISTING, "")}

    def run(argv: list[str], timeout: float = 0) -> Result:
        answers["asked"].append(argv)
        return answers.get(argv[1], Result("ok", 0, "", ""))

    monkeypatch.setattr(check, "run", run)
    monkeypatch.setattr(check.shutil, "which", lambda name, path: f"/usr/bin/{name}")
    return answers


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("cdi", ["--device", f"nvidia.com/gpu={A}", "--device", f"nvidia.com/gpu={M1}"]),
        ("runtime", ["--runtime", "nvidia", "-e", f"NVIDIA_VISIBLE_DEVICES={A},{M1}"]),
    ],
)
def test_gpus_are_given_by_name(commands: dict[str, Any], method: str, words: list[str]) -> None:
    assert check.in_container("podman", "image", method, [A, M1], [], ["nvidia-smi", "-L"], 5) == [M1, M2, B]
    argv = commands["asked"][0]
    start = argv.index(words[0])
    assert argv[start : start + len(words)] == words
    assert argv[argv.index("--pull") + 1] == "never"


def test_a_container_that_hangs_is_removed(commands: dict[str, Any]) -> None:
    commands["run"] = Result("timeout", None, "", "")
    with pytest.raises(HostError, match="no answer in time"):
        check.in_container("docker", "image", "cdi", [A], [], ["true"], 5)
    assert commands["asked"][1][:3] == ["/usr/bin/docker", "rm", "-f"]
    assert commands["asked"][1][3] in commands["asked"][0]


def test_the_dry_run_names_what_the_specification_lacks(commands: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    commands["cdi"] = Result("ok", 0, f"nvidia.com/gpu=0\nnvidia.com/gpu={A}\nnvidia.com/gpu={M1}\n", "")
    monkeypatch.setattr(check, "read_cdi", lambda: {"paths": {"/dev/nvidia0": {"type": "char"}, "/usr/lib/libcuda.so.1": None}})
    assert check.dry_run([A, M1, M2], 5) == ([A, M1], ["/usr/lib/libcuda.so.1 of the CDI specification is not there"])
