"""Advice of public deployment guides that is wrong: the gate answers it with what is right.

What a gate cannot see (habits, explanations) is answered in docs/matrix.md; a test there keeps the two apart.
"""

from __future__ import annotations

import typing as t

import pytest

from .conftest import Check, info, only

A100 = ("NVIDIA A100-SXM4-40GB",)
LAPTOP = ("NVIDIA GeForce RTX 4060 Laptop GPU",)


def engine(name: str, version: str | None, **more: t.Any) -> dict[str, t.Any]:
    return {
        "container_toolkit": {"version": "1.20.0"},
        "engines": [{"name": "llm", "engine": name, "version": version, "runtime": "docker", **more}],
    }


CLAIMS: list[tuple[str, dict[str, t.Any], dict[str, t.Any], str, str]] = [
    # what a guide says, host, stack, finding, what the answer must name
    (
        "the id nvidia/nemotron-3-ultra-32b",
        info(A100),
        engine("vllm", "0.33.0", model="nvidia/nemotron-3-ultra-32b"),
        "model.does_not_exist",
        "550B",
    ),
    (
        "Ultra runs on one or two A100 40 GB",
        info(A100 * 2),
        engine("vllm", "0.33.0", model="nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4"),
        "model.memory",
        "330 GB",
    ),
    (
        "vLLM 0.6.3 serves Ultra",
        info(),
        engine("vllm", "0.6.3", model="nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4"),
        "model.engine_too_old",
        "0.22.0",
    ),
    ("driver 550.54.14 is the recommended version", info(A100), {"driver": {"version": "550.54.14"}}, "driver.branch_ended", "620.70.06"),
    ("driver 550.54.14 is the recommended version", info(A100), {"driver": {"version": "550.54.14"}}, "driver.advisory", "550.163.01"),
    ("driver 550 + CUDA 12.4.1 is the base", info(A100), {"name": "guides-2024"}, "matrix.stack_out_of_support", "lts-580"),
    (
        "driver 535.x is fine, or forbidden for an invented reason",
        info(A100),
        {"driver": {"version": "535.309.01"}},
        "driver.branch_ended",
        "2026-06",
    ),
    ("driver 535.104.02", info(LAPTOP), {"driver": {"version": "535.104.02"}}, "matrix.denied", "never released"),
    ("cuDNN 8.9.7.23", info(A100), {"cudnn": "8.9.7.23"}, "matrix.denied", "8.9.7.29"),
    ("Ubuntu 24.04 with CUDA 12.4", info(A100, system="ubuntu2404"), {"cuda": {"toolkits": ["12.4.1"]}}, "cuda.not_in_repository", "12.5"),
    ("CentOS 7 needs only small changes", info(A100, system="centos7"), {"driver": {"version": "580.178.04"}}, "os.unsupported", "rhel7"),
    (
        "driver 535 carries CUDA 12.4",
        info(A100, driver="535.309.01"),
        {"cuda": {"toolkits": ["12.4.1"]}},
        "cuda.minor_version_compat",
        "550.54.15",
    ),
    ("any container toolkit", info(A100), {"container_toolkit": {"version": "1.17.4"}}, "container_toolkit.advisory", "1.19.1"),
    (
        "NVIDIA_DISABLE_REQUIRE=true as a fix",
        info(A100),
        engine("vllm", "0.33.0", env={"NVIDIA_DISABLE_REQUIRE": "true"}),
        "matrix.denied",
        "driver",
    ),
    ("--swap-space 16", info(A100), engine("vllm", "0.33.0", args=["--swap-space", "16"]), "engine.argument_gone", "0.18.0"),
    ("--kv-cache-dtype fp16", info(A100), engine("vllm", "0.33.0", args=["--kv-cache-dtype", "fp16"]), "engine.argument_gone", "float16"),
    ("--task embed", info(A100), engine("vllm", "0.33.0", args=["--task", "embed"]), "engine.argument_gone", "--runner"),
    (
        "--enable-flashinfer",
        info(A100),
        engine("sglang", "0.5.23", args=["--enable-flashinfer"]),
        "engine.argument_gone",
        "--attention-backend",
    ),
    (
        "the vLLM 0.27.1 image on driver 535 and a laptop GPU",
        info(LAPTOP, driver="535.309.01"),
        engine("vllm", None, image="vllm/vllm-openai:v0.27.1"),
        "engine.driver_too_old",
        "580.65.06",
    ),
    ("vLLM from the git tag v0.2.7", info(A100), engine("vllm", "0.2.7"), "matrix.denied", "0.27.1"),
    ("install nvidia-docker2", info(A100, over={"packages": {"set": {"nvidia-docker2": "2.13.0-1"}}}), {}, "matrix.denied", "superseded"),
]


@pytest.mark.parametrize(("claim", "facts", "stack", "name", "answer"), CLAIMS, ids=[f"{claim}: {name}" for claim, _, _, name, _ in CLAIMS])
def test_the_gate_answers(check: Check, claim: str, facts: dict[str, t.Any], stack: dict[str, t.Any], name: str, answer: str) -> None:
    found = only(check(facts, stack), name)
    assert answer in f"{found.message} {found.needed} {found.nearest} {found.fix}", claim


def test_what_guides_forbid_for_no_reason_is_not_forbidden(check: Check) -> None:
    """CUDA 12.5 with TensorRT-LLM 0.12.0 is what that release was built on; packages instead of runfiles are no finding either."""
    findings = check(info(A100, driver="580.178.04"), {"cuda": {"toolkits": ["12.5.1"]}, **engine("tensorrt_llm", "0.12.0")})
    assert not [item for item in findings if item.id.startswith("cuda.") and item.severity == "block"]


def test_cuda_12_1_needs_525_not_530(check: Check) -> None:
    findings = check(info(A100, driver="525.147.05"), {"cuda": {"toolkits": ["12.1.1"]}})
    assert "cuda.driver_too_old" not in [item.id for item in findings]
    assert only(findings, "cuda.minor_version_compat").needed == "driver 530.30.02 for all functions"
