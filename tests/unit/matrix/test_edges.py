"""Edges of the rules: hosts that must stay quiet to the last finding, and the words where a message depends on the host."""

from __future__ import annotations

import typing as t

import pytest

from .conftest import Check, ids, info, only
from .test_rules import CUDA13, GOOD, H100, LAPTOP, V100, driver, engine, mismatch, state, with_fabric, with_gpu, with_toolkit

B200 = "NVIDIA B200"


@pytest.mark.parametrize(
    ("facts", "stack", "expected"),
    [
        (GOOD, driver("620.70.06"), []),
        (GOOD, driver(branch=620, modules="open"), []),
        (GOOD, {"name": "lts-620"}, []),
        (info(driver=None), driver("620.70.06"), ["nvml.no_driver"]),
        (info(driver=None), {"cuda": {"toolkits": ["13.5.0"]}}, ["nvml.no_driver"]),
        (info((V100,), driver="580.178.04", modules="proprietary"), {"name": "lts-580-volta"}, ["cuda.advisory"]),
        (info((V100,), driver="580.178.04", modules="proprietary"), {}, []),
        (info((H100, "Tesla T4"), driver="595.91.07", modules="proprietary"), {}, []),
        (info(over={"host": {"secure_boot": {"state": "enabled", "mok_enrolled": False}}}), {}, []),
        (info(over={"host": {"secure_boot": {"state": "disabled", "mok_enrolled": False}}}), driver("620.70.06"), []),
        (
            info(over={"host": {"kernel": {"release": "3.10.0"}}}, driver="580.178.04", modules="proprietary"),
            driver("580.178.04", modules="proprietary"),
            [],
        ),
        (info(over={"host": {"kernel": {"release": ""}}}), driver("620.70.06", modules="open"), []),
        (info(over={"fabric": {"needed": False, "kind": "nvswitch"}}), {}, []),
        (info(over={"fabric": {"needed": True, "kind": "none"}}), {}, []),
        (with_fabric(manager=None), driver("595.91.07"), []),
        (info(driver=None, over={"fabric": {"needed": True, "kind": "nvswitch"}}), {}, ["nvml.no_driver"]),
        (with_toolkit(), {}, []),
        (with_toolkit(engines={"docker": {"version": None, "active": "inactive"}}), {"container_toolkit": {"version": "1.20.0"}}, []),
        (with_gpu(ecc={"current": True, "pending": None}, mig={"current": None, "pending": True}), {}, []),
        (info(over={"counts": {"pci": 8, "nvml": None, "expected": None}}), {}, []),
        (info(system="mint"), {}, ["os.unknown"]),
        (info(system="rocky8"), {}, ["os.unsupported"]),
        (info(()), {}, []),
        (GOOD, engine(), ["engine.unfixed_advisory"]),
        (GOOD, engine(version=None), []),
        (GOOD, engine(version="0.33.0", runtime="venv", python="3.12"), ["engine.unfixed_advisory"]),
        (info(("NVIDIA B300 SXM6 AC",)), engine("tensorrt_llm", "1.4.0rc1"), []),
        (GOOD, engine("vllm", "0.33.0", image="registry.local/vllm/vllm-openai:v0.33.0"), ["engine.unfixed_advisory"]),
        (info((V100, "NVIDIA Z9000"), driver="580.178.04", modules="proprietary"), {}, ["gpu.unknown"]),
    ],
)
def test_nothing_but_what_is_expected(check: Check, facts: dict[str, t.Any], stack: dict[str, t.Any], expected: list[str]) -> None:
    assert ids(check(facts, stack)) == expected


@pytest.mark.parametrize("product", ["NVIDIA B300 SXM6 AC"])
def test_code_of_the_same_family_is_enough_for_an_engine(check: Check, product: str) -> None:
    """CUDA 12.8 has code for 10.0, which runs on 10.3; an engine built with it is not refused."""
    assert "engine.cuda_lacks_gpu" not in ids(check(info((product,)), engine(version="0.10.2")))


def test_an_engine_with_a_minimum_above_the_gpu_gets_one_finding(check: Check) -> None:
    found = ids(check(info((V100,), driver="580.178.04"), engine(version="0.33.0")))
    assert "engine.compute_capability" in found
    assert "engine.cuda_lacks_gpu" not in found


def test_python_of_the_host_is_taken_where_the_instance_names_none(check: Check) -> None:
    old = info(over={"host": {"python": "3.9.2"}})
    assert "3.9.2" in only(check(old, engine(runtime="venv")), "engine.python").found
    assert "engine.python" not in ids(check(old, engine(runtime="venv", python="3.12")))
    assert "engine.python" not in ids(check(old, engine(runtime="docker")))


def test_the_wheel_decides_in_a_venv_and_the_image_in_a_container(check: Check) -> None:
    """vLLM 0.11.2: wheel CUDA 12.8, image CUDA 12.9: only the image knows 12.1 and 10.3 natively."""
    host = info(driver="470.256.02")
    assert "CUDA 12.8" in only(check(host, engine(version="0.11.2", runtime="venv", python="3.12")), "engine.driver_too_old").message
    assert "CUDA 12.9.1" in only(check(host, engine(version="0.11.2")), "engine.driver_too_old").message


def test_a_release_judged_by_an_uncertain_neighbour_follows_unknown(check: Check) -> None:
    host = info((V100,), driver="580.178.04")
    newer = engine(version="0.34.0")
    assert only(check(host, newer), "engine.compute_capability").severity == "block"
    assert only(check(host, newer, unknown="warn"), "engine.compute_capability").severity == "warn"
    assert only(check(host, engine(version="0.33.0"), unknown="warn"), "engine.compute_capability").severity == "block"
    # what another row decides is not softened
    denied = engine(version="0.34.0", image="vllm/vllm-openai:v0.33.0")
    assert only(check(host, denied, unknown="warn"), "engine.image_mismatch").severity == "block"


def test_arguments_without_a_version_are_judged_only_by_what_never_was(check: Check) -> None:
    def gone(*args: str) -> list[str]:
        return [item.found for item in check(GOOD, engine(version=None, args=list(args))) if item.id == "engine.argument_gone"]

    assert gone("--swap-space", "16") == []
    assert len(gone("--kv-cache-dtype", "fp16")) == 1


def test_cuda_compat_needs_an_accepted_branch(check: Check) -> None:
    stack = {"cuda": {"toolkits": ["13.0.2"], "compat": True}}
    assert "cuda.forward_compat" in ids(check(info(driver="535.309.01"), stack))
    assert "cuda.forward_compat_unsupported" in ids(check(info(driver="525.147.05"), stack))


def test_a_gpu_without_uuid_is_named_by_its_address(check: Check) -> None:
    assert only(check(with_gpu(uuid=None, state="lost")), "gpu.lost").subject == "0000:01:00.0"
    assert (only(check(with_gpu(state="lost")), "gpu.lost").subject or "").startswith("GPU-")


def test_lost_gpus_are_named_once_each(check: Check) -> None:
    document = with_gpu(state="lost")
    document["gpus"][1]["state"] = "lost"
    document.update(state="lost", reason="2 GPUs are lost")
    assert [item.subject for item in check(document) if item.id == "gpu.lost"] == [gpu["uuid"] for gpu in document["gpus"][:2]]
    assert only(check(state("lost")), "gpu.lost").subject is None, "a GPU that is not on the bus has no name"


WORDS: list[tuple[dict[str, t.Any], dict[str, t.Any], str, str, str]] = [
    # facts, stack, finding, field, fragment
    (mismatch("580.178.04", "620.70.06", "620.70.06"), {}, "nvml.mismatch", "fix", "Reboot the host."),
    (mismatch("580.178.04", "580.178.04", "535.309.01"), {}, "nvml.mismatch", "fix", "Find out who replaced"),
    (info(("NVIDIA GeForce RTX 4090",)), driver("525.60.13"), "driver.not_listed_for_gpu", "message", "known to run below it"),
    (info(("NVIDIA H200",)), driver("550.54.14"), "driver.not_listed_for_gpu", "message", "the first release that does."),
    (
        GOOD,
        driver("580.173.02"),
        "driver.advisory",
        "message",
        "1 NVIDIA security bulletin applies to driver 580.173.02 (5861; CVSS up to 7.8): 580.178.04 fixes it",
    ),
    (GOOD, driver("580.126.09"), "driver.advisory", "message", "2 NVIDIA security bulletins apply to"),
    (GOOD, driver("580.126.09"), "driver.advisory", "fix", "nvidia_driver_version: '580.178.04'"),
    (GOOD, driver("570.211.01"), "driver.advisory", "needed", "a branch that still gets fixes"),
    (GOOD, driver("570.211.01"), "driver.advisory", "fix", "nvidia_driver_branch: 620"),
    (GOOD, driver("580.178.04", source="distribution"), "driver.no_packages", "fix", "nvidia_driver_source: nvidia"),
    (info(("NVIDIA B200",), driver="570.211.01"), CUDA13, "cuda.driver_too_old", "fix", "cuda_toolkit_versions: ['12.8.2']"),
    (info(driver="470.256.02"), {"cuda": {"toolkits": ["12.4.1"]}}, "cuda.driver_too_old", "message", "470.256.02 is older."),
    (info((V100,), driver="580.178.04"), CUDA13, "cuda.architecture_dropped", "rule", "cuda_minor.13.0"),
    (info((V100,), driver="580.178.04"), CUDA13, "cuda.architecture_dropped", "needed", "still has"),
    (info((B200,)), {"cuda": {"toolkits": ["12.6.3"]}}, "cuda.architecture_missing", "rule", "cuda_minor.12.8"),
    (info((B200,)), {"cuda": {"toolkits": ["12.6.3"]}}, "cuda.architecture_missing", "fix", "cuda_toolkit_versions: ['13.5.0']"),
    (info(system="ubuntu2404"), {"cuda": {"toolkits": ["12.4.1"]}}, "cuda.not_in_repository", "fix", "cuda_toolkit_versions: ['12.5.0']"),
    (GOOD, CUDA13, "cuda.advisory", "nearest", "13.1"),
    (GOOD, CUDA13, "cuda.advisory", "fix", "Use a newer toolkit"),
    (
        info((V100,), driver="580.178.04"),
        {"cuda": {"toolkits": ["12.9.2"]}},
        "cuda.advisory",
        "message",
        "no longer supports the GPUs of this host",
    ),
    (info((V100,), driver="580.178.04"), {"cuda": {"toolkits": ["12.9.2"]}}, "cuda.advisory", "fix", "untrusted"),
    (GOOD, {**CUDA13, "cudnn": "8.9.7.29"}, "cudnn.cuda_mismatch", "fix", "Use cuDNN 9.28.1.4."),
    (with_fabric(kind="imex"), {}, "fabric.imex_missing", "nearest", "nvidia-imex 620.70.06"),
    (with_fabric(manager=None), {}, "fabric.manager_missing", "nearest", "nvidia-fabricmanager 620.70.06"),
    (with_fabric(kind="nvlink5", manager=None), {}, "fabric.manager_missing", "fix", "nvlsm"),
    (with_toolkit("1.19.0"), {}, "container_toolkit.advisory", "message", "1 known vulnerability of"),
    (with_toolkit("1.17.4"), {}, "container_toolkit.advisory", "message", "3 known vulnerabilities of"),
    (
        with_toolkit(engines={"docker": {"version": "25.0", "active": "active"}}),
        {},
        "container_toolkit.engine_too_old",
        "fix",
        "no-additional-gids-for-device-nodes",
    ),
    (GOOD, {"container_toolkit": {"version": "1.17.6"}}, "container_toolkit.unknown", "nearest", "1.17.5"),
    (GOOD, {"container_toolkit": {"version": "1.21.0"}}, "container_toolkit.unknown", "nearest", "1.20.0"),
    (GOOD, engine(version="0.34.0"), "engine.version_unknown", "message", "0.33.0, by which it is judged"),
    (GOOD, engine(version="0.1.0"), "engine.version_unknown", "message", "the nearest release that it knows is 0.33.0."),
    (GOOD, engine(version="0.31.0"), "engine.advisory", "message", "1 known vulnerability applies to vLLM 0.31.0"),
    (GOOD, engine(version="0.28.0"), "engine.advisory", "needed", "0.32.0 or newer"),
    (GOOD, engine(version="0.28.0"), "engine.advisory", "fix", "to 0.32.0 or newer"),
    (GOOD, engine("sglang", "0.5.20"), "engine.unfixed_advisory", "message", "CVE-2026-93034 names no fixed release of SGLang (RCE"),
    (GOOD, engine("vllm", "0.33.0"), "engine.unfixed_advisory", "message", "CVE-2026-105775 name no fixed"),
    (info((V100,), driver="580.178.04"), engine(), "engine.compute_capability", "fix", "vLLM 0.19.1"),
    (info((V100,), driver="580.178.04"), engine(), "engine.compute_capability", "nearest", "vLLM 0.19.1"),
    (info(("Tesla T4",)), engine("sglang", "0.5.23"), "engine.unfixed_advisory", "subject", "chat"),
    (GOOD, engine(runtime="venv", python="3.10"), "engine.python", "nearest", "vLLM 0.31.0"),
    (info((LAPTOP,), driver="535.309.01"), engine(version="0.27.1"), "engine.driver_too_old", "fix", "vLLM 0.19.1 is the newest release"),
    (
        info((LAPTOP,), driver="440.0"),
        engine(version="0.27.1"),
        "engine.driver_too_old",
        "fix",
        "Set nvidia_driver_branch: 620 and nvidia_driver_version: '620.70.06'.",
    ),
    (GOOD, engine(args=["--task", "embed"]), "engine.argument_gone", "nearest", "--runner/--convert"),
    (GOOD, {"name": "nothing-like-it"}, "matrix.stack_unknown", "message", "Stacks: guides-2023"),
]


@pytest.mark.parametrize(
    ("facts", "stack", "name", "field", "fragment"), WORDS, ids=[f"{name}.{field}: {text[:30]}" for _, _, name, field, text in WORDS]
)
def test_words(check: Check, facts: dict[str, t.Any], stack: dict[str, t.Any], name: str, field: str, fragment: str) -> None:
    assert fragment in str(getattr(only(check(facts, stack), name), field))


def test_an_older_unknown_toolkit_is_only_noted_and_a_newer_one_follows_unknown(check: Check) -> None:
    assert only(check(GOOD, {"container_toolkit": {"version": "1.17.6"}}), "container_toolkit.unknown").severity == "info"
    assert only(check(GOOD, {"container_toolkit": {"version": "1.21.0"}}, unknown="warn"), "container_toolkit.unknown").severity == "warn"


def test_memory_is_what_nvml_says_else_what_the_row_says(check: Check) -> None:
    stack = engine(model="nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4")  # 75 GB = 69.8 GiB
    assert "model.memory" not in ids(check(info((H100,)), stack))
    assert "model.memory" not in ids(check(info((H100,), driver=None), stack)), "80 GiB by the row"
    small = info((H100,))
    small["gpus"][0]["memory_bytes"] = {"total": 60 * 2**30}
    assert only(check(small, stack), "model.memory").found.startswith("60 GiB")
    assert "model.memory" not in ids(check(info(("NVIDIA Z9000",), driver=None), stack)), "unknown memory is not too little"
    assert "model.memory" not in ids(check(info(()), stack))
    assert "model.memory" not in ids(check(small, engine(model="nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", nodes=2)))
    assert "model.memory" in ids(check(small, engine(model="nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", nodes=1)))


def test_a_model_without_rows_or_without_an_engine_row_is_no_finding(check: Check) -> None:
    for model in ("nobody/own-model", {"id": "nobody/own-model"}, None):
        assert not [name for name in ids(check(GOOD, engine(model=model))) if name.startswith("model.")]
    omni = engine(version="0.33.0", model="nvidia/Nemotron-3-Nano-Omni-30B-A3B-Reasoning-BF16")
    assert not [name for name in ids(check(GOOD, omni)) if name.startswith("model.")]
    lightning = engine("sglang", "0.5.23", model="nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16")
    assert "model.engine_unsupported" not in ids(check(GOOD, lightning)), "a row without engines says nothing of them"


def test_a_model_may_be_given_as_a_mapping(check: Check) -> None:
    found = only(check(GOOD, engine(model={"id": "nvidia/nemotron-3-ultra-32b"})), "model.does_not_exist")
    assert found.subject == "chat"


def test_the_image_says_the_version_where_the_instance_does_not(check: Check) -> None:
    old = engine(version=None, image="vllm/vllm-openai:v0.21.0", model="nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4")
    assert "0.21.0" in only(check(GOOD, old), "model.engine_too_old").message
    assert "model.engine_too_old" not in ids(check(GOOD, {**old, "engines": [{**old["engines"][0], "image": "vllm/vllm-openai:v0.33.0"}]}))
    gone = engine(version=None, image="vllm/vllm-openai:v0.33.0", args=["--swap-space", "4"])
    assert "engine.argument_gone" in ids(check(GOOD, gone))


def test_arguments_of_another_engine_are_its_own(check: Check) -> None:
    assert "engine.argument_gone" not in ids(check(GOOD, engine("sglang", "0.5.23", args=["--swap-space", "4"])))
    assert "engine.argument_gone" not in ids(check(GOOD, engine("vllm", "0.33.0", args=["--enable-flashinfer"])))


def test_flags_are_removed_from_args_and_variables_from_env(check: Check) -> None:
    assert "from args of chat" in only(check(GOOD, engine(args=["--task", "embed"])), "engine.argument_gone").fix
    assert "from env of chat" in only(check(GOOD, engine(env={"VLLM_USE_V1": "1"})), "engine.argument_gone").fix


def test_an_instance_without_a_name_is_called_by_its_engine(check: Check) -> None:
    stack = {"engines": [{"engine": "vllm", "version": "0.33.0", "runtime": "docker", "model": "nvidia/nemotron-3-ultra-32b"}]}
    assert {item.subject for item in check(GOOD, stack) if item.component in ("engine", "model", "container_toolkit")} == {"vllm"}


def test_what_runs_counts_before_what_is_installed_before_what_nvml_says(check: Check) -> None:
    def judged(loaded: str | None, installed: str | None, nvml: str | None) -> str:
        document = info()
        document["driver"]["loaded"] = {"version": loaded, "kernel_modules": "open"} if loaded else None
        document["driver"]["installed"] = {"version": installed, "kernel_modules": "open"} if installed else None
        document["nvml"]["driver_version"] = nvml
        return only(check(document), "driver.branch_ended").found

    assert "535.309.01" in judged("535.309.01", "620.70.06", "620.70.06")
    assert "550.163.01" in judged(None, "550.163.01", "620.70.06")
    assert "570.211.01" in judged(None, None, "570.211.01")


def test_asking_for_modules_alone_asks_for_the_driver_that_is_there(check: Check) -> None:
    asked = check(info((B200,), modules="open"), driver(modules="proprietary"))
    assert only(asked, "driver.open_required").severity == "block"
    assert only(check(info((B200,), driver="595.91.07", modules="proprietary")), "driver.open_required").severity == "warn"


def test_a_driver_without_a_word_on_modules_leaves_them_to_the_role(check: Check) -> None:
    assert ids(check(info((B200,), driver="595.91.07", modules="proprietary"), driver("595.91.07"))) == []


def test_a_named_stack_gives_engines_their_version(check: Check) -> None:
    unnamed = engine(version=None, model="nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4")
    assert ids(check(GOOD, unnamed)) == []
    assert "0.33.0" in only(check(GOOD, {**unnamed, "name": "lts-620"}), "engine.unfixed_advisory").found
    own = engine(version="0.32.0")
    assert "0.32.0" in only(check(GOOD, {**own, "name": "lts-620"}), "engine.unfixed_advisory").found


def test_the_sites_own_words_stand_above_a_named_stack(check: Check) -> None:
    assert ids(check(GOOD, {"name": "lts-620", "driver": {"version": None, "branch": None}})) == []
    own = check(GOOD, {"name": "lts-620", "driver": {"version": "620.60.01"}})
    assert "driver.newer_than_matrix" not in ids(own)
    assert "580.173.02" in only(check(GOOD, {"name": "lts-580", "driver": {"version": "580.173.02"}}), "driver.advisory").found


def test_toolkits_that_a_repository_lists_are_no_finding(check: Check) -> None:
    old = {"cuda": {"toolkits": ["12.4.1"]}}
    assert "cuda.not_in_repository" not in ids(check(info(system="debian12"), old))
    assert "cuda.not_in_repository" in ids(check(info(system="debian13"), old))
    assert "cuda.not_in_repository" not in ids(check(info(system="mint"), old, unknown="warn")), "no repository, no statement"


def test_a_gpu_that_only_pci_knows_is_called_by_its_product(check: Check) -> None:
    bare = info((V100,), driver=None)
    assert only(check(bare, driver("595.91.07")), "driver.branch_too_new").subject == V100
    unknown = info(("NVIDIA Z9000",), driver=None)
    assert only(check(unknown), "gpu.unknown").subject == "PCI device 10de:ffff"


def test_several_gpus_are_counted(check: Check) -> None:
    assert only(check(info((V100,) * 4, driver=None), driver("595.91.07")), "driver.branch_too_new").found.startswith(f"4x {V100}")
